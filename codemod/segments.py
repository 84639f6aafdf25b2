"""A file is a container of segments: stretches of one language. A rule never learns where a segment came from."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from typing import Protocol

from fsdp_migrate.discover import kind_of
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import UnreadableError


@dataclass(frozen=True, slots=True)
class Document:
    """A decoded file: `text` is exactly ``data.decode(encoding)`` without the byte order mark `mark`."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.encoding)


def decode(data: bytes) -> Document:
    """Decode a file that is UTF-8 by convention.

    Raises:
        UnreadableError: it is not UTF-8.
    """
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        return Document(data[len(mark) :].decode("utf-8"), "utf-8", mark)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8 (byte {error.start + len(mark)}); convert it first") from None


class Segment(Protocol):
    """A stretch of one language with the way back to the file."""

    @property
    def language(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def whole(self) -> bool:
        """Whether it is the file itself, so that a fault in it is the file's fault."""
        ...

    @property
    def quotes(self) -> bool:
        """Whether it quotes code that stands elsewhere, so that nothing is to be added to it."""
        ...

    def label_at(self, position: int) -> str:
        """What a reader calls this part of the file, such as ``cell 3``; empty if line numbers are enough."""
        ...

    def offset(self, position: int) -> int:
        """The character of the file at which a character of the segment stands."""
        ...

    def edit(self, edit: Edit) -> Edit:
        """The edit of the file that an edit of the segment amounts to."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """The whole file is one segment."""

    language: str
    text: str
    whole: bool = True
    quotes: bool = False

    def label_at(self, position: int) -> str:
        return ""

    def offset(self, position: int) -> int:
        return position

    def edit(self, edit: Edit) -> Edit:
        return edit


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an excerpt.

    `raw` is where it begins in the file, `prefix` what stands there before `text`: indentation, quote marks, a prompt.
    `added` is a stretch of `text` (column, length) that the file does not have; the rest is as long as in the file.
    """

    raw: int
    prefix: str
    text: str
    added: tuple[int, int] = (0, 0)

    @property
    def raw_end(self) -> int:
        return self.raw + len(self.prefix) + len(self.text) - self.added[1]

    def offset(self, column: int) -> int:
        at, length = self.added
        return self.raw + len(self.prefix) + (column if column <= at else max(at, column - length))


@dataclass(frozen=True)
class Excerpt:
    """Successive lines of a file without what stands before each of them."""

    language: str
    lines: tuple[Line, ...]
    whole: bool = False
    quotes: bool = False

    def label_at(self, position: int) -> str:
        return ""

    @cached_property
    def text(self) -> str:
        return "".join(line.text for line in self.lines)

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate((len(line.text) for line in self.lines), initial=0))

    def offset(self, position: int) -> int:
        line, column = self._at(position)
        return self.lines[line].offset(column) if line < len(self.lines) else self._end

    def edit(self, edit: Edit) -> Edit:
        (line, column), (end_line, end_column) = self._at(edit.start), self._at(edit.end)
        self._demand_real(line, column, end_line, end_column)
        prefix = self._prefix(line)
        pieces = [piece for _, piece in lines_of(edit.text)]
        ends_line = not edit.text or edit.text.endswith("\n")
        if column == 0 and end_column == 0 and ends_line:
            # Whole lines, with what stands before them.
            text = "".join(_led(piece, prefix) for piece in pieces)
            return Edit(self._raw(line), self._raw(end_line), text)
        text = "".join(piece if i == 0 else _led(piece, prefix) for i, piece in enumerate(pieces))
        end = self.offset(edit.end)
        if edit.text.endswith("\n"):
            if end_column == 0:
                end = self._raw(end_line)
            else:
                text += prefix
        return Edit(self.offset(edit.start), end, text)

    @property
    def _end(self) -> int:
        return self.lines[-1].raw_end

    def _at(self, position: int) -> tuple[int, int]:
        """Line and column. The end of a text that ends in a line feed is the beginning of one more line."""
        line = bisect_right(self._starts, position) - 1
        if line == len(self.lines) and not self.text.endswith("\n"):
            line -= 1
        return line, position - self._starts[line]

    def _raw(self, line: int) -> int:
        return self.lines[line].raw if line < len(self.lines) else self._end

    def _prefix(self, line: int) -> str:
        near = self.lines[max(0, line - 1) : line + 1]
        return max((other.prefix for other in near), key=len)

    def _demand_real(self, line: int, column: int, end_line: int, end_column: int) -> None:
        for number in range(line, min(end_line, len(self.lines) - 1) + 1):
            at, length = self.lines[number].added
            before = number == end_line and end_column <= at
            after = number == line and column >= at + length
            if length and not before and not after:
                raise ValueError("the edit touches a line that is not complete in the file")


def _led(piece: str, prefix: str) -> str:
    if not piece.strip():
        return prefix.rstrip(" \t") + piece
    if prefix.endswith(">>> ") and piece[0].isspace():
        prefix = prefix[: -len(">>> ")] + "... "
    return prefix + piece


@dataclass(frozen=True)
class Nested:
    """A segment inside a segment."""

    outer: Segment
    inner: Segment

    whole: bool = False

    @property
    def language(self) -> str:
        return self.inner.language

    @property
    def text(self) -> str:
        return self.inner.text

    @property
    def quotes(self) -> bool:
        return self.inner.quotes

    def label_at(self, position: int) -> str:
        return self.outer.label_at(self.inner.offset(position))

    def offset(self, position: int) -> int:
        return self.outer.offset(self.inner.offset(position))

    def edit(self, edit: Edit) -> Edit:
        return self.outer.edit(self.inner.edit(edit))


class Container(Protocol):
    def decode(self, data: bytes) -> Document:
        """Decode a file.

        Raises:
            UnreadableError: it cannot be decoded, or not be given back byte by byte.
        """
        ...

    def split(self, document: Document, path: str) -> Sequence[Segment]:
        """The stretches of the file that have something to do with the flag.

        Raises:
            UnreadableError: it is not of the kind that its name says.
        """
        ...


# By kind of file: the container's module, which has `decode(data)` and `split(document, path)`.
_CONTAINERS = {
    "python": "fsdp_migrate.python.language",
    "shell": "fsdp_migrate.shell.language",
    "yaml": "fsdp_migrate.config.yaml_file",
    "json": "fsdp_migrate.config.json_file",
    "toml": "fsdp_migrate.config.toml_file",
    "markdown": "fsdp_migrate.documents.markdown",
    "rest": "fsdp_migrate.documents.rest",
    "notebook": "fsdp_migrate.documents.notebook",
}

# By language: the function that finds stretches of another language inside a segment.
_EMBEDDED = {
    "shell": "fsdp_migrate.shell.heredocs:embedded",
    "yaml": "fsdp_migrate.config.scripts:embedded",
}


def container(path: str, data: bytes) -> Container | None:
    """The container that a file is, by its name or its first line; None if no one knows its kind."""
    module = _CONTAINERS.get(kind_of(path, data))
    return import_module(module) if module else None


def unfold(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Every segment, and after each of them those that stand inside it."""
    for segment in segments:
        yield segment
        if segment.language in _EMBEDDED:
            module, _, name = _EMBEDDED[segment.language].partition(":")
            embedded: Callable[[str], Sequence[Segment]] = getattr(import_module(module), name)
            yield from unfold(Nested(segment, inner) for inner in embedded(segment.text))


def is_embedded(segment: Segment) -> bool:
    """Whether a segment is a string or a heredoc of another language."""
    return isinstance(segment, Nested) and (segment.outer.language in _EMBEDDED or is_embedded(segment.outer))


def lines_of(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a stretch of text, each with its beginning. Only a line feed ends a line."""
    end = len(text) if end is None else end
    while start < end:
        stop = text.find("\n", start, end) + 1 or end
        yield start, text[start:stop]
        start = stop
