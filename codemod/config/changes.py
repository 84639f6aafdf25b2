"""Changes to configuration data. A syntax carries them out in a text, `applied` in the data, and both must agree."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

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


_GONE = object()


def applied(documents: Sequence[Data], changes: Sequence[Change]) -> list[Data]:
    """The data after the changes. Paths are those before any change."""
    whole: Any = deepcopy(list(documents))
    for change in changes:
        owner, last = _owner(whole, change.path), change.path[-1]
        match change:
            case Set(_, value):
                owner[last] = value.data
            case Add(_, pairs):
                if isinstance(last, str) and not isinstance(owner.get(last), dict):
                    owner[last] = {}
                owner[last].update({name: value.data for name, value in pairs})
            case Remove():
                owner[last] = _GONE
    for item in (c for c in changes if isinstance(c, AddItems)):
        owner, last = _owner(whole, item.path), item.path[-1]
        owner[last] = _Several([owner[last], *item.items])
    for change in changes:
        if isinstance(change, Rename):
            owner = _owner(whole, change.path)
            owner[change.name] = owner.pop(change.path[-1])
    swept: list[Data] = _swept(whole)
    return swept


class _Several(list[Data]):
    """What stands in the place of one item, until the list is put together."""


def _swept(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _swept(value) for key, value in data.items() if value is not _GONE}
    if isinstance(data, list):
        items: list[Data] = []
        for item in data:
            items += item if isinstance(item, _Several) else [item]
        return [_swept(item) for item in items if item is not _GONE]
    return data


def _owner(whole: Any, path: Path) -> Any:
    for step in path[:-1]:
        whole = whole[step]
    return whole
