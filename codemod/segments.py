"""A file is a container of segments: stretches of one language. A rule never learns where a segment came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Protocol

from fsdp_migrate.findings import Edit


@dataclass(frozen=True, slots=True)
class Document:
    """A decoded file: `text` is exactly ``data.decode(encoding)`` without the byte order mark `mark`."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.encoding)


class Segment(Protocol):
    """A stretch of one language with the way back to the file."""

    @property
    def language(self) -> str: ...

    @property
    def text(self) -> str: ...

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

    def offset(self, position: int) -> int:
        return position

    def edit(self, edit: Edit) -> Edit:
        return edit


# By suffix: the container's module, which has `decode(data)` and `split(document, path)`.
_CONTAINERS = {
    ".py": "fsdp_migrate.python.language",
}


class Container(Protocol):
    def decode(self, data: bytes) -> Document:
        """Decode a file.

        Raises:
            UnreadableError: it cannot be decoded, or not be given back byte by byte.
        """
        ...

    def split(self, document: Document, path: str) -> Sequence[Segment]: ...


def container(path: str) -> Container | None:
    """The container that a file is, by its name; None if no one knows its kind."""
    module = _CONTAINERS.get(PurePath(path).suffix.lower())
    return import_module(module) if module else None  # type: ignore[return-value]
