"""The comments of prose: ``<!-- -->`` in Markdown, ``{/* */}`` in MDX, ``.. `` in reStructuredText."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterator, Sequence

from fsdp_migrate.documents.markdown import fences
from fsdp_migrate.languages import Item
from fsdp_migrate.segments import lines_of

_OPENING = re.compile(r"<!--|\{/\*")
_CLOSING = {"<!--": "-->", "{/*": "*/}"}
_REST = re.compile(r"^[ \t]*+(\.\. (?:[^ \t\r\n]++|[ \t\r]++(?=[^ \t\r\n]))*+)", re.MULTILINE)


def comments(text: str, kind: str) -> list[tuple[int, int]]:
    if kind == "rest":
        return [found.span(1) for found in _REST.finditer(text)]
    blocks = fences(text)
    return [(start, end) for start, end in _marked(text) if not _is_within(start, blocks)]


def _marked(text: str) -> Iterator[tuple[int, int]]:
    """What stands between the marks of a comment."""
    position = 0
    while opening := _OPENING.search(text, position):
        closing = _CLOSING[opening[0]]
        end = text.find(closing, opening.end())
        if end < 0:
            # Nothing behind it closes one of this kind either.
            other = next(mark for mark in _CLOSING if mark != opening[0])
            position = text.find(other, opening.end())
            if position < 0 or text.find(_CLOSING[other], position) < 0:
                return
            continue
        position = end + len(closing)
        yield opening.start(), position


def _is_within(position: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether one of these successive spans covers a position."""
    number = bisect_right(spans, (position, sys.maxsize)) - 1
    return number >= 0 and position < spans[number][1]


def items(text: str, lines: Collection[int]) -> list[Item]:
    """Paragraphs without the comments above them, and blocks of code with their fences."""
    blocks = fences(text)
    found = [Item(start, end) for start, end in blocks]
    begin = None
    for at, line in [*lines_of(text), (len(text), "")]:
        inside = _is_within(at, blocks)
        if line.strip() and not inside and not line.lstrip().startswith(("<!--", "{/*", ".. ")):
            begin = at if begin is None else begin
        elif begin is not None:
            found.append(Item(begin, at))
            begin = None
    return [Item(i.start + len(text[i.start : i.end]) - len(text[i.start : i.end].lstrip()), i.end) for i in found]


def meaning(text: str) -> Hashable:
    kept, position = [], 0
    for start, end in _marked(text):
        kept.append(text[position:start])
        position = end
    kept.append(text[position:])
    return tuple(_REST.sub("", "".join(kept)).split())
