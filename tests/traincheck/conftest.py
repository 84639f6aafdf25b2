"""Runs of the training check on CPU ranks, and the releases they run with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

Settings = Mapping[str, Any]
Rehearse = Callable[..., dict[str, Any]]

SHARDED: Settings = {
    "ddp.use_megatron_fsdp": True,
    "ddp.data_parallel_sharding_strategy": "optim_grads_params",
    "ddp.overlap_grad_reduce": True,
    "ddp.overlap_param_gather": True,
    "optimizer.lr": 3e-3,
}
"""What a recipe needs to be sharded and to learn something in a few steps."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fsdp_migrate.traincheck", *arguments]


@pytest.fixture(scope="session")
def rehearse(tmp_path_factory: pytest.TempPathFactory) -> Rehearse:
    """Check recipes, given as settings by name, and return the JSON report by name. Nothing may be left behind."""

    def run(recipes: Mapping[str, Settings], *options: str, python_path: Sequence[Path] = ()) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("rehearsal")
        entries = [{"name": name, "settings": dict(settings)} for name, settings in recipes.items()]
        (folder / "recipes.json").write_text(json.dumps(entries), encoding="utf-8")
        (folder / "tmp").mkdir()
        arguments = ["--settings", "recipes.json", "--backend", "rehearsal", "--report", "report.json", *options]
        environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
        environment["PYTHONPATH"] = os.pathsep.join(map(str, python_path))
        done = subprocess.run(
            command(*arguments), cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False
        )
        assert (folder / "report.json").exists(), done.stderr
        assert list((folder / "tmp").iterdir()) == []
        report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        report["exit"], report["stdout"] = done.returncode, done.stdout
        report["recipes"] = {recipe["name"]: recipe for recipe in report["recipes"]}
        return report

    return run


@pytest.fixture(scope="session")
def megatron_core(request: pytest.FixtureRequest) -> Callable[[str], list[Path]]:
    """A newer Megatron-Core than pip installs on this Python, to put on PYTHONPATH.

    Kept in $FSDP_MIGRATE_MEGATRON_CORE or pytest's cache. The wheels for CPython 3.12 run on 3.11; only the dataset
    helper in them is compiled.
    """

    def unpacked(release: str) -> list[Path]:
        given = os.environ.get("FSDP_MIGRATE_MEGATRON_CORE")
        cache = Path(given) if given else Path(request.config.cache.mkdir("megatron-core"))
        folder, libraries = cache / release, cache / "libraries"
        pip = [sys.executable, "-m", "pip"]
        if not (folder / "megatron").is_dir():
            where = ["--python-version", "3.12", "--implementation", "cp", "--platform", "manylinux_2_28_x86_64"]
            download = [*pip, "download", "-q", "--no-deps", "--only-binary=:all:", *where, "-d", str(cache)]
            subprocess.run([*download, f"megatron-core=={release}"], check=True)
            [wheel] = cache.glob(f"megatron_core-{release}-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
        if not (libraries / "triton").is_dir():  # imported from 0.18 on, though nothing here runs it
            subprocess.run([*pip, "install", "-q", "--no-deps", "--target", str(libraries), "triton"], check=True)
        return [folder, libraries]

    return unpacked
