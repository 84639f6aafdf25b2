"""Read one scope: statements in, the plan's events out, with the sites in the syntax that they stand for.

A `Path` is a dotted name as a tuple: ``cfg.ddp.use_megatron_fsdp`` is ``("cfg", "ddp", "use_megatron_fsdp")``. Aliases
are resolved while reading (``d = cfg.dist`` makes ``d`` mean ``("cfg", "dist")``); where two branches disagree about an
alias it is stale, and a use of it is for the user to look at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fsdp_migrate.python.project import Module, Project
from fsdp_migrate.python.settings import CONSUMERS, LOOKUPS, Arm, Note, Where, keywords, leaves, set_default
from fsdp_migrate.python.sites import STALE, Blocked, Fork, Function, Item, Pass, Path, Reading, Scope, Site
from fsdp_migrate.python.statements import statements
from fsdp_migrate.python.values import dotted, expression, literal, words_of
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import (
    BRIDGE_PACKAGE,
    COMPANIONS,
    CORE_PACKAGE,
    FLAG,
    LM_PACKAGE,
    NEW_SECTION,
    OLD_CLASS,
    OLD_SECTION,
    SECTION_CLASSES,
    SECTIONS,
    WATCHED,
)

_DOUBLES: Final = frozenset({"MagicMock", "Mock", "NonCallableMagicMock", "NonCallableMock", "AsyncMock"})
_NAMESPACES: Final = frozenset({"SimpleNamespace"})
# Calls that look at a config and leave it as it is.
_LOOKING: Final = frozenset(
    """
    print isinstance issubclass len repr str type id hasattr getattr vars format sorted bool int float list
    tuple dict set any all min max sum enumerate zip deepcopy copy asdict debug info warning error exception log
    critical print_rank_0 print_rank_last warn_rank_0 log_rank_0
    """.split()  # noqa: SIM905
)
# Of those, the ones that hand out what can be written to.
_HANDING: Final = frozenset({"getattr", "vars"})
# What expects an exception: the config is wrong on purpose.
_RAISES: Final = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
# A call that could make a whole container has one of these in its text.
_CONTAINER: Final = re.compile(rf"ConfigContainer|\b{OLD_SECTION}\s*=")
_DOTTED: Final = re.compile(rf"(?:\w+\.)+{OLD_SECTION}\.{FLAG}")
# Names under which a bare dist section is usually held.
_BARE: Final = frozenset({"dist", "dist_cfg", "dist_config", "distributed_init", "distributed_init_config"})


class Reader:
    """Reads one scope. `call_depth` limits how far helpers and bases are followed."""

    def __init__(self, module: Module, project: Project, scope: Scope, call_depth: int = 0) -> None:
        self.module, self.project, self.depth = module, project, call_depth
        self.reading = Reading(scope)
        self.env: dict[Path, Path] = {}
        self.statement: ast.stmt = scope.body[0]
        self.guarded = False
        self.trying = 0
        self.calls: dict[int, ast.Call] = {}
        self.once: tuple[ast.expr, str] | None = None
        self.containers: dict[int, Path] = {}
        self.attached: dict[str, Path] = {}
        self.shared: dict[str, ast.Call] = {}
        self.locals: set[str] = set()
        self.nested: dict[str, Function] = {}
        self.where: Where = ()

    # ── Entry ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self) -> Reading:
        scope = self.reading.scope
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = scope.args
            every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            self.reading.parameters = [a.arg for a in every]
        self._survey(scope.body)
        self.reading.items = self.block(scope.body)
        self.reading.locals = frozenset({*self.locals, *self.reading.parameters})
        return self.reading

    def _survey(self, body: list[ast.stmt]) -> None:
        """Find section objects that are made in a variable and attached to one container, before reading."""
        last = body[-1].end_lineno or 0
        lines = self.module.source
        text = lines.text[lines.starts[body[0].lineno - 1] : lines.starts[min(last, len(lines.starts) - 1)]]
        containers = _CONTAINER.search(text) is not None
        made: dict[str, list[ast.expr]] = {}
        attached: dict[str, list[tuple[Path, str]]] = {}
        for statement in statements(body, nested=False):
            targets = _targets(statement)
            for target, value in targets:
                if isinstance(target, ast.Name):
                    made.setdefault(target.id, []).append(value)
                    self.locals.add(target.id)
                path = dotted(target)
                if path and len(path) > 1 and path[-1] in SECTIONS and isinstance(value, ast.Name):
                    attached.setdefault(value.id, []).append((path[:-1], path[-1]))
            for call in _own_calls(statement) if containers else ():
                keywords = {k.arg: k.value for k in call.keywords}
                if not any(s in keywords for s in SECTIONS) or not self.is_container(call):
                    continue
                root: Path | None = None
                for target, value in targets:
                    path = dotted(target)
                    if value is call and path:
                        root = path
                root = root or (f"<{call.lineno}:{call.col_offset}>",)
                self.containers[id(call)] = root
                for section in SECTIONS:
                    given = keywords.get(section)
                    if isinstance(given, ast.Name):
                        attached.setdefault(given.id, []).append((root, section))
        for name, places in attached.items():
            values = made.get(name, [])
            if len(values) != 1 or not isinstance(values[0], ast.Call) or name in self.reading.parameters:
                continue
            if len(places) == 1:
                root, section = places[0]
                self.attached[name] = (*root, section)
                self.env[(name,)] = (*root, section)
            else:
                self.shared[name] = values[0]

    def is_container(self, call: ast.Call) -> bool:
        name = _last(call.func)
        if name == "ConfigContainer":
            return True
        keywords = {k.arg: k.value for k in call.keywords}
        value = keywords.get(OLD_SECTION)
        if value is None:
            return False
        if isinstance(value, ast.Call):
            return self.section_class(value) == OLD_SECTION or (
                _last(value.func) in _DOUBLES | _NAMESPACES and any(k.arg == FLAG for k in value.keywords)
            )
        return False

    # ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def path(self, node: ast.AST) -> Path | None:
        """The canonical path of an expression, aliases resolved; its first part is `STALE` if an alias is."""
        raw = dotted(node)
        if raw is None:
            return None
        for length in range(len(raw), 0, -1):
            if raw[:length] in self.env:
                return (*self.env[raw[:length]], *raw[length:])
        return raw

    def target_path(self, node: ast.expr) -> Path | None:
        """The path of what a store names: its owner's aliases count, not what the name stood for until now."""
        if isinstance(node, ast.Name):
            return self.attached.get(node.id, (node.id,))
        if isinstance(node, ast.Attribute):
            owner = self.path(node.value)
            return (*owner, node.attr) if owner is not None else None
        return self.path(node)

    def bind(self, path: Path, target: Path | None) -> None:
        """`path` now names another object: `target` if it is an alias."""
        for key, value in list(self.env.items()):
            if key[: len(path)] == path:
                del self.env[key]
            elif value[: len(path)] == path and key[0] not in self.attached:
                self.env[key] = (STALE, *value)
        if target is not None and target[: len(path)] != path:
            self.env[path] = target

    def new(self) -> int:
        """A number for an event; helpers' events stand among ours, so it is unique in the project."""
        return next(self.project.numbers)

    def site(
        self,
        form: str,
        root: Path,
        section: str,
        node: ast.expr | ast.keyword,
        *,
        owner: ast.expr | None = None,
        value: ast.expr | None = None,
        target: int = 0,
        spelled: str = "",
        double: bool = False,
    ) -> Site:
        number = self.new()
        site = Site(
            number, form, root, section, self.statement, node, owner, value, target, self.guarded, spelled, double
        )
        if self.guarded:
            self.reading.guarded.append(site)
        else:
            self.reading.sites[number] = site
        return site

    def note(self, path: Path | None, value: ast.expr | None) -> None:
        """A store, or with no value a chance to store, for whoever asks for the settings of this scope."""
        if path is not None:
            self.reading.notes.append(Note(path, value, self.where))

    def block_root(self, root: Path, node: ast.AST, reason: str) -> None:
        self.reading.blocked.append(Blocked(root, node, reason))

    def flag_path(self, node: ast.expr) -> tuple[Path, str] | None:
        """Root and section of an expression that names a flag section: ``cfg.dist`` or an alias of it."""
        path = self.path(node)
        if path is not None:
            if len(path) > 1 and path[-1] in (OLD_SECTION, NEW_SECTION):
                return path[:-1], path[-1]
            return None
        if isinstance(node, ast.Attribute) and node.attr in (OLD_SECTION, NEW_SECTION):
            return (f"<{ast.unparse(node.value)}>",), node.attr
        return None

    # ── Classes ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def section_class(self, call: ast.Call) -> str | None:
        """The section that a constructor call makes, or None if the class is not Bridge's or Core's."""
        name = _last(call.func)
        section = SECTION_CLASSES.get(name or "")
        if name not in SECTION_CLASSES or section is None:
            imported = self.module.imports.get(name or "")
            if imported is None or imported[1] not in SECTION_CLASSES or not isinstance(call.func, ast.Name):
                return None
            section = SECTION_CLASSES[imported[1]]
        return section if self.is_bridge_class(call.func) else None

    def is_bridge_class(self, func: ast.expr) -> bool:
        """Whether a class is Megatron-Bridge's (or Core's), as far as imports tell; no import at all counts as yes."""
        path = dotted(func)
        if path is None:
            return False
        if len(path) > 1:
            imported = self.module.imports.get(path[0])
            if imported is None:
                return False
            origin = ".".join(p for p in imported if p)
        else:
            found = self.project.origin(self.module, path[0])
            if found is None:
                return not self.module.stars or any(_within(s, BRIDGE_PACKAGE) for s in self.module.stars)
            origin = found
        if origin.startswith("."):
            return "/megatron/bridge/" in origin.replace("\\", "/") or "megatron/bridge/" in origin
        return (
            _within(origin, BRIDGE_PACKAGE)
            or _within(origin, CORE_PACKAGE)
            or _within(origin, LM_PACKAGE)  # the same shape; whether it may move is decided per file
        )

    # ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def block(self, body: Sequence[ast.stmt]) -> list[Item]:
        items: list[Item] = []
        begun = self.guarded
        for statement in body:
            self.statement = statement
            if self.trying and _may_raise(statement):
                items.append(plan.MayRaise())
            items += self.read_statement(statement)
            self.statement = statement
            if isinstance(statement, ast.If) and not self.guarded and self.is_guard(statement.test):
                # What follows a guard that leaves is its other branch.
                self.guarded = _leaves(statement.body) or _leaves(statement.orelse)
        if self.guarded and not begun:
            self.guarded = False
            items += [(root, plan.Opaque(self.new())) for root in {s.root for s in self.reading.guarded}]
        return items

    def arms(self, *bodies: Sequence[ast.stmt]) -> list[list[Item]]:
        """Blocks of which one runs: each starts from the same aliases, afterwards those that disagree are stale."""
        before, outside, fork = dict(self.env), self.where, self.new()
        blocks: list[list[Item]] = []
        ends: list[dict[Path, Path]] = []
        for number, body in enumerate(bodies):
            self.env, self.where = dict(before), (*outside, Arm(fork, number, leaves(body)))
            blocks.append(self.block(body))
            if not _leaves(body):
                ends.append(self.env)
        self.env, self.where = _merge(ends) if ends else before, outside
        return blocks

    def loop_body(self, body: Sequence[ast.stmt]) -> list[Item]:
        """A body that runs again: what it does to aliases is known when it starts over."""
        before = dict(self.env)
        rebound = {dotted(t) for s in statements(body, nested=False) for t, _ in _targets(s)}
        for key in list(self.env):
            value = self.env[key]
            if (key in rebound and not _rebound_first(key, body)) or (
                any(r is not None and value[: len(r)] == r and r != key for r in rebound)
                and key[0] not in self.attached
            ):
                self.env[key] = (STALE, *value)
        outside, self.where = self.where, (*self.where, Arm(self.new()))
        items = self.block(body)
        self.env, self.where = _merge([before, self.env]), outside
        return items

    def read_statement(self, s: ast.stmt) -> list[Item]:
        match s:
            case ast.Assign(targets, value):
                return self.assign(s, targets, value)
            case ast.AnnAssign(target, _, value):
                return self.assign(s, [target], value) if value is not None else []
            case ast.AugAssign():
                return self.augmented(s)
            case ast.Expr(value):
                return self.expression_statement(value)
            case ast.Return(value):
                return self.returning(value)
            case ast.Raise():
                return [*self.events(s), plan.Leave("raise")]
            case ast.Break():
                return [plan.Leave("break")]
            case ast.Continue():
                return [plan.Leave("continue")]
            case ast.If(test, body, orelse):
                return self.conditional(s, test, body, orelse)
            case ast.For(target, iterable, body, orelse) | ast.AsyncFor(target, iterable, body, orelse):
                return self.for_loop(target, iterable, body, orelse)
            case ast.While(test, body, orelse):
                head = self.events(test)
                inner = self.loop_body(body)
                return [*head, Fork("loop", [[*inner, *head], self.block(orelse)])]
            case ast.With(items, body) | ast.AsyncWith(items, body):
                return self.with_block(items, body)
            case ast.Try() | ast.TryStar():
                return self.attempt(s)
            case ast.Match(subject, cases):
                head = self.events(subject)
                for case in cases:
                    if case.guard is not None:
                        head += self.events(case.guard)
                arms = self.arms(*(c.body for c in cases), [])
                if any(
                    c.guard is None and isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None for c in cases
                ):
                    arms = arms[:-1]
                return [*head, Fork("branch", arms)]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.nested[s.name] = s
                heads: list[ast.expr] = [*s.decorator_list, *s.args.defaults, *(d for d in s.args.kw_defaults if d)]
                events = [e for head in heads for e in self.events(head)]
                self.bind((s.name,), None)
                return events
            case ast.ClassDef():
                heads = [*s.decorator_list, *s.bases, *(k.value for k in s.keywords)]
                return [e for head in heads for e in self.events(head)]
            case ast.Delete(targets):
                return self.deletion(targets)
            case ast.Import() | ast.ImportFrom():
                names = frozenset((a.asname or a.name.split(".")[0]) for a in s.names)
                return [plan.Touch(self.new(), names)]
            case _:
                return self.events(s)

    # ── Stores ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def assign(self, s: ast.stmt, targets: list[ast.expr], value: ast.expr) -> list[Item]:
        items: list[Item] = []
        replaced = self.replace_call(targets, value)
        paths = [self.target_path(t) for t in targets]
        if replaced is not None:
            return replaced
        section = next((p for p in paths if p and len(p) > 1 and p[-1] in SECTIONS), None)
        making = isinstance(value, ast.Call) and (
            section is not None or any(isinstance(t, ast.Name) and t.id in self.attached for t in targets)
        )
        if not making and id(value) not in self.containers:
            items += self.events(value)
        marker = f"#{self.new()}"
        if len(targets) > 1:
            # One evaluation for all targets: the same value now, another one at any other time.
            self.once = (value, marker)
            items.append(plan.Touch(self.new(), frozenset({marker})))
        for i, (target, path) in enumerate(zip(targets, paths, strict=True)):
            items += self.store(s, i, target, path, value, len(targets))
        if len(targets) > 1:
            items.append(plan.Touch(self.new(), frozenset({marker})))
        return items

    def flag_value(self, value: ast.expr, root: Path) -> plan.Expression:
        """What a store into the flag of `root` puts there."""
        found = expression(value, self.flag_of(root), self.module.source)
        calls = any(isinstance(atom, plan.Symbol) and not atom.pure for atom in found)
        if calls and self.once is not None and self.once[0] is value:
            marker = self.once[1]
            return (plan.Symbol(ast.unparse(value) + marker, self.module.source.segment(value), frozenset({marker})),)
        return found

    def store(
        self, s: ast.stmt, index: int, target: ast.expr, path: Path | None, value: ast.expr, targets: int
    ) -> list[Item]:
        items: list[Item] = []
        if isinstance(target, ast.Tuple | ast.List | ast.Starred):
            return self.unpack(target)
        if isinstance(target, ast.Attribute) and target.attr == FLAG:
            return self.flag_store(target, value, index)
        if isinstance(target, ast.Subscript) and _is_text(target.slice, FLAG):
            return self.flag_subscript(target, value, index)
        if isinstance(target, ast.Subscript):
            items += self.events(target.slice)
        if path is None:
            return items + self.events(target)
        items.append(plan.Touch(self.new(), frozenset({".".join(path)})))
        if id(value) not in self.containers:
            is_leaf = len(path) > 2 and not isinstance(value, ast.Call | ast.Dict)
            leaf = Note(path, value, self.where, shared=targets > 1)
            self.reading.notes += [leaf] if is_leaf else keywords(path, value, self.where)
        name = ".".join(path[-2:])
        if len(path) > 2 and name in WATCHED:
            site = self.site("setting", path[:-2], "", target, value=value)
            items.append((path[:-2], plan.Setting(site.id, name, literal(value), can_set=_is_constant(value))))
            return items
        if len(path) > 1 and path[-1] in SECTIONS:
            return items + self.section_store(path, target, value)
        raw = dotted(target)
        assert raw is not None
        alias = self.path(value)
        source = value if isinstance(value, ast.Call) else None
        if source is not None and id(source) in self.containers:
            self.bind(raw, None)
            return items + self.container(source, raw)
        items.append(Pass(self.new(), path, opaque=False))
        if alias is None or alias[0] == STALE:
            items.append((path, self.root_event(value)))
        self.bind(raw, alias)
        return items

    def root_event(self, value: ast.expr) -> plan.Root:
        """A new object; what a called recipe leaves in it is looked up only for roots that matter."""
        number = self.new()
        if isinstance(value, ast.Call):
            if _last(value.func) in _DOUBLES:
                return plan.Root(number, double=True)
            self.calls[number] = value
        return plan.Root(number)

    def flag_store(self, target: ast.Attribute, value: ast.expr, index: int) -> list[Item]:
        owner = self.flag_path(target.value)
        if owner is None:
            self.bare_use(target)
            return []
        root, section = owner
        if root[0] == STALE:
            self.stale(target, section, root)
            return []
        self.note((*root, section, FLAG), value)
        site = self.site("store", root, section, target, value=value, target=index, spelled=_spelled(target.value))
        if site.guarded:
            return []
        flag = self.flag_value(value, root)
        can = _can(flag)
        if self.once is not None and self.once[0] is value and _has_call(value) and section == NEW_SECTION:
            # The call of a chain must still be made: this target keeps it.
            can &= {"after"}
        if isinstance(target.value, ast.Name) and target.value.id in self.attached:
            # The container that will hold the section does not exist yet.
            can -= {"rename", "after"}
        items: list[Item] = [(root, plan.Store(site.id, section, flag, can))]
        return items

    def flag_subscript(self, target: ast.Subscript, value: ast.expr, index: int) -> list[Item]:
        path = self.path(target.value)
        if path is None or len(path) < 2 or path[-1] not in (f"[{OLD_SECTION!r}]", f"[{NEW_SECTION!r}]"):
            return []
        section = OLD_SECTION if OLD_SECTION in path[-1] else NEW_SECTION
        root = (*path[:-1], "[]")
        site = self.site("subscript", root, section, target, value=value, target=index)
        flag = self.flag_value(value, root)
        return [(root, plan.Store(site.id, section, flag, _can(flag)))]

    def flag_of(self, root: Path) -> FlagOf:
        return FlagOf(self, root)

    def stale(self, node: ast.expr, section: str, root: Path) -> None:
        if section == OLD_SECTION or OLD_SECTION in root:
            self.block_root(
                root, node, "the alias may point to another object by now; write the full path (cfg.ddp) by hand"
            )

    def bare_use(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and (node.value.id,) in self.env and self.env[(node.value.id,)][0] == STALE:
            self.stale(node, OLD_SECTION, self.env[(node.value.id,)])
        elif isinstance(node.value, ast.Name) and node.value.id in _BARE:
            self.reading.bare.append(Site(0, "bare", (node.value.id,), OLD_SECTION, self.statement, node))

    def section_store(self, path: Path, target: ast.expr, value: ast.expr) -> list[Item]:
        root, section = path[:-1], path[-1]
        if isinstance(value, ast.Name) and self.attached.get(value.id) == path:
            return []
        raw = dotted(target)
        attached = isinstance(target, ast.Name) and target.id in self.attached
        items = self.section_value(root, section, value, statement=True, named=not attached)
        if raw is not None and not attached:
            alias = self.path(value)
            self.bind(raw, None)
            if alias is not None and isinstance(value, ast.Name):
                self.bind((value.id,), path)
        return items

    def augmented(self, s: ast.AugAssign) -> list[Item]:
        items = self.events(s.value)
        target = s.target
        if isinstance(target, ast.Attribute) and target.attr == FLAG:
            owner = self.flag_path(target.value)
            if owner is None:
                self.bare_use(target)
                return items
            root, section = owner
            if root[0] == STALE:
                self.stale(target, section, root)
                return items
            if not isinstance(s.op, ast.BitOr):
                if section == OLD_SECTION:
                    self.block_root(root, target, "an update with &= or ^= has no equal on ddp; rewrite it by hand")
                return items
            self.note((*root, section, FLAG), None)
            site = self.site("update", root, section, target, value=s.value, spelled=_spelled(target.value))
            if site.guarded:
                return items
            flag = self.flag_value(s.value, root)
            can = frozenset({"rename", "after"}) if section == OLD_SECTION else frozenset({"after"})
            return [*items, (root, plan.Store(site.id, section, (plan.Flag(section, alone=True), *flag), can))]
        path = self.path(target)
        self.note(path, None)
        if path is not None:
            items.append(plan.Touch(self.new(), frozenset({".".join(path)})))
        return items

    def unpack(self, target: ast.expr) -> list[Item]:
        items: list[Item] = []
        for node in ast.walk(target):
            if not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Store):
                continue
            path = self.path(node)
            self.note(self.target_path(node), None)
            if isinstance(node, ast.Attribute) and node.attr == FLAG:
                owner = self.flag_path(node.value)
                if owner is None:
                    continue
                root, section = owner
                site = self.site("unpack", root, section, node, spelled=_spelled(node.value))
                if not site.guarded:
                    symbol = plan.Symbol(f"unpacked {site.id}", "", pure=False)
                    can = frozenset({"rename", "after"}) if section == OLD_SECTION else frozenset({"after"})
                    items.append((root, plan.Store(site.id, section, (symbol,), can)))
            elif path is not None:
                items.append(plan.Touch(self.new(), frozenset({".".join(path)})))
                if isinstance(node, ast.Attribute) and len(path) > 1 and path[-1] in (OLD_SECTION, NEW_SECTION):
                    self.block_root(
                        path[:-1], node, f"{path[-1]} is bound together with others; bind each on its own line"
                    )
                    self.bind(path, None)
                elif isinstance(node, ast.Name):
                    items.append((path, plan.Root(self.new())))
                    self.bind((node.id,), None)
        return items

    def deletion(self, targets: list[ast.expr]) -> list[Item]:
        items: list[Item] = []
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr == FLAG:
                owner = self.flag_path(target.value)
                if owner and owner[1] == OLD_SECTION:
                    self.block_root(owner[0], target, "`del` of the flag has no equal on ddp; remove it by hand")
            path = self.target_path(target)
            self.note(path, None)
            if path is not None:
                items.append((path, plan.Root(self.new())))
                self.bind(dotted(target) or path, None)
        return items

    def replace_call(self, targets: list[ast.expr], value: ast.expr) -> list[Item] | None:
        """``cfg.dist = dataclasses.replace(cfg.dist, use_megatron_fsdp=x)``: a store in another dress."""
        if not (isinstance(value, ast.Call) and _last(value.func) == "replace" and len(value.args) == 1):
            return None
        flag = next((k for k in value.keywords if k.arg == FLAG), None)
        source = self.flag_path(value.args[0])
        if flag is None or source is None or len(targets) != 1:
            return None
        root, section = source
        is_same = self.target_path(targets[0]) == (*root, section) and len(value.keywords) == 1
        if section == NEW_SECTION and not is_same:
            return None
        if not is_same:
            self.block_root(root, value, "replace() sets the flag together with others; move it to ddp by hand")
            return self.events(value)
        items = self.events(flag.value)
        self.note((*root, section, FLAG), flag.value)
        site = self.site("replace", root, section, targets[0], owner=value, value=flag.value)
        if site.guarded:
            return items
        stored = self.flag_value(flag.value, root)
        # What else names the section still names the object before.
        self.bind((*root, section), None)
        can = _can(stored) - {"set", "or"} if section == OLD_SECTION else frozenset({"after"})
        return [*items, (root, plan.Store(site.id, section, stored, can))]

    # ── Sections and containers ─────────────────────────────────────────────────────────────────────────────────────

    def section_value(self, root: Path, section: str, value: ast.expr, *, statement: bool, named: bool) -> list[Item]:
        """Events of a section that is bound to the value of an expression.

        `statement`: by an assignment of its own; `named`: from then on it can be reached through the root.
        """
        number = self.new()
        if isinstance(value, ast.Call):
            name = _last(value.func)
            if name in _DOUBLES or name in _NAMESPACES:
                return self.made_here(root, section, value, number, statement=statement, named=named, double=True)
            if self.section_class(value) == section:
                return self.made_here(root, section, value, number, statement=statement, named=named)
            items = self.events(value)
            if section == OLD_SECTION and self.is_alien(value.func):
                self.reading.aliens.add(root)
            flag, settings, forwards = self.helper_section(value, section)
            self.reading.sites[number] = Site(number, "section", root, section, self.statement, value)
            event = plan.Section(number, section, flag, settings, takes_keywords=forwards)
            return [*items, (root, event)]
        items = self.events(value)
        flag = None
        settings = ()
        if isinstance(value, ast.Name) and value.id in self.shared:
            call = self.shared[value.id]
            flag = self.keyword_flag(call)
        elif isinstance(value, ast.Constant) and value.value is None:
            flag = plan.FALSE
        self.reading.sites[number] = Site(number, "section", root, section, self.statement, value)
        return [*items, (root, plan.Section(number, section, flag, settings))]

    def is_alien(self, func: ast.expr) -> bool:
        """Whether a call is another library's, so that what it makes is no section: ``torch.distributions.Beta``."""
        path = dotted(func)
        if path is None or len(path) < 2 or path[0] == "self" or self.project.function(self.module, ".".join(path)):
            return False
        origin = ".".join(p for p in self.module.imports.get(path[0], (path[0],)) if p)
        return path[0] not in self.locals and not origin.startswith((".", "megatron"))

    def keyword_flag(self, call: ast.Call) -> plan.Expression | None:
        for keyword in call.keywords:
            if keyword.arg == FLAG:
                return self.flag_value(keyword.value, ())
        return None if any(k.arg is None for k in call.keywords) else plan.FALSE

    def made_here(
        self,
        root: Path,
        section: str,
        call: ast.Call,
        number: int,
        *,
        statement: bool,
        named: bool,
        double: bool = False,
    ) -> list[Item]:
        items = [e for a in call.args for e in self.events(a)]
        open_ended = any(k.arg is None for k in call.keywords)
        flag = next((k for k in call.keywords if k.arg == FLAG), None)
        for keyword in call.keywords:
            items += self.events(keyword.value)
        mock = _last(call.func) in _DOUBLES
        event = plan.Section(
            number,
            section,
            None if open_ended and not double else plan.FALSE,
            (),
            takes_keywords=not open_ended and not (mock and statement),
            then_store=statement and named,
            double=double,
        )
        self.reading.sites[number] = Site(
            number, "section", root, section, self.statement, call, owner=call, double=double
        )
        items.append((root, event))
        if flag is not None:
            site = self.site("keyword", root, section, flag, owner=call, value=flag.value, double=double)
            if not site.guarded:
                stored = self.flag_value(flag.value, root)
                can = {"keyword", "set", "or"} if section == NEW_SECTION else {"delete"} & _can(stored)
                if section == OLD_SECTION and statement and named and not double:
                    can |= {"rename"}
                if named:
                    can |= {"after"}
                items.append((root, plan.Store(site.id, section, stored, frozenset(can))))
        for keyword in call.keywords:
            name = f"{section}.{keyword.arg}"
            if name in WATCHED and not double:
                site = self.site("setting-keyword", root, "", keyword, owner=call, value=keyword.value)
                setting = plan.Setting(site.id, name, literal(keyword.value), can_set=_is_constant(keyword.value))
                items.append((root, setting))
        return items

    def helper_section(
        self, call: ast.Call, section: str
    ) -> tuple[plan.Expression | None, tuple[tuple[str, object], ...], bool]:
        """What a helper of the project puts into the section it returns: flag, settings, whether it takes more."""
        name = dotted(call.func)
        found = self.project.function(self.module, ".".join(name)) if name else None
        if found is None:
            return None, (), False
        from fsdp_migrate.python.helpers import returned_section

        return returned_section(*found, self.project, call, section)

    def container(self, call: ast.Call, root: Path) -> list[Item]:
        """``ConfigContainer(dist=..., ddp=..., checkpoint=...)``: all sections of one root at once."""
        items: list[Item] = [e for a in call.args for e in self.events(a)]
        self.note(root, None)
        open_ended = any(k.arg is None for k in call.keywords) or _last(call.func) == "replace"
        seen: set[str] = set()
        named = root[0][0] != "<" and isinstance(self.statement, ast.Assign) and self.statement.value is call
        for keyword in call.keywords:
            if keyword.arg in SECTIONS:
                seen.add(keyword.arg)
                value = keyword.value
                self.reading.notes += keywords((*root, keyword.arg), value, self.where)
                if isinstance(value, ast.Name) and self.attached.get(value.id) == (*root, keyword.arg):
                    continue
                items += self.section_value(root, keyword.arg, value, statement=False, named=named)
            elif keyword.arg is not None:
                items += self.events(keyword.value)
                self.reading.notes += keywords((*root, keyword.arg), keyword.value, self.where)
            else:
                items += self.events(keyword.value)
        for section in SECTIONS:
            if section not in seen:
                items.append((root, plan.Section(self.new(), section, None if open_ended else plan.FALSE)))
        return items

    # ── Control flow ────────────────────────────────────────────────────────────────────────────────────────────────

    def returning(self, value: ast.expr | None) -> list[Item]:
        items: list[Item] = []
        if value is None:
            return [plan.Leave("return")]
        path = self.path(value)
        if isinstance(value, ast.Call) and id(value) in self.containers:
            root = self.containers[id(value)]
            items += self.container(value, root)
            self.reading.returned.add(root)
        elif isinstance(value, ast.Call):
            items += self.events(value)
            root = ("<return>",)
            items.append((root, self.root_event(value)))
            self.reading.returned.add(root)
        else:
            items += self.events(value)
            self.reading.returned.add(path)
        return [*items, plan.Leave("return")]

    def conditional(self, s: ast.If, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> list[Item]:
        head = self.events(test)
        if not self.guarded and self.is_guard(test):
            return [*head, *self.guard(body, orelse)]
        return [*head, Fork("branch", self.arms(body, orelse))]

    def is_guard(self, test: ast.expr) -> bool:
        """Whether a test asks which release is installed, or whether the field exists."""
        for node in ast.walk(test):
            if isinstance(node, ast.Call) and _last(node.func) == "hasattr" and len(node.args) == 2:
                if _is_text(node.args[1], FLAG):
                    return True
            elif isinstance(node, ast.Constant) and node.value == FLAG:
                if isinstance(test, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in test.ops):
                    return True
            elif isinstance(node, ast.Name | ast.Attribute):
                name = node.id if isinstance(node, ast.Name) else node.attr
                if "version" in name.lower() and not name.startswith("megatron_fsdp"):
                    return True
        return False

    def guard(self, *bodies: list[ast.stmt]) -> list[Item]:
        self.guarded = True
        items: list[Item] = [Fork("branch", self.arms(*bodies))]
        self.guarded = False
        for root in {s.root for s in self.reading.guarded}:
            items.append((root, plan.Opaque(self.new())))
        return items

    def for_loop(
        self, target: ast.expr, iterable: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]
    ) -> list[Item]:
        head = self.events(iterable)
        both = [self.path(e) for e in iterable.elts] if isinstance(iterable, ast.Tuple | ast.List | ast.Set) else []
        sections = [p for p in both if p and len(p) > 1 and p[-1] in (OLD_SECTION, NEW_SECTION)]
        start = self.unpack(target) if not isinstance(target, ast.Name) else []
        if isinstance(target, ast.Name):
            start = [plan.Touch(self.new(), frozenset({target.id})), ((target.id,), plan.Root(self.new()))]
            self.bind((target.id,), None)
            old = next((p for p in sections if p[-1] == OLD_SECTION), None)
            if old is not None:
                self.env[(target.id,)] = (STALE, *old)
        inner = self.loop_body(body)
        return [*head, Fork("loop", [[*start, *inner], self.block(orelse)])]

    def with_block(self, withitems: list[ast.withitem], body: list[ast.stmt]) -> list[Item]:
        items: list[Item] = []
        for item in withitems:
            items += self.events(item.context_expr)
            self.reading.fails |= isinstance(item.context_expr, ast.Call) and _last(item.context_expr.func) in _RAISES
            if item.optional_vars is not None:
                if isinstance(item.optional_vars, ast.Name):
                    items.append(plan.Touch(self.new(), frozenset({item.optional_vars.id})))
                    items.append(((item.optional_vars.id,), self.root_event(item.context_expr)))
                    self.bind((item.optional_vars.id,), None)
                else:
                    items += self.unpack(item.optional_vars)
        return items + self.block(body)

    def attempt(self, s: ast.Try | ast.TryStar) -> list[Item]:
        caught = {n for h in s.handlers if h.type is not None for n in _names(h.type)}
        if not self.guarded and caught & {"AttributeError", "TypeError"} and any(_mentions(b) for b in s.body):
            return self.guard(s.body, *(h.body for h in s.handlers), s.orelse, s.finalbody)
        before = dict(self.env)
        outside, self.where = self.where, (*self.where, Arm(self.new()))
        self.trying += 1
        body = self.block(s.body)
        self.trying -= 1
        orelse = self.block(s.orelse)
        ends = [self.env]
        handlers = []
        for handler in s.handlers:
            self.env = _merge([before, ends[0]])
            self.where = (*outside, Arm(self.new(), exit=leaves(handler.body)))
            handlers.append(self.block(handler.body))
            ends.append(self.env)
        self.env, self.where = _merge(ends), outside
        return [Fork("try", [body, *handlers, orelse, self.block(s.finalbody)])]

    # ── Expressions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def expression_statement(self, value: ast.expr) -> list[Item]:
        if isinstance(value, ast.Call):
            stored = self.setattr_call(value)
            if stored is not None:
                return stored
        return self.events(value)

    def setattr_call(self, call: ast.Call) -> list[Item] | None:
        if _last(call.func) not in ("setattr", "__setattr__") or len(call.args) < 3 or not _is_text(call.args[1], FLAG):
            return None
        owner = self.flag_path(call.args[0])
        if owner is None:
            return None
        root, section = owner
        items = self.events(call.args[2])
        if root[0] == STALE:
            self.stale(call, section, root)
            return items
        self.note((*root, section, FLAG), call.args[2])
        site = self.site("setattr", root, section, call, owner=call, value=call.args[2], spelled=_spelled(call.args[0]))
        if site.guarded:
            return items
        flag = self.flag_value(call.args[2], root)
        items.append((root, plan.Store(site.id, section, flag, _can(flag))))
        return items

    def events(self, node: ast.AST) -> list[Item]:
        """Events of an expression (or of the expressions of a statement), in about the order of evaluation."""
        items: list[Item] = []
        self._walk(node, items)
        return items

    def _walk(self, node: ast.AST, items: list[Item]) -> None:
        match node:
            case ast.Attribute(value, attr, ast.Load()) if attr == FLAG:
                self._read(node, items)
                self._walk(value, items) if not isinstance(value, ast.Name | ast.Attribute) else None
            case ast.Attribute():
                path = self.path(node)
                if path is not None and len(path) > 2 and ".".join(path[-2:]) in COMPANIONS:
                    self.reading.companion_reads.add(path[:-2])
                self._walk(node.value, items)
            case ast.Call():
                self._call(node, items)
            case ast.Subscript(value, index, ast.Load()) if _is_text(index, FLAG):
                self._subscript_read(node, items)
                self._walk(value, items)
            case ast.List() | ast.Tuple() | ast.Set():
                words = self._words(node, items)
                for element in node.elts:
                    if not (words and isinstance(element, ast.Constant | ast.JoinedStr)):
                        self._walk(element, items)
                    self._escape(element, items)
            case ast.Dict():
                self._dict(node, items)
            case ast.Constant() | ast.JoinedStr():
                if isinstance(node, ast.JoinedStr):
                    for part in node.values:
                        if isinstance(part, ast.FormattedValue):
                            self._walk(part.value, items)
                if not self._words(node, items) and isinstance(node, ast.Constant):
                    self._dotted_path(node)
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                if node.value is not None:
                    self._walk(node.value, items)
                items.append(plan.Observe(self.new()))
            case ast.NamedExpr(target, value):
                self._walk(value, items)
                items.append(plan.Touch(self.new(), frozenset({target.id})))
                alias = self.path(value)
                if alias is None:
                    items.append(((target.id,), self.root_event(value)))
                self.bind((target.id,), alias)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(
                        child, ast.expr | ast.comprehension | ast.keyword | ast.arguments | ast.arg | ast.withitem
                    ):
                        self._walk(child, items)

    def _escape(self, node: ast.expr, items: list[Item]) -> None:
        path = self.path(node)
        self.note(path, None)
        if path is not None:
            items.append(Pass(self.new(), path, opaque=False))

    def _read(self, node: ast.Attribute, items: list[Item]) -> None:
        owner = self.flag_path(node.value)
        if owner is None:
            self.bare_use(node)
            return
        root, section = owner
        if root[0] == STALE:
            self.stale(node, section, root)
            return
        self._note_read("read", root, section, node, items, _spelled(node.value))

    def _note_read(self, form: str, root: Path, section: str, node: ast.expr, items: list[Item], spelled: str) -> None:
        site = Site(self.new(), form, root, section, self.statement, node, guarded=self.guarded, spelled=spelled)
        if self.guarded:
            self.reading.guarded.append(site)
            return
        self.reading.reads.append(site)
        items.append((root, plan.Observe(site.id)))

    def _subscript_read(self, node: ast.Subscript, items: list[Item]) -> None:
        path = self.path(node.value)
        if path and path[-1] == f"[{OLD_SECTION!r}]":
            self.reading.dumped.append(node)

    def _call(self, node: ast.Call, items: list[Item]) -> None:
        name = _last(node.func)
        if id(node) in self.containers:
            items += self.container(node, self.containers[id(node)])
            return
        if name in ("getattr", "hasattr") and len(node.args) >= 2 and _is_text(node.args[1], FLAG):
            owner = self.flag_path(node.args[0])
            for extra in node.args[2:]:
                self._walk(extra, items)
            if owner is None:
                self._walk(node.args[0], items)
                return
            root, section = owner
            if name == "hasattr":
                if section == OLD_SECTION:
                    self.reading.probes.append(Site(self.new(), "probe", root, section, self.statement, node))
            elif root[0] == STALE:
                self.stale(node, section, root)
            else:
                self._note_read("getattr", root, section, node, items, _spelled(node.args[0]))
            return
        if len(node.args) >= 2 and _is_text(node.args[1], FLAG) and self.flag_path(node.args[0]):
            self._reflective(node, items)
            return
        if name == OLD_CLASS or self.section_class(node) == OLD_SECTION:
            self._orphan(node)
        elif any(k.arg == FLAG for k in node.keywords):
            self._flag_keyword(node)
        if not isinstance(node.func, ast.Name):
            self._walk(node.func, items)
        for argument in (*node.args, *(k.value for k in node.keywords)):
            self._walk(argument, items)
        self._passes(node, items)
        if name in ("get",) and node.args and _is_text(node.args[0], FLAG):
            self._dumped(node)

    def _reflective(self, node: ast.Call, items: list[Item]) -> None:
        """``patch.object(cfg.dist, "use_megatron_fsdp", x)`` and the like; ``delattr`` and friends are refused."""
        owner = self.flag_path(node.args[0])
        assert owner is not None
        root, section = owner
        for extra in node.args[2:]:
            self._walk(extra, items)
        stored = self.setattr_call(node)
        if stored is not None:
            items += stored
            return
        if _last(node.func) == "object":
            self._note_read("patch", root, section, node, items, _spelled(node.args[0]))
        elif section == OLD_SECTION:
            self.block_root(root, node, f"{ast.unparse(node.func)} on the flag is not understood; change it by hand")

    def _orphan(self, node: ast.Call) -> None:
        """A DistributedInitConfig with the flag that no container in sight receives."""
        flag = next((k for k in node.keywords if k.arg == FLAG), None)
        if flag is None or self.guarded:
            return
        known = self.is_bridge_class(node.func)
        path = dotted(node.func)
        if not known and path is not None and len(path) == 1 and self.project.origin(self.module, path[0]) is not None:
            return
        form = "orphan" if known else "foreign"
        self.reading.orphans.append(
            Site(self.new(), form, (), OLD_SECTION, self.statement, flag, owner=node, value=flag.value)
        )

    def _flag_keyword(self, node: ast.Call) -> None:
        """Calls that hand the flag on to a DistributedInitConfig made elsewhere, or to ``replace(cfg.dist, ...)``."""
        flag = next(k for k in node.keywords if k.arg == FLAG)
        if _last(node.func) == "replace" and node.args:
            owner = self.flag_path(node.args[0])
            if owner and owner[1] == OLD_SECTION:
                self.block_root(owner[0], node, "replace() on dist sets the flag; set it on cfg.ddp by hand")
            return
        if isinstance(node.func, ast.Attribute):
            owner = self.flag_path(node.func.value)
            if owner and owner[1] == OLD_SECTION:
                self.block_root(owner[0], node, "a method of dist gets the flag; set it on cfg.ddp by hand")
                return
        name = dotted(node.func)
        found = self.project.function(self.module, ".".join(name)) if name else None
        if found is not None:
            from fsdp_migrate.python.helpers import forwards_to

            if forwards_to(*found, OLD_CLASS):
                self.reading.forwarded.append(
                    Site(self.new(), "forwarded", (), OLD_SECTION, self.statement, flag, owner=node, value=flag.value)
                )

    def _dumped(self, node: ast.Call) -> None:
        """``config.get("dist", {}).get("use_megatron_fsdp")``: a read of a dumped config."""
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        path = self.path(inner) if inner is not None else None
        if (
            isinstance(inner, ast.Call)
            and _last(inner.func) == "get"
            and inner.args
            and _is_text(inner.args[0], OLD_SECTION)
        ) or (path and path[-1] == f"[{OLD_SECTION!r}]"):
            self.reading.dumped.append(node)

    def _passes(self, node: ast.Call, items: list[Item]) -> None:
        """Who receives a root through this call, and what the call may store into."""
        looking = _last(node.func) in _LOOKING
        touched: set[str] = set()
        passed: list[Path] = []
        for argument in (*node.args, *(k.value for k in node.keywords)):
            inner = argument.value if isinstance(argument, ast.Starred) else argument
            path = self.path(inner)
            if path is not None:
                passed.append(path)
                touched.add(".".join(path))
        if isinstance(node.func, ast.Attribute):
            receiver = self.path(node.func.value)
            if receiver is not None:
                passed.append(receiver)
                touched.add(".".join(receiver))
        elif isinstance(node.func, ast.Name) and node.func.id in self.nested:
            for name in _free_names(self.nested[node.func.id]):
                passed.append(self.path(ast.Name(name)) or (name,))
        if touched and not looking:
            items.append(plan.Touch(self.new(), frozenset(touched)))
        if (note := set_default(node, self.where)) is not None:
            self.reading.notes.append(note)
        elif (not looking or _last(node.func) in _HANDING) and not self.keeps(node.func):
            for path in passed:
                self.note(path, None)
        for path in dict.fromkeys(passed):
            items.append(Pass(self.new(), path, opaque=not looking, call=node))

    def keeps(self, func: ast.expr) -> bool:
        """Whether a call leaves the settings it is given: a look-up, or Bridge's own training. A namesake may not."""
        name = _last(func)
        if name not in CONSUMERS:
            return name in LOOKUPS
        return name not in self.nested and self.project.function(self.module, name) is None

    # ── Override words and dicts ────────────────────────────────────────────────────────────────────────────────────

    def _words(self, node: ast.expr, items: list[Item]) -> bool:
        words = words_of(node)
        if not words:
            return False
        root: Path = (f"<{node.lineno}:{node.col_offset}>",)
        if not words[0].alone:
            self.reading.partial.add(root)
        for word in words:
            if word.name == f"{OLD_SECTION}.{FLAG}" or word.name == f"{NEW_SECTION}.{FLAG}":
                site = self.site("word", root, word.name.split(".")[0], word.node, owner=node, value=None)
                if site.guarded:
                    continue
                can = {"delete", "set", "rename", "after"} if word.alone else {"rename", "set"}
                items.append((root, plan.Store(site.id, site.section, word.value, frozenset(can))))
            elif word.name in WATCHED:
                site = self.site("setting-word", root, "", word.node, owner=node)
                items.append((root, plan.Setting(site.id, word.name, word.literal, can_set=False)))
        return True

    def _dotted_path(self, node: ast.Constant) -> None:
        """``"pkg.cfg.dist.use_megatron_fsdp"``: somebody looks the flag up by its name."""
        if isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            root: Path = (f"<{node.lineno}:{node.col_offset}>",)
            self.block_root(root, node, "the path is looked up at run time; write ddp instead of dist by hand")

    def _dict(self, node: ast.Dict, items: list[Item]) -> None:
        entries = {k.value: v for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)}
        sections = [v for v in (entries.get(OLD_SECTION), entries.get(NEW_SECTION)) if isinstance(v, ast.Dict)]
        has_flag = any(k is not None and _is_text(k, FLAG) for v in sections for k in v.keys)
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and not isinstance(key, ast.Constant):
                self._walk(key, items)
            self._walk(value, items)
            self._escape(value, items)
        if not has_flag:
            self._dotted_dict(node, items)
            return
        root: Path = (f"<{node.lineno}:{node.col_offset}>",)
        if not isinstance(entries.get("checkpoint"), ast.Dict):
            self.reading.partial.add(root)
        if any(k is not None and _is_text(k, "_target_") for v in (node, *sections) for k in v.keys):
            self.block_root(root, node, "this is a dumped config; loading it drops the old key, so leave it as it is")
            return
        for section in SECTIONS:
            inner = entries.get(section)
            if isinstance(inner, ast.Dict):
                self._dict_section(root, section, node, inner, items)

    def _dict_section(self, root: Path, section: str, whole: ast.Dict, node: ast.Dict, items: list[Item]) -> None:
        if section == NEW_SECTION:
            number = self.new()
            takes = all(k is not None for k in node.keys)
            self.reading.sites[number] = Site(number, "dict-section", root, section, self.statement, node, owner=node)
            items.append((root, plan.Section(number, section, None, (), takes_keywords=takes, keeps=True)))
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                continue
            if _is_text(key, FLAG) and section in (OLD_SECTION, NEW_SECTION):
                site = self.site("key", root, section, key, owner=node, value=value)
                if site.guarded:
                    continue
                has_new = any(k is not None and _is_text(k, NEW_SECTION) for k in whole.keys)
                can = {"set", "or", "keyword", "after"} if section == NEW_SECTION else {"delete"}
                if section == OLD_SECTION and not has_new and len(node.keys) == 1:
                    can = {"rename"}
                stored = self.flag_value(value, root)
                items.append((root, plan.Store(site.id, section, stored, frozenset(can))))
            elif isinstance(key, ast.Constant) and f"{section}.{key.value!s}" in WATCHED:
                site = self.site("setting-key", root, "", key, owner=node, value=value)
                name = f"{section}.{key.value!s}"
                items.append((root, plan.Setting(site.id, name, literal(value), can_set=_is_constant(value))))

    def _dotted_dict(self, node: ast.Dict, items: list[Item]) -> None:
        """``{"dist.use_megatron_fsdp": True}``"""
        root: Path = (f"<{node.lineno}:{node.col_offset}>",)
        self.reading.partial.add(root)
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                continue
            if key.value in (f"{OLD_SECTION}.{FLAG}", f"{NEW_SECTION}.{FLAG}"):
                section = key.value.split(".")[0]
                site = self.site("dotted-key", root, section, key, owner=node, value=value)
                if site.guarded:
                    continue
                stored = self.flag_value(value, root)
                can = _can(stored)
                items.append((root, plan.Store(site.id, section, stored, can)))
            elif key.value in WATCHED:
                site = self.site("setting-key", root, "", key, owner=node, value=value)
                items.append((root, plan.Setting(site.id, key.value, literal(value), can_set=_is_constant(value))))


@dataclass(frozen=True, slots=True)
class FlagOf:
    """Recognises the flag of `root` inside a value."""

    reader: Reader
    root: Path

    def __call__(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Attribute) and node.attr == FLAG:
            owner = self.reader.flag_path(node.value)
            if owner is not None and owner[0] == self.root:
                return owner[1]
        return None

    def resolve(self, node: ast.expr) -> Path | None:
        return self.reader.path(node)


# ── Small questions about syntax ────────────────────────────────────────────────────────────────────────────────────


def _can(value: plan.Expression) -> frozenset[str]:
    """What may be done to a plain store. One whose value calls something keeps calling it."""
    every = frozenset({"delete", "rename", "set", "or", "after"})
    calls = any(isinstance(atom, plan.Symbol) and not atom.pure for atom in value)
    return every - {"delete"} if calls else every


def _has_call(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Call | ast.Await | ast.Yield | ast.YieldFrom) for node in ast.walk(value))


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def _last(func: ast.expr) -> str | None:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else None


def _is_text(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _spelled(node: ast.expr) -> str:
    """How the section is written where it is used: empty if it stands there as ``root.section``."""
    return "" if isinstance(node, ast.Attribute) and node.attr in (OLD_SECTION, NEW_SECTION) else ast.unparse(node)


def _names(node: ast.expr) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr


def _may_raise(statement: ast.stmt) -> bool:
    """Whether a statement does more than store names, attributes and constants."""
    risky = ast.Call | ast.Subscript | ast.BinOp | ast.Assert | ast.Import | ast.ImportFrom | ast.Await | ast.Compare
    if hasattr(statement, "body"):
        return True
    inside: list[ast.AST] = [statement]
    match statement:
        case ast.Expr(ast.Call(func, args)) if _last(func) in ("setattr", "__setattr__"):
            # A store in another dress.
            inside = list(args)
    return any(isinstance(n, risky) for part in inside for n in ast.walk(part))


def _mentions(statement: ast.stmt) -> bool:
    return any(
        (isinstance(n, ast.Attribute) and n.attr == FLAG)
        or (isinstance(n, ast.keyword) and n.arg == FLAG)
        or (isinstance(n, ast.Constant) and n.value == FLAG)
        for n in ast.walk(statement)
    )


def _targets(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(statement, ast.Assign):
        return [(t, statement.value) for t in statement.targets]
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return [(statement.target, statement.value)]
    return []


def _own_calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Calls in the expressions of one statement, outermost first."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call):
            yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                stack.append(child)


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Break | ast.Continue)


def _merge(ends: Sequence[dict[Path, Path]]) -> dict[Path, Path]:
    merged: dict[Path, Path] = {}
    for key in {k for end in ends for k in end}:
        values = {end.get(key, key) for end in ends}
        if len(values) == 1:
            merged[key] = values.pop()
        else:
            old = next((v for v in values if OLD_SECTION in v), next(iter(sorted(values))))
            merged[key] = old if old[0] == STALE else (STALE, *old)
    return {k: v for k, v in merged.items() if k != v}


def _rebound_first(key: Path, body: Sequence[ast.stmt]) -> bool:
    """Whether an alias is bound anew before anything else in a loop's body."""
    for statement in body:
        for target, _ in _targets(statement):
            if dotted(target) == key:
                return True
        if any(dotted(n) == key for n in ast.walk(statement) if isinstance(n, ast.Name | ast.Attribute)):
            return False
    return False


def _free_names(function: Function) -> set[str]:
    bound = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    return used - bound
