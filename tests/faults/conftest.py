"""Trees to do harm to, and what must hold afterwards."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

OLD = b"def recipe(cfg):\n    cfg.dist.use_megatron_fsdp = True\n    return cfg\n"
NEW = (
    b"def recipe(cfg):\n    cfg.ddp.use_megatron_fsdp = True\n"
    b'    cfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"\n    cfg.ddp.average_in_collective = False\n'
    b'    cfg.checkpoint.ckpt_format = "fsdp_dtensor"\n    return cfg\n'
)
PROGRAM = shutil.which("fsdp-migrate", path=os.path.dirname(sys.executable)) or "fsdp-migrate"
MANY = 1000 if os.environ.get("FSDP_MIGRATE_FAULTS") == "all" else 80


def tree(folder: Path, count: int) -> list[Path]:
    """`count` old recipes in folders of twenty."""
    files = [folder / f"part{n // 20}" / f"recipe{n}.py" for n in range(count)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(OLD)
    return files


def start(*arguments: str | Path, cwd: Path, **options: object) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=cwd, **(pipes | options))  # type: ignore[call-overload,no-any-return]


def run(*arguments: str | Path, cwd: Path, **options: object) -> subprocess.CompletedProcess[bytes]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 120}
    return subprocess.run([PROGRAM, *map(str, arguments)], cwd=cwd, check=False, **(pipes | options))  # type: ignore[call-overload,no-any-return]


def demand_whole(files: list[Path]) -> int:
    """Every file is the old or the new one; how many are new."""
    contents = [file.read_bytes() for file in files]
    assert set(contents) <= {OLD, NEW}
    return contents.count(NEW)


def others(folder: Path, files: list[Path]) -> list[str]:
    """What is in the tree besides."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir() and p not in set(files))


def chance(*seed: object) -> random.Random:
    return random.Random(repr(seed))
