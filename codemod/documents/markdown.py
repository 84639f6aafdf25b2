"""Markdown and MDX: fenced blocks at any indentation, in lists and quotes, by the language that their fence names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fsdp_migrate.documents.code import language_of, lines_in, rest_of, segments_of
from fsdp_migrate.segments import Document, Segment, decode, lines_of

__all__ = ["decode", "split"]

# CommonMark allows three blanks before a fence at the top level; MDX and lists nest deeper, so any number counts here.
# Nothing is ever given back (`*+`): a line of a million blanks is looked at once.
_FENCE = re.compile(
    r"(?P<before>[ \t]*+(?:>[ \t]?+)*+[ \t]*+(?:(?:[-*+]|\d++[.)])[ \t]++)*+)"
    r"(?P<fence>`{3,}+|~{3,}+)(?P<info>(?:[^ \t\r\n]++|[ \t]++(?=[^ \t\r\n]))*+)[ \t]*+\r?\n?"
)
_OPTION = re.compile(r"[ \t]*(?::[\w-]+:|---\s*$)")


def split(document: Document, path: str) -> Sequence[Segment]:
    return pieces(document.text)


def pieces(text: str) -> list[Segment]:
    """The blocks that name the flag, and the text around them."""
    found: list[Segment] = []
    covered: list[tuple[int, int]] = []
    for start, end, info, quote in _blocks(text):
        language = language_of(info, text[start:end])
        if language == "text":
            continue
        inner = segments_of(language, lines_in(text, _behind_options(text, start, end, info), end, quote), info)
        if inner:
            covered.append((start, end))
            found += inner
    return [*found, *rest_of(text, covered)]


def fences(text: str) -> list[tuple[int, int]]:
    """The blocks of code, with the lines of their fences."""
    return [
        (text.rfind("\n", 0, max(0, start - 1)) + 1, text.find("\n", end) + 1 or len(text))
        for start, end, _, _ in _blocks(text)
    ]


def _blocks(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Start and end of what stands between fences, the info string, and the quote marks before each line."""
    opened: re.Match[str] | None = None
    start = 0
    for at, line in lines_of(text):
        fence = _FENCE.fullmatch(line)
        if opened is None:
            # An info string with a backtick is a code span in a sentence.
            if fence and not (fence["fence"][0] == "`" and "`" in fence["info"]):
                opened, start = fence, at + len(line)
        elif fence and fence["fence"].startswith(opened["fence"]) and not fence["info"]:
            yield start, at, opened["info"], _quote(opened)
            opened = None
    if opened is not None:
        yield start, len(text), opened["info"], _quote(opened)


def _quote(fence: re.Match[str]) -> str:
    return ">" * fence["before"].count(">")


def _behind_options(text: str, start: int, end: int, info: str) -> int:
    """A MyST directive may begin with options."""
    if not info.lstrip().startswith("{"):
        return start
    for at, line in lines_of(text, start, end):
        if not _OPTION.match(line):
            return at
    return end
