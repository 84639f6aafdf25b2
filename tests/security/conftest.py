"""A repository that wants to run code, and the command that looks at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = b"""\
def recipe(cfg):
    cfg.dist.use_megatron_fsdp = True
    return cfg
"""


def command(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The installed command, as a shell would run it."""
    program = shutil.which("fsdp-migrate", path=os.path.dirname(sys.executable)) or "fsdp-migrate"
    return subprocess.run(
        [program, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


def git(*arguments: str, cwd: Path) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *settings, *arguments], cwd=cwd, check=True, capture_output=True)


class Trap:
    """Programs that leave a trace when they run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.program = folder / "program"
        self.program.write_text(f'#!/bin/sh\necho "$0 $@" >> {folder}/sprung\ncat\n')
        self.program.chmod(0o755)
        self.python = f"open({str(folder / 'sprung')!r}, 'a').write(__name__)\n"

    @property
    def sprung(self) -> str:
        trace = self.folder / "sprung"
        return trace.read_text() if trace.exists() else ""


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "trap")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "pkg").mkdir(parents=True)
    git("init", "-q", cwd=folder)
    (folder / "recipe.py").write_bytes(RECIPE)
    (folder / "pkg" / "other.py").write_bytes(RECIPE)
    git("add", "-A", cwd=folder)
    git("commit", "-qm", "x", cwd=folder)
    return folder
