"""The flag sown into code that has nothing to do with it: only its own lines may change."""

from __future__ import annotations

import ast
import difflib
import random
import sysconfig
from pathlib import Path

import pytest

from fsdp_migrate.api import migrate_source

LIBRARY = Path(sysconfig.get_path("stdlib"))
SEEDS = 60
SOWN = (
    "cfg.dist.use_megatron_fsdp = True",
    "cfg.dist.use_megatron_fsdp = False",
    "cfg.dist.use_megatron_fsdp = cfg.ddp.use_megatron_fsdp = flag",
    "self.dist.use_megatron_fsdp = self.flag",
    "cfg.ddp.use_megatron_fsdp = True",
    "setattr(cfg.dist, 'use_megatron_fsdp', True)",
    "if cfg.dist.use_megatron_fsdp: pass",
    "cfg = ConfigContainer(dist=DistributedInitConfig(use_megatron_fsdp=True), ddp=DistributedDataParallelConfig())",
    "words = ['dist.use_megatron_fsdp=true', 'ddp.use_megatron_fsdp=false']",
)
OURS = (
    "DistributedInitConfig",
    "use_megatron_fsdp",
    "data_parallel_sharding_strategy",
    "average_in_collective",
    "ckpt_format",
    "pass",
)


def sown(seed: int) -> tuple[str, str]:
    """A file of the standard library with lines of ours at random places."""
    dice = random.Random(seed)
    files = sorted(file for file in LIBRARY.glob("*.py") if file.stat().st_size < 60_000)
    file = dice.choice(files)
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    places = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    for node in sorted(dice.sample(places, min(4, len(places))), key=lambda node: -node.lineno):
        line = lines[node.lineno - 1]
        if line[: node.col_offset].strip() == "" and not getattr(node, "decorator_list", []):
            lines.insert(node.lineno - 1, line[: node.col_offset] + dice.choice(SOWN) + "\n")
    return file.name, "".join(lines)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
def test_only_lines_of_the_flag_change(seed: int, unsafe: bool) -> None:
    from fsdp_migrate.api import Options

    name, text = sown(seed)
    try:
        ast.parse(text)
    except SyntaxError:
        return  # what was sown does not stand there, in front of an elif for example
    result = migrate_source(text.encode(), name, Options(unsafe=unsafe))
    if "a second run" in result.error:
        # Containers made in a loop, over an outer config of the same name: refused as a whole.
        assert result.output == text.encode()
        return
    assert not result.error
    after = result.output.decode()
    ast.parse(after)
    diff = difflib.ndiff(text.splitlines(), after.splitlines())
    changed = [line[2:] for line in diff if line[:1] in "+-"]
    assert all(any(word in line for word in OURS) for line in changed), changed
