"""reStructuredText: code directives, literal blocks and doctests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fsdp_migrate.documents.code import language_of, lines_in, rest_of, segments_of
from fsdp_migrate.segments import Document, Segment, decode, lines_of

__all__ = ["decode", "split"]

_DIRECTIVE = re.compile(
    r"(?P<indent>[ \t]*)\.\. (?:code-block|code|sourcecode|prompt|ipython|testcode)::(?P<info>[^\r\n]*)"
)
_LITERAL = re.compile(r"(?P<indent>[ \t]*+)(?!\.\. )\S?[^\r\n]*::[ \t]*\r?\n?")
_OPTION = re.compile(r"[ \t]+:[\w-]+:")
_DOCTEST = re.compile(r"[ \t]*>>> ")


def split(document: Document, path: str) -> Sequence[Segment]:
    text = document.text
    found: list[Segment] = []
    covered: list[tuple[int, int]] = []
    for start, end, info in _blocks(text):
        language = language_of(info, text[start:end])
        if language == "text":
            continue
        inner = segments_of(language, lines_in(text, start, end))
        if inner:
            covered.append((start, end))
            found += inner
    return [*found, *rest_of(text, covered)]


def _blocks(text: str) -> Iterator[tuple[int, int, str]]:
    lines = list(lines_of(text))
    i = 0
    while i < len(lines):
        at, line = lines[i]
        header = _DIRECTIVE.match(line) or _LITERAL.fullmatch(line)
        if header:
            info = header["info"] if header.re is _DIRECTIVE else ""
            first, last = _indented(lines, i + 1, len(header["indent"].expandtabs()), has_options=bool(info.strip()))
            if first < last:
                yield lines[first][0], lines[last - 1][0] + len(lines[last - 1][1]), info
            i = max(i + 1, last)
        elif _DOCTEST.match(line):
            last = i
            while last < len(lines) and lines[last][1].strip():
                last += 1
            yield at, lines[last - 1][0] + len(lines[last - 1][1]), "python"
            i = last
        else:
            i += 1


def _indented(lines: list[tuple[int, str]], i: int, indent: int, *, has_options: bool) -> tuple[int, int]:
    """The lines that are indented deeper, without options before and blank lines around them."""
    while has_options and i < len(lines) and _OPTION.match(lines[i][1]):
        i += 1
    while i < len(lines) and not lines[i][1].strip():
        i += 1
    first = last = i
    while i < len(lines):
        line = lines[i][1].expandtabs()
        if line.strip():
            if len(line) - len(line.lstrip()) <= indent:
                break
            last = i + 1
        i += 1
    return first, last
