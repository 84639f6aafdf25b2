"""Turn a decision into changes to Python syntax, and changes into minimal text edits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from fsdp_migrate.cases import MOVE
from fsdp_migrate.conflicts import replacements
from fsdp_migrate.findings import Edit, apply_edits
from fsdp_migrate.python import changes as c
from fsdp_migrate.python.analyse import PythonCase, spell
from fsdp_migrate.python.settings import spelled
from fsdp_migrate.python.sites import Scope, Site
from fsdp_migrate.python.source import Source
from fsdp_migrate.python.statements import blocks
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import COMPANIONS, FLAG, NEW_SECTION, OLD_SECTION

Step = tuple[c.Change, ast.stmt]
PROSE = "prose"


def edits_of(found: PythonCase, parts: frozenset[str]) -> tuple[Edit, ...]:
    """The text edits that carry out these parts of a case's fix.

    Raises:
        RuntimeError, libcst.ParserSyntaxError: the source could not be edited safely.
    """
    steps = list(_steps(found, parts))
    edits = list(_literals(found, parts))
    if steps:
        edits = list(_carry_out(found, steps, edits))
    if PROSE in parts:
        edits += [Edit(start, start + len(OLD_SECTION), NEW_SECTION) for start, _ in found.prose]
    return tuple(sorted(edits))


def _literals(found: PythonCase, parts: frozenset[str]) -> Iterator[Edit]:
    """Literals that get the value that a rule about conflicts asks for."""
    for path, value in replacements(parts).items():
        start, end = found.source.span(found.values[path])
        yield Edit(start, end, spelled(value, found.source.text[start:end]))


# ── Decision to changes ─────────────────────────────────────────────────────────────────────────────────────────────


def _steps(found: PythonCase, parts: frozenset[str]) -> Iterator[Step]:
    blocks = _Blocks(found.scope)
    removed: set[int] = set()
    if MOVE in parts:
        for number, action in found.case.decision.actions.items():
            for change, statement in _action(found, found.sites[number], action, blocks):
                if isinstance(change, c.RemoveStatement):
                    removed.add(id(statement))
                yield change, statement
        for site in found.orphans:
            assert isinstance(site.owner, ast.Call)
            yield c.DropKeyword(site.owner, FLAG), site.statement
        yield from _reads(found, blocks, removed)
    for companion in found.case.decision.companions:
        part = f"{companion.name}!" if companion.how == "keep" else companion.name
        if part in parts:
            yield from _companion(found, companion)
    yield from _conditional(found, parts)


def _action(found: PythonCase, site: Site, action: plan.Action, blocks: _Blocks) -> Iterator[Step]:
    root = spell(found.root)
    match action:
        case plan.Delete():
            yield from _delete(found, site, blocks)
        case plan.Rename(value):
            yield from _rename(found, site, value)
        case plan.Put(value):
            yield from _put(found, site, value)
        case plan.MoveAfter(anchor, value):
            statement = found.sites[anchor].statement
            yield c.RemoveStatement(site.statement), site.statement
            line = f"{root}.{NEW_SECTION}.{FLAG} = {_render(value, root)}"
            yield c.InsertAfter(statement, (line,)), statement


def _delete(found: PythonCase, site: Site, blocks: _Blocks) -> Iterator[Step]:
    statement = site.statement
    match site.form:
        case "store" | "subscript" if isinstance(statement, ast.Assign) and len(statement.targets) > 1:
            yield c.RemoveTarget(statement, site.target), statement
        case "store" | "setattr" | "replace" | "subscript":
            yield c.RemoveStatement(statement, _heir(found, site, blocks)), statement
        case "keyword":
            assert isinstance(site.owner, ast.Call)
            yield c.DropKeyword(site.owner, FLAG), statement
        case "word":
            index = _position(site.owner, site.node)
            assert site.owner is not None
            yield c.DropElement(site.owner, index), statement
        case "key" | "dotted-key":
            assert isinstance(site.owner, ast.Dict)
            outer = _outer(site, statement)
            if site.form == "key" and len(site.owner.keys) == 1 and outer is not None:
                yield c.DropKey(*outer), statement
            else:
                yield c.DropKey(site.owner, _key_index(site.owner, site.node)), statement
        case _:
            raise RuntimeError(f"cannot delete a {site.form}")


def _heir(found: PythonCase, site: Site, blocks: _Blocks) -> ast.stmt | None:
    """The statement that says the same from now on, if it stands in the same block."""
    for twin in plan.twins(found.block).get(site.id, ()):
        other = found.sites.get(twin)
        gone = isinstance(found.case.decision.actions.get(twin), plan.Delete)
        if other is not None and not gone and blocks.together(site.statement, other.statement):
            return other.statement if blocks.is_simple(other.statement) else None
    return None


def _rename(found: PythonCase, site: Site, value: plan.Expression | None) -> Iterator[Step]:
    root, statement = spell(found.root), site.statement
    spelled = f"{root}.{NEW_SECTION}" if site.spelled else ""
    match site.form:
        case "store" | "update" | "unpack":
            assert isinstance(site.node, ast.Attribute)
            yield c.RenameSection(site.node, spelled), statement
            if value is not None and value != _stored(found, site.id):
                yield c.SetStored(statement, _render(value, root)), statement
        case "setattr":
            assert isinstance(site.owner, ast.Call)
            yield c.RenameArgument(site.owner, spelled), statement
            if value is not None and value != _stored(found, site.id):
                yield c.SetArgument(site.owner, 2, _render(value, root)), statement
        case "replace":
            assert isinstance(site.owner, ast.Call) and isinstance(site.node, ast.Attribute)
            yield c.RenameSection(site.node), statement
            yield c.RenameArgument(site.owner), statement
        case "subscript":
            key = _section_key(site.node)
            yield c.SetText(key, _replaced(found.source, key)), statement
        case "keyword":
            assert isinstance(site.owner, ast.Call)
            yield c.DropKeyword(site.owner, FLAG), statement
            stored = _stored(found, site.id) if value is None else value
            line = f"{root}.{NEW_SECTION}.{FLAG} = {_render(stored, root)}"
            yield c.InsertAfter(statement, (line,)), statement
        case "word" | "dotted-key":
            assert isinstance(site.node, ast.expr)
            yield c.SetText(site.node, _replaced(found.source, site.node)), statement
        case "key":
            outer = _outer(site, statement)
            assert outer is not None
            outer_key = outer[0].keys[outer[1]]
            assert outer_key is not None
            yield c.SetText(outer_key, _replaced(found.source, outer_key)), statement
        case _:
            raise RuntimeError(f"cannot rename a {site.form}")


def _put(found: PythonCase, site: Site, value: plan.Expression) -> Iterator[Step]:
    root, statement = spell(found.root), site.statement
    if site.form not in ("section", "dict-section") and value == _stored(found, site.id):
        return
    source = _render(value, root)
    match site.form:
        case "store" | "subscript":
            yield c.SetStored(statement, source), statement
        case "setattr":
            assert isinstance(site.owner, ast.Call)
            yield c.SetArgument(site.owner, 2, source), statement
        case "keyword":
            assert isinstance(site.owner, ast.Call)
            yield c.SetKeyword(site.owner, FLAG, source), statement
        case "section":
            assert isinstance(site.owner or site.node, ast.Call)
            yield c.AddKeyword(site.owner or site.node, FLAG, source), statement  # type: ignore[arg-type]
        case "dict-section":
            assert isinstance(site.owner, ast.Dict)
            quote = _quote(found, statement)
            yield c.AddKey(site.owner, f"{quote}{FLAG}{quote}", source), statement
        case "key" | "dotted-key":
            assert isinstance(site.owner, ast.Dict)
            yield c.SetEntry(site.owner, _key_index(site.owner, site.node), source), statement
        case "word":
            assert isinstance(site.node, ast.expr)
            text = found.source.segment(site.node)
            literal = source.lower() if source in ("True", "False") else source
            yield c.SetText(site.node, re.sub(r"=[^'\"]*", f"={literal}", text, count=1)), statement
        case _:
            raise RuntimeError(f"cannot set a {site.form}")


def _reads(found: PythonCase, blocks: _Blocks, removed: set[int]) -> Iterator[Step]:
    dropped: set[int] = set(removed)
    for site in found.reads:
        statement = site.statement
        if id(statement) in dropped:
            continue
        if isinstance(statement, ast.Assert):
            twin = blocks.same_neighbour(statement, dropped)
            if twin is not None:
                dropped.add(id(statement))
                yield c.RemoveStatement(statement, twin), statement
                continue
        spelled = f"{spell(found.root)}.{NEW_SECTION}" if site.spelled else ""
        if isinstance(site.node, ast.Attribute):
            yield c.RenameSection(site.node, spelled), statement
        else:
            assert isinstance(site.node, ast.Call)
            yield c.RenameArgument(site.node, spelled), statement


def _companion(found: PythonCase, companion: plan.Companion) -> Iterator[Step]:
    name, value = companion.name, COMPANIONS[companion.name]
    site = found.sites[companion.anchor]
    action = found.case.decision.actions.get(companion.anchor)
    statement = site.statement
    if isinstance(action, plan.MoveAfter):
        statement = found.sites[action.anchor].statement
    quote = _quote(found, statement)
    source = f"{quote}{value}{quote}" if isinstance(value, str) else repr(value)
    match companion.how:
        case "insert" if site.form in ("word", "key", "dotted-key"):
            if site.form == "word" and isinstance(site.owner, ast.List | ast.Tuple | ast.Set):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                index = _position(site.owner, site.node)
                yield c.AddElements(site.owner, index, (f"{quote}{name}={text}{quote}",)), statement
        case "insert":
            yield c.InsertAfter(statement, (f"{spell(found.root)}.{name} = {source}",)), statement
        case "keyword":
            call = site.owner or site.node
            assert isinstance(call, ast.Call)
            yield c.AddKeyword(call, name.split(".")[1], source), statement
        case "change" | "keep":
            yield from _change(found, site, source)


def _change(found: PythonCase, site: Site, source: str) -> Iterator[Step]:
    """Another value for a setting, in the quotes that stand there."""
    old = found.source.segment(site.value) if site.value is not None else ""
    if source[:1] in "\"'" and old[:1] in "\"'" and not old.startswith(('"""', "'''")):
        source = old[0] + source[1:-1] + old[0]
    match site.form:
        case "setting":
            yield c.SetStored(site.statement, source), site.statement
        case "setting-keyword":
            assert isinstance(site.owner, ast.Call) and isinstance(site.node, ast.keyword) and site.node.arg
            yield c.SetKeyword(site.owner, site.node.arg, source), site.statement
        case "setting-key":
            assert isinstance(site.owner, ast.Dict)
            yield c.SetEntry(site.owner, _key_index(site.owner, site.node), source), site.statement


CONDITIONAL = "conditional"


def _conditional(found: PythonCase, parts: frozenset[str]) -> Iterator[Step]:
    """The companions under an ``if`` on the flag, where the flag is an expression."""
    if CONDITIONAL not in parts:
        return
    wanted: dict[int, list[str]] = {}
    for companion in found.case.decision.companions:
        if companion.how == "conditional":
            wanted.setdefault(companion.anchor, []).append(companion.name)
    root = spell(found.root)
    for number, names in wanted.items():
        site = found.sites[number]
        quote = _quote(found, site.statement)
        lines = []
        for name in names:
            value = COMPANIONS[name]
            lines.append(f"{root}.{name} = " + (f"{quote}{value}{quote}" if isinstance(value, str) else repr(value)))
        header = f"{root}.{NEW_SECTION}.{FLAG}"
        yield c.InsertBlockAfter(site.statement, header, tuple(lines)), site.statement


# ── Small pieces ────────────────────────────────────────────────────────────────────────────────────────────────────


def _stored(found: PythonCase, number: int) -> plan.Expression:
    """The value that a store had before."""
    return next(e.value for e in plan.walk(found.block) if isinstance(e, plan.Store) and e.id == number)


def _render(value: plan.Expression, root: str) -> str:
    if value == plan.FALSE:
        return "False"
    parts = []
    for atom in value:
        match atom:
            case bool():
                parts.append(str(atom))
            case plan.Flag():
                parts.append(f"{root}.{NEW_SECTION}.{FLAG}")
            case plan.Symbol(source=source):
                bare = source[1:-1] if len(value) == 1 and source.startswith("(") and "\n" not in source else source
                parts.append(bare)
    return " or ".join(parts)


def _position(owner: ast.expr | None, node: ast.AST) -> int:
    assert isinstance(owner, ast.List | ast.Tuple | ast.Set)
    return next(i for i, e in enumerate(owner.elts) if e is node)


def _key_index(owner: ast.Dict, node: ast.AST) -> int:
    return next(i for i, k in enumerate(owner.keys) if k is node)


def _outer(site: Site, statement: ast.stmt) -> tuple[ast.Dict, int] | None:
    for node in ast.walk(statement):
        if isinstance(node, ast.Dict):
            for i, value in enumerate(node.values):
                if value is site.owner:
                    return node, i
    return None


def _section_key(node: ast.AST) -> ast.expr:
    assert isinstance(node, ast.Subscript) and isinstance(node.value, ast.Subscript)
    return node.value.slice


def _replaced(source: Source, node: ast.expr) -> str:
    """A string literal with the section renamed; Hydra's plain ``+`` goes, because the key exists on ddp."""
    text = source.segment(node)
    text = re.sub(rf"(?<![\w.+])\+({OLD_SECTION}\.{FLAG})", r"\1", text)
    return re.sub(rf"\b{OLD_SECTION}\b", NEW_SECTION, text, count=1)


def _quote(found: PythonCase, statement: ast.stmt) -> str:
    """The quotes of the nearest string of the scope, else the file's majority, else double quotes."""
    line, source = statement.lineno, found.source
    nearest: tuple[int, int, str] | None = None
    for node in ast.walk(found.scope):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            quote = re.match(r"[a-zA-Z]*(\"\"\"|'''|\"|')", source.segment(node))
            if quote and len(quote[1]) == 1:
                candidate = (abs(node.lineno - line), node.lineno, quote[1])
                nearest = min(nearest, candidate) if nearest else candidate
    if nearest:
        return nearest[2]
    return "'" if source.text.count("'") > source.text.count('"') else '"'


class _Blocks:
    """Which statement list every statement of a scope stands in."""

    def __init__(self, scope: Scope) -> None:
        self.place: dict[int, tuple[list[ast.stmt], int, ast.AST]] = {}
        self._visit(scope)

    def _visit(self, owner: ast.AST) -> None:
        for holder, block in blocks(owner):
            if holder is not owner:
                self.place[id(holder)] = ([], 0, owner)
            for i, statement in enumerate(block):
                self.place[id(statement)] = (block, i, holder)
                self._visit(statement)

    def together(self, a: ast.stmt, b: ast.stmt) -> bool:
        return id(a) in self.place and id(b) in self.place and self.place[id(a)][0] is self.place[id(b)][0]

    @staticmethod
    def is_simple(statement: ast.stmt) -> bool:
        return not hasattr(statement, "body")

    def same_neighbour(self, statement: ast.stmt, dropped: set[int]) -> ast.stmt | None:
        """The statement next to this one that says the same once the section is renamed."""
        block, index, _ = self.place[id(statement)]
        wanted = _renamed(statement)
        for i in (index - 1, index + 1):
            if 0 <= i < len(block) and id(block[i]) not in dropped and _renamed(block[i]) == wanted:
                return block[i]
        return None

    def region(self, statements: Iterable[ast.stmt], source: Source, gone: set[int]) -> list[ast.stmt]:
        """The smallest run of whole-line statements of one block that contains all of these.

        It keeps at least one statement that is not `gone`, unless the block has none.
        """
        chains = [self._chain(s) for s in {id(s): s for s in statements}.values()]
        depth = 0
        while True:
            level = [chain[depth] for chain in chains if depth < len(chain)]
            if len(level) < len(chains) or any(place[0] is not level[0][0] for place in level):
                depth -= 1
                break
            if len({i for _, i, _ in level}) > 1 or any(depth == len(chain) - 1 for chain in chains):
                break
            depth += 1
        while depth > 0 and not self._whole_lines(chains[0][depth], source):
            depth -= 1
        block = chains[0][depth][0]
        indexes = [chain[depth][1] for chain in chains]
        first, last = min(indexes), max(indexes)
        while True:
            while first > 0 and block[first - 1].end_lineno == _first_line(block[first]):
                first -= 1
            while last + 1 < len(block) and _first_line(block[last + 1]) == block[last].end_lineno:
                last += 1
            if any(id(s) not in gone for s in block[first : last + 1]):
                break
            if last + 1 < len(block):
                last += 1
            elif first > 0:
                first -= 1
            else:
                break
        return block[first : last + 1]

    def _chain(self, statement: ast.stmt) -> list[tuple[list[ast.stmt], int, ast.AST]]:
        chain: list[tuple[list[ast.stmt], int, ast.AST]] = []
        node: ast.AST = statement
        while id(node) in self.place:
            place = self.place[id(node)]
            if place[0]:
                chain.append(place)
            node = place[2]
        return chain[::-1]

    @staticmethod
    def _whole_lines(place: tuple[list[ast.stmt], int, ast.AST], source: Source) -> bool:
        """Whether a block begins with a statement that stands by itself: not beside its header, and no ``elif``."""
        first = place[0][0]
        line = _first_line(first)
        start = source.offset(line, _first_column(first))
        is_elif = isinstance(first, ast.If) and source.text.startswith("elif", start)
        return not is_elif and not source.text[source.starts[line - 1] : start].strip()


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", None)
    return decorators[0].lineno if decorators else statement.lineno


def _first_column(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", None)
    return decorators[0].col_offset - 1 if decorators else statement.col_offset


def _renamed(statement: ast.stmt) -> str:
    return ast.unparse(statement).replace(f".{OLD_SECTION}.{FLAG}", f".{NEW_SECTION}.{FLAG}")


# ── Changes to edits ────────────────────────────────────────────────────────────────────────────────────────────────


def _carry_out(found: PythonCase, steps: Sequence[Step], replaced: Sequence[Edit]) -> Iterator[Edit]:
    """The edits of the steps, together with those that only put one literal in the place of another."""
    from fsdp_migrate.python.rewrite import rewrite

    source = found.source
    involved = [s for _, s in steps]
    involved += [c_.heir for c_, _ in steps if isinstance(c_, c.RemoveStatement) and c_.heir is not None]
    gone = {id(c_.statement) for c_, _ in steps if isinstance(c_, c.RemoveStatement)}
    region = _Blocks(found.scope).region(involved, source, gone)
    first, last = _first_line(region[0]), region[-1].end_lineno
    assert last is not None
    start, end = source.starts[first - 1], source.starts[last] if last < len(source.starts) else len(source.text)
    old = source.text[start:end]
    indented = source.line(first)[:1] in " \t\x0c"
    before = source.text[: end if old.endswith("\n") else start]
    newline = "\r\n" if before.endswith("\r\n") else "\n"
    inside = [edit for edit in replaced if start <= edit.start < end]
    text = apply_edits(old, (Edit(edit.start - start, edit.end - start, edit.text) for edit in inside))
    new = rewrite(text, region, _merged(steps), indented=indented, unit=_unit(found), newline=newline)
    yield from minimal(start, old, new)
    yield from (edit for edit in replaced if edit not in inside)


def _merged(steps: Sequence[Step]) -> list[c.Change]:
    """Insertions after the same statement become one, in the order in which they were decided."""
    lines: dict[int, list[str]] = {}
    merged: list[c.Change] = []
    for change, _ in steps:
        if isinstance(change, c.InsertAfter):
            key = id(change.statement)
            if key in lines:
                lines[key] += change.lines
                continue
            lines[key] = list(change.lines)
        merged.append(change)
    return [
        c.InsertAfter(m.statement, tuple(lines[id(m.statement)])) if isinstance(m, c.InsertAfter) else m for m in merged
    ]


def _unit(found: PythonCase) -> str:
    """One level of indentation, as this file writes it."""
    match = re.search(r"^([ \t]+)\S", found.source.text, re.MULTILINE)
    if not match:
        return "    "
    return "\t" if match[1].startswith("\t") else match[1] if len(match[1]) <= 8 else "    "


def minimal(start: int, old: str, new: str) -> Iterator[Edit]:
    """Line edits that turn `old` (which begins at character `start`) into `new`, trimmed to what differs."""
    from fsdp_migrate.alike import spans

    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    offsets = [0]
    for line in before:
        offsets.append(offsets[-1] + len(line))
    for equal, i1, i2, j1, j2 in spans(before, after):
        if equal:
            continue
        a, b = old[offsets[i1] : offsets[i2]], "".join(after[j1:j2])
        head = 0
        while head < min(len(a), len(b)) and a[head] == b[head]:
            head += 1
        tail = 0
        while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
            tail += 1
        yield Edit(start + offsets[i1] + head, start + offsets[i2] - tail, b[head : len(b) - tail])
