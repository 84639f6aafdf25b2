"""The comments of prose: ``<!-- -->`` in Markdown, ``{/* */}`` in MDX, ``.. `` in reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable

from fsdp_migrate.documents.markdown import fences
from fsdp_migrate.languages import Item
from fsdp_migrate.segments import lines_of

_MARKDOWN = re.compile(r"<!--.*?-->|\{/\*.*?\*/\}", re.DOTALL)
_REST = re.compile(r"^[ \t]*(\.\. [^\n]*?)[ \t\r]*$", re.MULTILINE)


def comments(text: str, kind: str) -> list[tuple[int, int]]:
    if kind == "rest":
        return [found.span(1) for found in _REST.finditer(text)]
    code = fences(text)
    return [m.span() for m in _MARKDOWN.finditer(text) if not any(a <= m.start() < b for a, b in code)]


def items(text: str, lines: Collection[int]) -> list[Item]:
    """Paragraphs without the comments above them, and blocks of code with their fences."""
    blocks = fences(text)
    found = [Item(start, end) for start, end in blocks]
    begin = None
    for at, line in [*lines_of(text), (len(text), "")]:
        inside = any(start <= at < end for start, end in blocks)
        if line.strip() and not inside and not line.lstrip().startswith(("<!--", "{/*", ".. ")):
            begin = at if begin is None else begin
        elif begin is not None:
            found.append(Item(begin, at))
            begin = None
    return [Item(i.start + len(text[i.start : i.end]) - len(text[i.start : i.end].lstrip()), i.end) for i in found]


def meaning(text: str) -> Hashable:
    return tuple(_REST.sub("", _MARKDOWN.sub("", text)).split())
