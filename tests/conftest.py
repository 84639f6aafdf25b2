"""Shared by all tests."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def wheel(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Unpacked Megatron-Bridge wheels by release, kept in $FSDP_MIGRATE_WHEELS or pytest's cache."""

    def unpacked(release: str) -> Path:
        given = os.environ.get("FSDP_MIGRATE_WHEELS")
        cache = Path(given) if given else request.config.cache.mkdir("wheels")
        folder = cache / release
        if not (folder / "megatron").is_dir():
            download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--python-version", "3.12"]
            download += ["--only-binary=:all:", f"megatron-bridge=={release}", "-d", str(cache)]
            subprocess.run(download, check=True)
            with zipfile.ZipFile(cache / f"megatron_bridge-{release}-py3-none-any.whl") as archive:
                archive.extractall(folder)
        return folder

    return unpacked
