"""What is read out of one scope: places in the syntax, and events before they are told apart by root.

A `Path` is a dotted name as a tuple: ``cfg.ddp.use_megatron_fsdp`` is ``("cfg", "ddp", "use_megatron_fsdp")``. Its
first part is `STALE` if it was reached through an alias that may point elsewhere by now.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from fsdp_migrate.python.settings import Note
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import NEW_SECTION, OLD_SECTION

Path = tuple[str, ...]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = Function | ast.ClassDef | ast.Module

STALE: Final = "?"


@dataclass(frozen=True, slots=True)
class Site:
    """Where an event stands in the syntax.

    `form` names the shape: store, setattr, replace, keyword, key, word, read, probe, section, setting and the like.
    `owner` is the call, dict or list that a keyword, key or word belongs to.
    """

    id: int
    form: str
    root: Path
    section: str
    statement: ast.stmt
    node: ast.expr | ast.keyword
    owner: ast.expr | None = None
    value: ast.expr | None = None
    target: int = 0
    guarded: bool = False
    spelled: str = ""
    double: bool = False


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something about a root that no rewrite can be right about; `reason` ends in what to do."""

    root: Path
    node: ast.AST
    reason: str


@dataclass(slots=True)
class Fork:
    """Events with blocks inside, before they are told apart by root."""

    kind: str
    blocks: list[list[Item]]


@dataclass(frozen=True, slots=True)
class Pass:
    """A path is handed to somebody. `opaque`: who may store into it."""

    id: int
    path: Path
    opaque: bool
    call: ast.Call | None = None


Item = tuple[Path, plan.Event] | Fork | Pass | plan.Leave | plan.Touch | plan.Observe | plan.MayRaise


@dataclass(eq=False)
class Reading:
    """What was read out of one scope."""

    scope: Scope
    items: list[Item] = field(default_factory=list)
    sites: dict[int, Site] = field(default_factory=dict)
    blocked: list[Blocked] = field(default_factory=list)
    reads: list[Site] = field(default_factory=list)
    probes: list[Site] = field(default_factory=list)
    guarded: list[Site] = field(default_factory=list)
    orphans: list[Site] = field(default_factory=list)
    forwarded: list[Site] = field(default_factory=list)
    bare: list[Site] = field(default_factory=list)
    dumped: list[ast.expr] = field(default_factory=list)
    partial: set[Path] = field(default_factory=set)
    aliens: set[Path] = field(default_factory=set)
    locals: frozenset[str] = frozenset()
    companion_reads: set[Path] = field(default_factory=set)
    returned: set[Path | None] = field(default_factory=set)
    parameters: list[str] = field(default_factory=list)
    bases: list[Function] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    fails: bool = False

    def roots(self) -> list[Path]:
        """Roots whose flag is stored here, in order of appearance."""
        stored = (s.root for s in self.sites.values() if s.section in (OLD_SECTION, NEW_SECTION))
        read = (s.root for s in self.reads if s.section == OLD_SECTION)
        return [root for root in dict.fromkeys((*stored, *read)) if root not in self.aliens]


def relevant(root: Path, path: Path) -> bool:
    """Whether whoever gets `path` can see the flag of `root`: the root, its owner or one of its two sections."""
    if path == root[: len(path)]:
        return True
    rest = path[len(root) :]
    return path[: len(root)] == root and rest[:1] in ((OLD_SECTION,), (NEW_SECTION,)) and len(rest) == 1
