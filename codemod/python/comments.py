"""The comments of Python, and what they may stand above or behind."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Hashable
from contextlib import suppress
from functools import lru_cache

from fsdp_migrate.languages import Item
from fsdp_migrate.prefilter import TOOL
from fsdp_migrate.python.source import Source, parse

_ALONE = re.compile(r"^[ \t\x0c]*(#[^\n]*?)[ \t\r]*$", re.MULTILINE)


# Comments are looked for, and then what is around them.
@lru_cache(maxsize=2)
def _tree(text: str) -> ast.Module:
    return parse(text)


def comments(text: str, kind: str) -> list[tuple[int, int]]:
    """The comments around those that speak to this tool. Only top-level statements that have one are tokenized."""
    starts = Source(text).starts
    windows: list[tuple[int, int]] = []
    for statement in _tree(text).body:
        assert statement.end_lineno is not None
        start, end = starts[_first_line(statement) - 1], starts[min(statement.end_lineno, len(starts) - 1)]
        if windows and start < windows[-1][1]:
            start, _ = windows.pop()  # it begins on the line on which the one before ends
        windows.append((start, end))
    found: list[tuple[int, int]] = []
    behind = 0
    for start, end in windows:
        found += _between(text, behind, start)
        if TOOL in text[start:end]:
            found += _inside(text, start, end)
        behind = end
    return found + _between(text, behind, len(text))


def _between(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [m.span(1) for m in _ALONE.finditer(text, start, end)] if TOOL in text[start:end] else []


def _inside(text: str, start: int, end: int) -> list[tuple[int, int]]:
    inner = Source(text[start:end])
    found = []
    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(inner.text).readline):
            if token.type == tokenize.COMMENT:
                at = start + inner.starts[token.start[0] - 1] + token.start[1]
                found.append((at, at + len(token.string.rstrip())))
    return found


def _first_line(node: ast.stmt | ast.expr | ast.keyword | ast.arg | ast.excepthandler) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def items(text: str, lines: Collection[int]) -> list[Item]:
    source = Source(text)
    found = []
    waiting: list[ast.AST] = [_tree(text)]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(node, ast.stmt | ast.expr | ast.keyword | ast.arg | ast.excepthandler):
                waiting.append(node)
                continue
            if not any(_first_line(node) <= line <= (node.end_lineno or 0) for line in lines):
                continue
            waiting.append(node)
            start, end = source.span(node)  # type: ignore[arg-type]
            if decorators := getattr(node, "decorator_list", None):
                start = text.rindex("@", 0, source.span(decorators[0])[0])
            found.append(Item(start, end, isinstance(node, ast.stmt) and not hasattr(node, "body")))
    return found


def meaning(text: str) -> Hashable:
    return ast.dump(parse(text))
