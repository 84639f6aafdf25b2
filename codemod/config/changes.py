"""Changes to configuration data. A syntax carries them out in a text, `applied` in the data, and both must agree."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from fsdp_migrate.config.tree import Data, Path


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar: what it means and, where it is taken from the file, how it is written there."""

    data: object
    source: str = ""


@dataclass(frozen=True, slots=True)
class Remove:
    """The entry or item goes; a comment on its line moves to the entry `heir` of the same document, or stays.

    `with_comment`: the comment goes too, because it is written elsewhere.
    """

    path: Path
    heir: Path = ()
    with_comment: bool = False


@dataclass(frozen=True, slots=True)
class Rename:
    """The last step of the path gets another name."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class Set:
    """The scalar gets another value, in the quotes that stand there."""

    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class Add:
    """New entries for the mapping at `path`, behind the entry `after` or at the end.

    If there is no such mapping, it is made behind the entry `beside` of the one that it belongs to. `comment` stands
    behind the first of them.
    """

    path: Path
    pairs: tuple[tuple[str, Value], ...]
    after: str = ""
    beside: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class AddItems:
    """New strings in a sequence behind the item at `path`."""

    path: Path
    items: tuple[str, ...]


Change = Remove | Rename | Set | Add | AddItems


def applied(documents: Sequence[Data], changes: Sequence[Change]) -> list[Data]:
    """The data after the changes. Paths are those before any change; items are removed from the back."""
    whole: list[Data] = deepcopy(list(documents))
    later = sorted(
        (c for c in changes if isinstance(c, Remove)), key=lambda c: [str(type(s)) + f"{s:>9}" for s in c.path]
    )
    inserts = [c for c in changes if isinstance(c, AddItems)]
    for change in changes:
        match change:
            case Set(path, value):
                _owner(whole, path)[path[-1]] = value.data
            case Add(path, pairs):
                owner, last = _owner(whole, path), path[-1]
                if isinstance(last, str) and not isinstance(owner.get(last), dict):
                    owner[last] = {}
                owner[last].update({name: value.data for name, value in pairs})
    for item in sorted(inserts, key=lambda c: c.path[-1], reverse=True):
        owner, at = _owner(whole, item.path), item.path[-1]
        assert isinstance(at, int)
        owner[at + 1 : at + 1] = list(item.items)
    # An item that was put in moves those behind it.
    for change in reversed(later):
        moved = sum(
            len(i.items)
            for i in inserts
            if i.path[:-1] == change.path[:-1] and i.path[-1] < change.path[-1]  # type: ignore[operator]
        )
        at = change.path[-1]
        del _owner(whole, change.path)[at + moved if isinstance(at, int) else at]
    for change in changes:
        if isinstance(change, Rename):
            owner = _owner(whole, change.path)
            owner[change.name] = owner.pop(change.path[-1])
    return whole


def _owner(whole: list[Data], path: Path):  # type: ignore[no-untyped-def]
    at = whole
    for step in path[:-1]:
        at = at[step]  # type: ignore[call-overload]
    return at
