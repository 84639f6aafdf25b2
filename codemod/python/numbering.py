"""Give `ast` nodes the numbers under which libcst meets them.

libcst's position metadata costs more than everything else together. It is not needed: within a piece of source, the
nodes of one kind end in the same order in both trees, so the n-th call of one is the n-th call of the other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_COMPOUND = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)
KINDS = ("statement", "attribute", "call", "string", "display", "dict", "or")


def kind_of(node: ast.AST) -> str | None:
    match node:
        case ast.Attribute():
            return "attribute"
        case ast.Call():
            return "call"
        case ast.JoinedStr():
            return "string"
        case ast.Constant(str() | bytes()):
            return "string"
        case ast.List() | ast.Tuple() | ast.Set():
            return "display"
        case ast.Dict():
            return "dict"
        case ast.stmt() if not isinstance(node, _COMPOUND):
            return "statement"
        case _:
            return None


def number(statements: Sequence[ast.stmt]) -> tuple[dict[int, int], dict[str, int]]:
    """Numbers by ``id(node)``, per kind from 0, and how many nodes of each kind there are."""
    numbers: dict[int, int] = {}
    counts = dict.fromkeys(KINDS, 0)
    for statement in statements:
        for node in _leaving(statement):
            kind = kind_of(node)
            if kind is not None:
                numbers[id(node)] = counts[kind]
                counts[kind] += 1
    return numbers, counts


def _leaving(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes in the order in which they end in the source."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
        return
    if isinstance(node, ast.JoinedStr):
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from _leaving(part.value)
                if isinstance(part.format_spec, ast.JoinedStr):
                    for inner in part.format_spec.values:
                        if isinstance(inner, ast.FormattedValue):
                            yield from _leaving(inner.value)
        yield node
        return
    for child in sorted(_children(node), key=_start):
        yield from _leaving(child)
    yield node


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Children that have a position; those without are replaced by their own children."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr_context | ast.operator | ast.boolop | ast.unaryop | ast.cmpop):
            continue
        if isinstance(node, ast.Subscript) and child is node.slice:
            yield from _indices(child)
        elif hasattr(child, "lineno") and not isinstance(
            child, ast.keyword | ast.arg | ast.excepthandler | ast.pattern
        ):
            yield child
        else:
            yield from _children(child)


def _indices(node: ast.AST) -> Iterator[ast.AST]:
    """What a subscript holds, without its tuples: libcst has none in ``dict[str, int]``, but one in ``x[(1, 2)]``."""
    if isinstance(node, ast.Tuple):
        for element in node.elts:
            yield from _indices(element)
    elif isinstance(node, ast.Starred):
        yield from _indices(node.value)
    else:
        yield node


def _start(node: ast.AST) -> tuple[int, int]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.decorator_list:
        node = node.decorator_list[0]
    return node.lineno, node.col_offset  # type: ignore[attr-defined]
