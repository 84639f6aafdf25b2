"""Sightings in Python. A name counts only where the file shows that it is Bridge's or Megatron-Core's."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import Asked
from fsdp_migrate.neighbours.certain import Certain, is_below, is_config
from fsdp_migrate.neighbours.names import ADAPTED, ADAPTER, CLASSES, CUSTOM_IMPORT, FIELDS, OLD_FOLDER, Moved
from fsdp_migrate.neighbours.sighting import Sighting, sighting
from fsdp_migrate.neighbours.words import spans
from fsdp_migrate.overrides import literal
from fsdp_migrate.python.project import Module
from fsdp_migrate.python.source import Source, parse

_TWICE = "the new name is used here too; keep one of the two by hand"
_PROBED = "the old name is also asked for by a string; change both by hand"
_HANDS = "the value belongs to another class now; move it by hand"


def read(text: str, asked: Asked) -> Sequence[Sighting]:
    """The sightings in one piece of Python.

    Raises:
        UnreadableError: it is not Python.
    """
    from fsdp_migrate.neighbours.calls import Calls

    module = Module(asked.path, Source(text), parse(text))
    return [*_Reader(module, asked.target).run(), *Calls(module, asked.target).run()]


class _Reader(Certain):
    def __init__(self, module: Module, target: str) -> None:
        super().__init__(module)
        nodes = self.nodes
        # The library's own file: its class has the field under the old name.
        classes = [n for n in nodes if isinstance(n, ast.ClassDef) and n.name in CLASSES]
        defined = {(CLASSES[c.name][0], name) for c in classes for name in _fields(c)}
        self.rows = [row for row in FIELDS if row.holds(target) and row.old not in defined]
        self.strings = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        self.attributes = {
            (node.value.attr, node.attr)
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)
        }

    def run(self) -> Iterator[Sighting]:
        for node in self.nodes:
            match node:
                case ast.Attribute(value=ast.Attribute()):
                    yield from self._attribute(node)
                case ast.Call():
                    yield from self._call(node)
                case ast.ImportFrom():
                    yield from self._import(node)
                case ast.Constant(value=str()):
                    yield from self._word(node)

    def _attribute(self, node: ast.Attribute) -> Iterator[Sighting]:
        owner = node.value
        assert isinstance(owner, ast.Attribute)
        row = next((r for r in self.rows if r.old == (owner.attr, node.attr)), None)
        if row is None or not self.is_bridge or not is_config(owner.value) or self.is_compatible(node):
            return
        statement = self.parents[id(node)]
        value: object = None
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            value = statement.value.value
        start, end = self.name_of(owner)[0], self.name_of(node)[1]
        yield self._field(row, (start, end), ".".join(row.new), row.is_safe(value), self._twice(row))

    def _call(self, node: ast.Call) -> Iterator[Sighting]:
        section = self.section_of(node.func)
        if section is None or self.is_compatible(node):
            return
        given = {k.arg for k in node.keywords}
        for keyword in node.keywords:
            row = next((r for r in self.rows if r.old == (section, keyword.arg)), None)
            if row is None:
                continue
            start = self.source.span(keyword)[0]
            span = start, start + len(row.old[1])
            other = row.new[0] != section
            why = _HANDS if other else _TWICE if row.new[1] in given or None in given else ""
            # A new object of a known class: there is nothing that it could overrule.
            yield self._field(row, span, row.new[1] if not other else ".".join(row.new), True, why)

    def _import(self, node: ast.ImportFrom) -> Iterator[Sighting]:
        if node.level or not node.module or not is_below(node.module, OLD_FOLDER) or self.is_compatible(node):
            return
        start, end = self.source.span(node)
        start = self.lines.text.index(node.module, start, end)
        span = start, start + len(node.module)
        can = [alias.name for alias in node.names] == [ADAPTED]
        why = (
            ""
            if can
            else f"megatron-core 0.14 moved this folder; only {ADAPTED} has a successor that is known: {ADAPTER}"
        )
        changes = (Edit(*span, ADAPTER),) if can else ()
        yield sighting("python", self.lines, CUSTOM_IMPORT, span, ADAPTER, changes, why=why)

    def _word(self, node: ast.Constant) -> Iterator[Sighting]:
        """An override in a string by itself."""
        if not self.is_bridge or not isinstance(node.value, str) or "=" not in node.value:
            return
        start, end = self.source.span(node)
        raw = self.lines.text[start:end]
        for row, at, stop in spans(raw, self.rows):
            if raw[:at].strip("'\"+") or isinstance(self.parents[id(node)], ast.JoinedStr | ast.Expr):
                continue  # Prose, or a piece of a string that is put together.
            value = raw[stop:].strip("'\"").removeprefix("=")
            new = ".".join(row.new)
            why = _TWICE if f"{new}=" in self.lines.text else ""
            yield self._field(row, (start + at, start + stop), new, row.is_safe(literal(value)), why)

    def _field(self, row: Moved, span: tuple[int, int], new: str, safe: bool, why: str) -> Sighting:
        changes = () if why else (Edit(*span, new),)
        return sighting("python", self.lines, row.topic, span, new, changes, safe=safe, why=why or row.why)

    def _twice(self, row: Moved) -> str:
        if row.new in self.attributes:
            return _TWICE
        return _PROBED if row.old[1] in self.strings else ""


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
