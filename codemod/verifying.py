"""``--verify``: what a run would write, held against what every recipe ends up with before and after."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fsdp_migrate.run import Outcome
from fsdp_migrate.trace import Comparison, Status, verify
from fsdp_migrate.trace.targets import resolve
from fsdp_migrate.worktree import toplevel

if TYPE_CHECKING:
    from rich.console import Console


def verified(outcomes: Sequence[Outcome], target: str) -> tuple[list[Outcome], tuple[Comparison, ...]]:
    """The outcomes without the changes that a recipe would notice, and the verdict on every recipe they can affect.

    Raises:
        TraceError: the recipes could not be traced at all.
    """
    changed = {Path(o.result.path).absolute(): o.result.output for o in outcomes if o.result.changed}
    if not changed:
        return list(outcomes), ()
    verdicts = verify(changed, _root(changed), release=target or None)
    held = dict(_held(verdicts, changed))
    return [_without(o, held[p]) if (p := Path(o.result.path).absolute()) in held else o for o in outcomes], verdicts


def _root(files: dict[Path, bytes]) -> Path:
    """Where callers are looked for: the repository, else what holds the packages of everything that changes."""
    tops = [str(target.top) for target in resolve([str(file) for file in files if file.suffix == ".py"])]
    common = os.path.commonpath(tops or [str(file.parent) for file in files])
    return Path(toplevel(common) or common)


def _held(verdicts: Sequence[Comparison], changed: dict[Path, bytes]) -> Iterator[tuple[Path, Comparison]]:
    """The files that must stay as they are, because a recipe that needs them would be different."""
    for verdict in verdicts:
        if verdict.status is not Status.DIFFERENT:
            continue
        sides = [s for d in verdict.differences for s in (d.before, d.after) if s is not None]
        files = {Path(verdict.file).absolute(), *(Path(s.file).absolute() for s in sides)} & changed.keys()
        # A setting that is gone names no file: then everything that changes is suspect.
        for file in files or changed:
            yield file, verdict


def _without(outcome: Outcome, verdict: Comparison) -> Outcome:
    result = outcome.result
    why = f"--verify: {verdict.name} would end up different ({verdict.differences[0]}); look at it by hand"
    fixed = set(map(id, result.fixed))
    findings = tuple(replace(f, fix=None, why=why) if id(f) in fixed else f for f in result.findings)
    return replace(outcome, result=replace(result, output=result.source, fixed=(), findings=findings))


def table(verdicts: Sequence[Comparison], console: Console) -> None:
    """One row a recipe: its verdict, and what it is about."""
    from rich.table import Table
    from rich.text import Text

    rows = Table(title=f"{len(verdicts)} recipes before and after", title_justify="left")
    for column in ("verdict", "recipe", "file", "detail"):
        rows.add_column(column, overflow="fold")
    styles = {Status.DIFFERENT: "bold red", Status.NOT_VERIFIED: "yellow", Status.DECLARED: "yellow"}
    here = os.getcwd()
    for verdict in sorted(verdicts, key=lambda v: (list(Status).index(v.status), v.file, v.name)):
        detail = "; ".join(map(str, verdict.differences)) or verdict.detail
        detail = detail or ", ".join(setting.path for setting in verdict.companions)
        file = os.path.relpath(verdict.file, here) if verdict.file.startswith(here + os.sep) else verdict.file
        cells = (verdict.status.value, verdict.name, file, detail)
        rows.add_row(*map(Text, cells), style=styles.get(verdict.status, ""))
    console.print(rows)
