"""Shared by the tests of `fsdp_migrate.trace`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fsdp_migrate.trace import TracedRecipe, trace_targets


class Repository:
    """A folder of sources that a test writes and traces."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "pyproject.toml").touch()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))

    def trace(self, *targets: str, **options: Any) -> tuple[TracedRecipe, ...]:
        options.setdefault("release", "")
        return trace_targets([str(self.root / target) for target in targets], **options)

    def one(self, source: str, **options: Any) -> TracedRecipe:
        """The only recipe in a file with this source."""
        self.write({"recipe.py": source})
        [recipe] = self.trace("recipe.py", **options)
        return recipe


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root = tmp_path / "repository"
    root.mkdir()
    return Repository(root)
