"""Statements and the blocks inside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def blocks(statement: ast.AST) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    """The statement lists inside a statement, each with the node that holds it (a handler or case, or itself)."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if block and isinstance(block, list):
            yield statement, block
        if name == "body":
            for inner in (*(getattr(statement, "handlers", None) or ()), *(getattr(statement, "cases", None) or ())):
                yield inner, inner.body


def expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, not those of the statements inside it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from (n for n in ast.iter_child_nodes(child) if isinstance(n, ast.expr))


def statements(body: Sequence[ast.stmt], *, nested: bool) -> Iterator[ast.stmt]:
    """All statements at any depth; those of nested functions and classes only if `nested`."""
    for statement in body:
        yield statement
        if nested or not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for _, block in blocks(statement):
                yield from statements(block, nested=nested)
