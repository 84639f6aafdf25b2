"""What the engine asks of a language, and where each one lives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from fsdp_migrate.cases import Case
from fsdp_migrate.findings import Edit

if TYPE_CHECKING:
    from fsdp_migrate.python.project import Project


class UnreadableError(ValueError):
    """A file or a segment cannot be decoded or parsed; the message says why."""


class Found(Protocol):
    """A case together with the syntax it was read from."""

    @property
    def case(self) -> Case: ...

    def edits(self, parts: frozenset[str]) -> tuple[Edit, ...]:
        """The edits, in characters of the segment, that carry out these parts of the case's fix."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What a language needs to know beside the text: the file's name, the project around it and the release."""

    path: str
    project: Project
    target: str = ""
    encoding: str = "utf-8"


_MOST_CASES = 500


def demand_few(cases: Sequence[object]) -> None:
    """For languages that read the whole text again for each case, which takes the square of the time.

    Raises:
        UnreadableError: there are more cases than any file that people write.
    """
    if len(cases) > _MOST_CASES:
        raise UnreadableError(f"has the flag in more than {_MOST_CASES} places: split it, or migrate it by hand")


Read = Callable[[str, Asked], Sequence[Found]]

_READERS = {
    "python": "fsdp_migrate.python.language:read",
    "shell": "fsdp_migrate.shell.language:read",
    "yaml": "fsdp_migrate.config.yaml_file:read",
    "json": "fsdp_migrate.config.json_file:read",
    "toml": "fsdp_migrate.config.toml_file:read",
    "text": "fsdp_migrate.prose:read",
}


def reader(language: str) -> Read:
    """The function that reads a segment of this language.

    Raises:
        KeyError: there is no such language.
    """
    module, _, name = _READERS[language].partition(":")
    read: Read = getattr(import_module(module), name)
    return read


@dataclass(frozen=True, slots=True)
class Item:
    """A statement, an entry, an argument: what a comment above it is about.

    `simple`: a comment behind its last line is about the whole of it.
    """

    start: int
    end: int
    simple: bool = False


class Commented(Protocol):
    """What a language knows about its comments. All offsets are characters of the segment."""

    def comments(self, text: str, kind: str) -> list[tuple[int, int]]:
        """The comments of a text, with their marks. `kind` is the kind of file that the text stands in."""
        ...

    def items(self, text: str, lines: Collection[int]) -> list[Item]:
        """The items that touch these lines (counted from 1), and maybe others."""
        ...

    def meaning(self, text: str) -> Hashable:
        """What stays the same when only comments are added.

        Raises:
            UnreadableError: the text is not of this language.
        """
        ...


_COMMENTED = {
    "python": "fsdp_migrate.python.comments",
    "shell": "fsdp_migrate.shell.comments",
    "yaml": "fsdp_migrate.config.yaml_comments",
    "json": "fsdp_migrate.config.comments:JSON",
    "toml": "fsdp_migrate.config.comments:TOML",
    "text": "fsdp_migrate.documents.comments",
}


def commented(language: str) -> Commented:
    """The module, or the object in one, that knows the comments of this language."""
    name, _, attribute = _COMMENTED[language].partition(":")
    module = import_module(name)
    knows: Commented = getattr(module, attribute) if attribute else module
    return knows
