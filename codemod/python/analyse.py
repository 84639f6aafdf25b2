"""From a Python file to cases: every root of every scope that has something to do with the flag."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from fsdp_migrate.cases import Case, Spot
from fsdp_migrate.findings import Edit
from fsdp_migrate.python.project import Module, Project
from fsdp_migrate.python.projection import project_root
from fsdp_migrate.python.reading import Reader
from fsdp_migrate.python.settings import config_of, environment
from fsdp_migrate.python.sites import Path, Reading, Scope, Site
from fsdp_migrate.python.source import Source
from fsdp_migrate.python.statements import blocks, expressions
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import (
    BRIDGE_PACKAGE,
    FLAG,
    LM_PACKAGE,
    NEW_CLASS,
    NEW_SECTION,
    OLD_CLASS,
    OLD_SECTION,
)

_DECIDES = re.compile(rf"{FLAG}|ConfigContainer\(|\.(?:{OLD_SECTION}|{NEW_SECTION})[ \t]*=(?!=)")
_PROSE = re.compile(rf"\b{OLD_SECTION}\.{FLAG}\b")
_COMMENT = re.compile(rf"^[^'\"#\n]*#.*\b{OLD_SECTION}\.{FLAG}\b", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class PythonCase:
    """A case with the syntax it was read from, for whoever turns the decision into changes."""

    case: Case
    source: Source
    scope: Scope
    root: Path
    block: plan.Block = ()
    sites: dict[int, Site] = field(default_factory=dict)
    reads: tuple[Site, ...] = ()
    bases: tuple[Scope, ...] = ()
    is_local: bool = True
    orphans: tuple[Site, ...] = ()
    prose: tuple[tuple[int, int], ...] = ()
    values: Mapping[str, ast.expr] = field(default_factory=dict)

    def edits(self, parts: frozenset[str]) -> tuple[Edit, ...]:
        # libcst is behind this import; a run that changes nothing never pays for it.
        from fsdp_migrate.python.fixing import edits_of

        return edits_of(self, parts)


def analyse(module: Module, project: Project, target: str) -> list[PythonCase]:
    """All cases of a file, in order of appearance."""
    cases: list[PythonCase] = []
    loose: list[tuple[Spot, Site | None]] = []
    source = module.source
    # A container whose ddp comes from a helper, or a new section over a base, decides the flag without naming it.
    hits = {source.place(m.start(), m.start()).line for m in _DECIDES.finditer(source.text)}
    foreign = _foreign(module, target)
    elsewhere: list[_Elsewhere] = []
    imported = environment(module.tree) if "os.environ" in source.text else []
    for scope in _scopes(module.tree, hits):
        reader = Reader(module, project, scope)
        reading = reader.read()
        if scope is not module.tree:
            reading.notes = [*imported, *reading.notes]
        elsewhere += _elsewhere(reading)
        for root in reading.roots():
            found = _case(module, reader, reading, root, foreign, target)
            if found is not None:
                cases.append(found)
        loose += _loose(module.source, reading, foreign)
    cases = [_without_closures(module.tree, found) for found in _with_others(cases, elsewhere)]
    cases = [_with_scopes(found) for found in _with_bases(cases)]
    loose += [(spot, None) for spot in _definitions(module)]
    prose = tuple(_prose(module))
    loose += [(_prose_spot(module.source, span), None) for span in prose]
    if loose:
        remarks = tuple(spot for spot, _ in loose)
        orphans = tuple(site for _, site in loose if site is not None and site.form == "orphan")
        case = Case("python", "", remarks=remarks)
        cases.append(PythonCase(case, module.source, module.tree, (), orphans=orphans, prose=prose))
    return cases


@dataclass(frozen=True, slots=True, eq=False)
class _Elsewhere:
    """A store of the flag, for the cases of other scopes that may get at the same config. `is_local` as of a case."""

    root: Path
    scope: Scope
    site: Site
    is_local: bool

    @property
    def is_plain(self) -> bool:
        return isinstance(self.site.value, ast.Constant) and self.site.value.value is True

    def meets(self, found: PythonCase) -> bool:
        return self.root == found.root and self.scope is not found.scope and not found.is_local

    def encloses(self, found: PythonCase) -> bool:
        """Whether one of the two is a function inside the other one's that uses its config."""
        if self.root != found.root or self.scope is found.scope or self.is_local == found.is_local:
            return False
        inner, outer = (self.scope, found.scope) if found.is_local else (found.scope, self.scope)
        return _contains(outer, inner)


def _contains(outer: Scope, inner: Scope) -> bool:
    """Whether one scope stands inside another one."""
    if outer is inner or isinstance(inner, ast.Module):
        return False
    if isinstance(outer, ast.Module):
        return True
    first, last = outer.lineno, outer.end_lineno or outer.lineno
    return first <= inner.lineno and (inner.end_lineno or inner.lineno) <= last


def _elsewhere(reading: Reading) -> Iterator[_Elsewhere]:
    for root in reading.roots():
        for site in reading.sites.values():
            if site.root == root and site.value is not None and site.section in (OLD_SECTION, NEW_SECTION):
                yield _Elsewhere(root, reading.scope, site, _is_local(reading, root))


def _with_others(cases: list[PythonCase], elsewhere: Sequence[_Elsewhere]) -> list[PythonCase]:
    """Refuse to move a store into a config that another scope of the file gets at by the same name.

    A closure, a method or a module's variable: the order in which the scopes run is not known, and old Bridge OR-ed
    what they stored.
    """
    judged = []
    for found in cases:
        if found.case.refusal or not any(found.case.flags(OLD_SECTION)):
            judged.append(found)
            continue
        new = [e.site for e in elsewhere if e.meets(found) and e.site.section == NEW_SECTION and not e.is_plain]
        inside = [e.site for e in elsewhere if e.encloses(found)]
        why = ""
        if inside:
            line = inside[0].node.lineno
            why = f"line {line} stores the flag of the same config in another function; move both by hand"
        elif new:
            why = (
                f"line {new[0].node.lineno} stores {spell(found.root)}.{NEW_SECTION}.{FLAG} of the same config, and "
                "old Bridge OR-ed the two; decide in one place"
            )
        judged.append(replace(found, case=replace(found.case, refusal=why)) if why else found)
    return judged


def _without_closures(tree: ast.Module, found: PythonCase) -> PythonCase:
    """Refuse to move a store into a config of an enclosing function that puts other sections into it."""
    if found.is_local or found.case.refusal or not any(found.case.flags(OLD_SECTION)):
        return found
    inner: set[int] = set()
    for outer in ast.walk(tree):
        if not isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) or not _contains(outer, found.scope):
            continue
        inner = inner or set(map(id, ast.walk(found.scope)))
        for node in ast.walk(outer):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            if node.attr in (OLD_SECTION, NEW_SECTION) and id(node) not in inner:
                why = f"line {node.lineno} puts another section into it, outside this function; move both by hand"
                return replace(found, case=replace(found.case, refusal=why))
    return found


def _with_scopes(found: PythonCase) -> PythonCase:
    """Say which bases must not move alone. Only what stores True in dist means the same over either base."""
    stores = [s for s in found.sites.values() if s.section in (OLD_SECTION, NEW_SECTION)]
    same = all(s.section == OLD_SECTION and isinstance(s.value, ast.Constant) and s.value.value is True for s in stores)
    bases = frozenset() if same else frozenset(map(id, found.bases))
    return replace(found, case=replace(found.case, scope=id(found.scope), rests_on=bases))


def _with_bases(cases: list[PythonCase]) -> list[PythonCase]:
    """Hold back a base recipe whose move would change what a derived recipe, which cannot move, means."""
    held: dict[int, str] = {}
    for found in reversed(cases):
        refused = found.case.refusal and found.case.decision.refused is not None
        if id(found.scope) in held or (refused and found.bases and plan.needs_old_bases(found.block)):
            name = getattr(found.scope, "name", "a recipe")
            why = f"{name} derives from this recipe and cannot be moved as it stands; migrate both by hand"
            for base in found.bases:
                held.setdefault(id(base), why)
    return [
        replace(found, case=replace(found.case, refusal=held[id(found.scope)]))
        if id(found.scope) in held and not found.case.refusal
        else found
        for found in cases
    ]


def _case(module: Module, reader: Reader, reading: Reading, root: Path, foreign: str, target: str) -> PythonCase | None:
    sites = {n: s for n, s in reading.sites.items() if s.root == root}
    reads = tuple(s for s in reading.reads if s.root == root and s.section == OLD_SECTION)
    blocked = [b for b in reading.blocked if b.root[-len(root) :] == root or b.root == root]
    old = any(s.section == OLD_SECTION and s.form not in ("section", "dict-section") for s in sites.values()) or reads
    if not old and (root[-1] == "strategy" or _is_other_schema(root)):
        return None
    # A scope that only reads the flag decides nothing about it.
    block = project_root(reading.items, root, reader) if sites else ()
    companions, why = _companions(module, reading, root)
    inexact = _is_inexact(root)
    refusal = foreign if old else ""
    decision = plan.decide(block, companions=companions != "none") if not refusal else plan.Decision(refused=-1)
    if blocked and old:
        refusal = blocked[0].reason
    elif inexact and len(sites) > 1:
        refusal = "the root is an expression that may give another object each time; move the flag by hand"
    elif decision.refused is not None and not refusal:
        refusal = _refusal(decision.refused, sites, module.source, root)
    spots = {n: _spot(module.source, s) for n, s in sites.items()}
    # A test that expects an exception has a config that is wrong on purpose.
    judged = not (foreign or reading.fails)
    config, values = config_of(reading.notes, root, module.source, target) if judged else (None, {})
    says_nothing = not decision.companions and not decision.actions and decision.leak is None and not refusal
    if not old and says_nothing and config is None:
        return None
    case = Case(
        "python",
        spell(root),
        decision,
        spots,
        tuple(_spot(module.source, s) for s in reads),
        (),
        refusal,
        companions,
        why,
        config,
    )
    bases, is_local = tuple(reading.bases), _is_local(reading, root)
    return PythonCase(case, module.source, reading.scope, root, block, sites, reads, bases, is_local, values=values)


def _is_local(reading: Reading, root: Path) -> bool:
    """Whether only this scope knows the root: not a closure's, a module's or an object's."""
    return root[0].startswith("<") or (len(root) == 1 and root[0] in reading.locals and root[0] != "self")


def _is_inexact(root: Path) -> bool:
    """Whether a root is an expression, not a name: ``get_config()``."""
    return root[0].startswith("<") and not root[0][1:2].isdigit()


def spell(root: Path) -> str:
    """How a root is written in code."""
    text = root[0][1:-1] if root[0].startswith("<") else root[0]
    for part in root[1:]:
        text += "" if part == "[]" else part if part.startswith("[") else f".{part}"
    return text


def _is_other_schema(root: Path) -> bool:
    return "strategy" in root


def _spot(source: Source, site: Site) -> Spot:
    start, end = source.span(site.node)
    return Spot(
        site.id,
        site.form,
        site.section,
        source.place(start, end),
        _one_line(source.text[start:end]),
        double=site.double,
    )


def _one_line(text: str) -> str:
    first = text.split("\n", 1)[0].strip()
    return first if first == text else first + " ..."


def _refusal(number: int, sites: dict[int, Site], source: Source, root: Path) -> str:
    old = [s for s in sites.values() if s.section == OLD_SECTION]
    keyword = next((s for s in old if s.form == "keyword"), None)
    site = sites.get(number)
    if keyword is not None and (site is None or site.form in ("section", "keyword")):
        value = source.segment(keyword.value) if keyword.value is not None else "..."
        return (
            f"the {NEW_SECTION} argument is not made here for this container alone; give {FLAG}={value} to the "
            f"{NEW_CLASS} that reaches it and drop the keyword"
        )
    if site is not None and site.section == NEW_SECTION and hasattr(site.node, "lineno"):
        return (
            f"line {site.node.lineno} stores the flag in {NEW_SECTION} as well and would overrule the moved value, "
            "while old Bridge OR-ed the two; decide which one is meant and write it once, as "
            f"{spell(root)}.{NEW_SECTION}.{FLAG}"
        )
    return (
        "no rewrite keeps the flag's value on every path through this scope; write "
        f"{spell(root)}.{NEW_SECTION}.{FLAG} by hand where it is decided"
    )


def _foreign(module: Module, target: str) -> str:
    """Why a file's dist flag is not Bridge's: it belongs to Megatron-LM's own container."""
    if target == "main":
        return ""
    names = module.imported
    path = PurePath(module.path).as_posix()
    if any(_within(n, BRIDGE_PACKAGE) for n in names) or "megatron/bridge/" in path:
        return ""
    forked = any(f".{LM_PACKAGE}" in n.replace("/", ".") for n in names)
    if "megatron/training/" in path or forked or any(_within(n, LM_PACKAGE) for n in names):
        return (
            "this is Megatron-LM's own container: released Megatron-LM reads cfg.dist.use_megatron_fsdp, so the move "
            "would switch FSDP off; use --target main if the code is for the release without the field"
        )
    origin = module.imports.get(OLD_CLASS, ("megatron", ""))[0]
    if not origin.startswith((".", "megatron")):
        return f"{OLD_CLASS} comes from {origin} here, which is another project; if it is Bridge's, change it by hand"
    return ""


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def _companions(module: Module, reading: Reading, root: Path) -> tuple[str, str]:
    doubles = any(s.double for s in reading.sites.values() if s.root == root)
    if root == ("self",) or root in reading.partial or doubles:
        return "none", ""
    if root[-1] == "[]" or _is_inexact(root):
        return "report", "the config is no plain name here; set it by hand after the flag"
    if is_test(module.path):
        return "report", "test files get the move only; add it by hand if the test trains with FSDP"
    if root in reading.companion_reads:
        return "report", "this scope reads the setting itself; add it by hand where recipes set it"
    if root[0].startswith("<") and reading.sites:
        forms = {s.form for s in reading.sites.values() if s.root == root}
        if forms & {"word", "key", "dotted-key"}:
            return "report", "overrides lie over a recipe that may set it; add it if the recipe does not"
    return "write", ""


def is_test(path: str) -> bool:
    """Whether a path is a test's: a ``test``/``tests`` part, ``test_*.py``, ``*_test.py`` or ``conftest.py``."""
    pure = PurePath(path)
    name = pure.name
    return (
        bool({"test", "tests"} & set(pure.parts[:-1]))
        or name.startswith("test_")
        or name.endswith("_test.py")
        or name == "conftest.py"
    )


# ── Loose remarks ───────────────────────────────────────────────────────────────────────────────────────────────────


def _loose(source: Source, reading: Reading, foreign: str) -> Iterator[tuple[Spot, Site | None]]:
    cased = set(reading.roots())
    for site in reading.probes:
        yield _spot(source, site), None
    guarded = [s for s in reading.guarded if s.section == OLD_SECTION]
    if not reading.probes:
        for site in guarded[:1]:
            yield _relabel(_spot(source, site), "guarded"), None
    for site in reading.orphans:
        spot = _spot(source, site)
        if foreign:
            yield _relabel(spot, "refused", foreign), None
        elif site.form == "orphan" and isinstance(site.value, ast.Constant) and site.value.value is False:
            yield spot, site
        elif site.form == "orphan":
            yield _relabel(spot, "unattached"), None
        else:
            yield _relabel(spot, "foreign-class"), None
    for site in reading.forwarded:
        yield _spot(source, site), None
    for site in reading.bare:
        yield _spot(source, site), None
    for node in reading.dumped:
        start, end = source.span(node)
        yield Spot(0, "dumped", OLD_SECTION, source.place(start, end), _one_line(source.text[start:end])), None
    for blocked in reading.blocked:
        if blocked.root not in cased:
            start, end = source.span(blocked.node)  # type: ignore[arg-type]
            text = _one_line(source.text[start:end])
            yield Spot(0, "refused", OLD_SECTION, source.place(start, end), text, blocked.reason), None


def _relabel(spot: Spot, form: str, detail: str = "") -> Spot:
    return Spot(spot.id, form, spot.section, spot.place, spot.text, detail, spot.double)


def _definitions(module: Module) -> Iterator[Spot]:
    if OLD_CLASS not in module.source.text:
        return
    for statement in module.tree.body:
        if not isinstance(statement, ast.ClassDef) or statement.name != OLD_CLASS:
            continue
        for inner in statement.body:
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name) and inner.target.id == FLAG:
                start, end = module.source.span(inner)
                place = module.source.place(start, end)
                yield Spot(0, "definition", OLD_SECTION, place, _one_line(module.source.text[start:end]))


def _prose(module: Module) -> Iterator[tuple[int, int]]:
    """Character ranges of the old path in comments, docstrings and other prose."""
    text = module.source.text
    if not _PROSE.search(text):
        return
    for match in _COMMENT.finditer(text):
        line = text.rfind("\n", 0, match.end()) + 1
        sharp = text.index("#", line)
        yield from (m.span() for m in _PROSE.finditer(text, sharp, match.end()))
    lines = {module.source.place(m.start(), m.end()).line for m in _PROSE.finditer(text)}
    for node in _strings(module.tree.body, lines):
        value = node.value if isinstance(node, ast.Constant) else ""
        if isinstance(value, str) and _PROSE.search(value) and any(c.isspace() for c in value):
            start, end = module.source.span(node)
            yield from (m.span() for m in _PROSE.finditer(text, start, end))


def _strings(body: Sequence[ast.stmt], lines: set[int]) -> Iterator[ast.Constant]:
    """Strings with the flag in the statements that have one of these lines."""
    for statement in body:
        assert statement.end_lineno is not None
        if not any(statement.lineno <= line <= statement.end_lineno for line in lines):
            continue
        inner = [block for _, block in blocks(statement)]
        if inner:
            for block in inner:
                yield from _strings(block, lines)
            if not any(statement.lineno <= line < inner[0][0].lineno for line in lines):
                continue
        nodes = ast.walk(statement) if not inner else (n for e in expressions(statement) for n in ast.walk(e))
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and FLAG in node.value:
                yield node


def _prose_spot(source: Source, span: tuple[int, int]) -> Spot:
    return Spot(0, "prose", OLD_SECTION, source.place(*span), source.text[slice(*span)])


# ── Scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _scopes(tree: ast.Module, hits: set[int]) -> list[Scope]:
    """Scopes that have a line with the flag of their own, outermost first."""
    found: list[Scope] = []

    def visit(scope: Scope, lines: set[int]) -> None:
        inner: set[int] = set()
        nested: list[tuple[Scope, set[int]]] = []
        for statement in _nested(scope.body):
            assert statement.end_lineno is not None
            body = range(statement.body[0].lineno, statement.end_lineno + 1)
            mine = lines & set(body) if lines else set()
            if mine:
                nested.append((statement, mine))
                inner |= mine
        if lines - inner:
            found.append(scope)
        for inner_scope, mine in nested:
            visit(inner_scope, mine)

    if tree.body:
        visit(tree, hits)
    return found


def _nested(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement
        else:
            for _, block in blocks(statement):
                yield from _nested(block)
