"""What a Python expression is worth to the plan: literals, symbols, dotted names and override words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from fsdp_migrate import overrides
from fsdp_migrate.python.source import Source
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import FLAG

# Builtins that give the same answer for the same arguments.
_PURE = frozenset(
    {"bool", "int", "float", "str", "len", "getattr", "isinstance", "hasattr", "min", "max", "any", "all"}
)


class FlagReader(Protocol):
    """Tells which section's flag of the root at hand an expression reads, and what a dotted name stands for."""

    def __call__(self, node: ast.expr) -> str | None: ...

    def resolve(self, node: ast.expr) -> tuple[str, ...] | None: ...


def dotted(node: ast.AST) -> tuple[str, ...] | None:
    """``a.b["c"]`` as ``("a", "b", "['c']")``; None for everything that is not names and constant subscripts."""
    parts: list[str] = []
    while True:
        match node:
            case ast.Attribute(value, attr):
                parts.append(attr)
                node = value
            case ast.Subscript(value, ast.Constant(str() | int() as index)):
                parts.append(f"[{index!r}]")
                node = value
            case ast.Name(name):
                parts.append(name)
                return tuple(reversed(parts))
            case _:
                return None


def literal(node: ast.expr) -> object:
    """The value of a constant, or `plan.UNKNOWN`."""
    return node.value if isinstance(node, ast.Constant) else plan.UNKNOWN


def expression(node: ast.expr, flag_of: FlagReader, source: Source) -> plan.Expression:
    """A flag's value as an OR of atoms."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return plan.TRUE if node.value else plan.FALSE
    section = flag_of(node)
    if section is not None:
        return (plan.Flag(section),)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return plan.disjunction(*(expression(v, flag_of, source) for v in node.values))
    return (symbol(node, flag_of, source),)


def symbol(node: ast.expr, flag_of: FlagReader, source: Source) -> plan.Symbol:
    text = source.segment(node)
    if isinstance(node, ast.IfExp | ast.Lambda | ast.NamedExpr | ast.Yield | ast.YieldFrom) or "\n" in text:
        text = f"({text})"
    return plan.Symbol(ast.unparse(node), text, frozenset(reads_of(node, flag_of)), _is_pure(node))


def reads_of(node: ast.expr, flag_of: FlagReader) -> Iterator[str]:
    """Dotted names that an expression depends on, aliases resolved."""
    raw, path = dotted(node), flag_of.resolve(node)
    if raw is not None and path is not None:
        # Both: the object may change under either name.
        yield from {".".join(raw), ".".join(path)}
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from reads_of(child, flag_of)
        elif isinstance(child, ast.comprehension | ast.keyword):
            for inner in ast.iter_child_nodes(child):
                if isinstance(inner, ast.expr):
                    yield from reads_of(inner, flag_of)


def _is_pure(node: ast.expr) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            if not (isinstance(inner.func, ast.Name) and inner.func.id in _PURE):
                return False
        elif isinstance(inner, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return False
        elif isinstance(inner, ast.Attribute) and inner.attr == FLAG:
            # It is renamed where it stands, so its text cannot be written elsewhere.
            return False
    return True


# ── Override words ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Word:
    """A Hydra override in a Python string: ``[+|++|~]section.key=value``.

    `node` is the string it stands in, `alone` whether it can be taken out of a list. An f-string's value is a symbol.
    """

    node: ast.expr
    mark: str
    name: str
    value: plan.Expression
    literal: object
    alone: bool


def words_of(node: ast.expr) -> list[Word]:
    """The override words of a string, or of a list of strings, if the flag is among them."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        words = [w for e in node.elts for w in _word(e, alone=True)]
        return words if any(w.name in overrides.FLAG_NAMES for w in words) else []
    if isinstance(node, ast.Constant | ast.JoinedStr):
        words = list(_word(node, alone=False))
        return words if words and words[0].name in overrides.FLAG_NAMES else []
    return []


def _word(node: ast.expr, *, alone: bool) -> Iterator[Word]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text, symbols = node.value, False
    elif isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
        text, symbols = str(node.values[0].value), True
        if "=" not in text:
            return
    else:
        return
    found = overrides.read(text) if not any(c.isspace() for c in text) else None
    if found is None:
        return
    stored: plan.Expression
    known: object
    if symbols:
        stored, known = (plan.Symbol(ast.unparse(node), ""),), plan.UNKNOWN
    elif found.value is None:
        stored, known = (plan.Symbol(text, "", pure=False),), plan.UNKNOWN
    else:
        stored, known = overrides.stored(found.value), overrides.literal(found.value)
    yield Word(node, found.mark, found.name, stored, known, alone)
