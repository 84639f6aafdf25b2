"""The comments of Python, and what they may stand above or behind."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Hashable

from fsdp_migrate.languages import Item
from fsdp_migrate.python.source import Source, parse


def comments(text: str, kind: str) -> list[tuple[int, int]]:
    starts = Source(text).starts
    found: list[tuple[int, int]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                start = starts[token.start[0] - 1] + token.start[1]
                found.append((start, start + len(token.string.rstrip())))
    except (tokenize.TokenError, SyntaxError):
        pass  # what cannot be parsed is reported as such
    return found


def items(text: str) -> list[Item]:
    source = Source(text)
    found = []
    for node in ast.walk(parse(text)):
        if not isinstance(node, ast.stmt | ast.expr | ast.keyword | ast.arg | ast.excepthandler):
            continue
        start, end = source.span(node)  # type: ignore[arg-type]
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            start = text.rindex("@", 0, source.span(decorators[0])[0])
        found.append(Item(start, end, isinstance(node, ast.stmt) and not hasattr(node, "body")))
    return found


def meaning(text: str) -> Hashable:
    return ast.dump(parse(text))
