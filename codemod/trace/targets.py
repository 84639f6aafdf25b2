"""What a target means: which files to run, under which module name, with which folders to import from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fsdp_migrate.trace.upstream import FRAMEWORK_NAMESPACES

_MARKERS: Final = (".git", "pyproject.toml", "setup.py", "setup.cfg", ".hg")
_SKIPPED_FOLDERS: Final = frozenset(
    {"__pycache__", "node_modules", "build", "dist", "site-packages", "venv", "test", "tests"}
)
_MAY_HOLD_RECIPE: Final = re.compile(
    rb"^(?:async[ ]+)?def[ ]+[A-Za-z]\w*_config\b | \b(?:pretrain|finetune)\( | ConfigContainer\("
    rb"| ^\w*(?:cfg|config|recipe|overrides)\w*[ ]*(?::[^=\n]+)?=[ ]*(?:\{|\w[\w.]*\()",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)


class TargetError(ValueError):
    """A target that does not exist or is not Python."""


@dataclass(frozen=True, slots=True)
class Target:
    """One file to run.

    Attributes:
        file: absolute.
        names: what to evaluate in it; empty for every recipe.
        module: its dotted name.
        roots: folders that absolute imports are resolved in, nearest first.
        top: the project root; places are shown relative to it.
    """

    file: Path
    names: tuple[str, ...]
    module: str
    roots: tuple[Path, ...]
    top: Path


def resolve(targets: Sequence[str], project_root: Path | None = None) -> tuple[Target, ...]:
    """Read ``file``, ``file::name`` and folder targets. Several names of one file become one target.

    Raises:
        TargetError: a path does not exist, is no Python file, or holds none.
    """
    wanted: dict[Path, list[str]] = {}
    for target in targets:
        text, separator, name = target.partition("::")
        path = Path(os.path.normpath(Path(text).absolute()))
        if path.is_dir():
            if separator:
                raise TargetError(f"{target}: {text} is a folder; name a file before ::")
            for file, source in python_files(path):
                if may_hold_recipe(source):
                    wanted.setdefault(file, [])
        elif path.is_file():
            if path.suffix != ".py":
                raise TargetError(f"{target}: {text} is not a Python file")
            if separator and not name:
                raise TargetError(f"{target}: name a function after ::")
            names = wanted.setdefault(path, [])
            if separator and name not in names:
                names.append(name)
        else:
            raise TargetError(f"{text} does not exist")
    return tuple(_target(file, names, project_root) for file, names in wanted.items())


def python_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The Python files below a folder and their sources, in a stable order; no tests, no hidden folders."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED_FOLDERS
            and not Path(parent, name, "pyvenv.cfg").is_file()
        )
        for name in sorted(files):
            file = Path(parent, name)
            if name.endswith(".py") and not name.startswith("test_") and name not in ("conftest.py", "setup.py"):
                try:
                    source = file.read_bytes()
                except OSError:
                    continue
                yield file, source


def may_hold_recipe(source: bytes) -> bool:
    """Whether running a file with this source can give a recipe. Errs to yes."""
    return _MAY_HOLD_RECIPE.search(source) is not None


def _target(file: Path, names: Iterable[str], project_root: Path | None) -> Target:
    top = _top(file, project_root)
    package = file.parent
    while (package / "__init__.py").is_file() and package != top:
        package = package.parent
    while package.name in FRAMEWORK_NAMESPACES and package != top:
        package = package.parent
    home = package
    if not (file.parent / "__init__.py").is_file() and file.parent == package:
        # A folder without an __init__ is imported from the project root, or from its src folder.
        home = top / "src" if file.is_relative_to(top / "src") else top
    parts = file.relative_to(home).with_suffix("").parts
    if parts[-1] == "__init__" and len(parts) > 1:
        parts = parts[:-1]
    roots = [
        parent
        for parent in file.parents
        if parent.is_relative_to(top)
        and parent.name not in FRAMEWORK_NAMESPACES
        and not (parent / "__init__.py").is_file()
    ]
    roots += [home, top / "src", top]
    return Target(file, tuple(names), ".".join(parts), tuple(dict.fromkeys(roots)), top)


def _top(file: Path, project_root: Path | None) -> Path:
    if project_root is not None and file.is_relative_to(project_root.absolute()):
        return Path(os.path.normpath(project_root.absolute()))
    for parent in file.parents:
        if any((parent / marker).exists() for marker in _MARKERS):
            return parent
    # No project in sight, as in an unpacked wheel: the folder that holds the outermost package.
    outermost = file.parent
    for parent in file.parents:
        if (parent / "__init__.py").is_file() or parent.name in FRAMEWORK_NAMESPACES:
            outermost = parent.parent
    return outermost
