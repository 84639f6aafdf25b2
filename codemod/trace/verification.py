"""Trace everything a change can affect, before and after, and compare. Nothing is written for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from fsdp_migrate.trace.comparison import Comparison, compare
from fsdp_migrate.trace.run import trace_targets
from fsdp_migrate.trace.targets import may_hold_recipe, python_files

_IMPORTS: Final = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
_NAME: Final = re.compile(rb"\w+")


def verify(changed: Mapping[Path, bytes], project_root: Path, **options: Any) -> tuple[Comparison, ...]:
    """Compare the recipes that a change can affect.

    Args:
        changed: the new sources, by path; the old ones are on disk.
        project_root: where callers of the changed files are looked for.
        options: passed to `trace_targets`.

    Raises:
        TraceError: the tracing as a whole could not be done.
    """
    targets = [str(file) for file in affected_files(changed, project_root)]
    if not targets:
        return ()
    with ThreadPoolExecutor(2) as pool:  # each waits for a process of its own
        before = pool.submit(trace_targets, targets, **options)
        after = pool.submit(trace_targets, targets, replaced=changed, **options)
        return compare(before.result(), after.result())


def affected_files(changed: Iterable[Path], project_root: Path) -> tuple[Path, ...]:
    """The files that may hold recipes and are changed, or import a changed file directly or through others.

    Imports are matched by the last names of modules, without resolving them: too many files rather than too few.
    """
    sources = dict(python_files(project_root.absolute()))
    mentioned = {file: _imported_names(source) for file, source in sources.items()}
    reached = {file.absolute() for file in changed}
    names = {_module_name(file) for file in reached}
    while True:
        further = {file for file, imports in mentioned.items() if file not in reached and imports & names}
        if not further:
            break
        reached |= further
        names |= {_module_name(file) for file in further}
    return tuple(file for file, source in sources.items() if file in reached and may_hold_recipe(source))


def _module_name(file: Path) -> bytes:
    return (file.parent.name if file.stem == "__init__" else file.stem).encode()


def _imported_names(source: bytes) -> frozenset[bytes]:
    """Every name in an import statement: parts of modules and what is imported from them."""
    found: set[bytes] = set()
    for match in _IMPORTS.finditer(source):
        for part in match.groups():
            found.update(_NAME.findall(part or b""))
    return frozenset(found)
