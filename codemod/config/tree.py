"""A configuration file as a tree of nodes with their places in the text, whatever it is written in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Data = object
"""Mappings, lists and scalars, as a program that loads the file gets them."""

Path = tuple[str | int, ...]
"""The way to a node: keys and positions. The first step is the document's number."""


@dataclass(eq=False, slots=True)
class Node:
    """One value. `start` and `end` are characters; `kind` is mapping, sequence, scalar or alias.

    `value` is what a scalar means, or the name of an alias. `flow` is set where brackets enclose the value, `quote` is
    the quotation mark of a string. `tag` is set where the text says the type itself.
    """

    kind: str
    start: int
    end: int
    value: object = None
    entries: list[Entry] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    flow: bool = False
    quote: str = ""
    anchor: str = ""
    tag: str = ""

    def entry(self, name: str) -> Entry | None:
        return next((e for e in self.entries if e.name == name), None)

    def all(self, name: str) -> list[Entry]:
        return [e for e in self.entries if e.name == name]

    @property
    def is_null(self) -> bool:
        return self.kind == "scalar" and self.value is None and not self.tag and not self.anchor


@dataclass(eq=False, slots=True)
class Entry:
    """A key of a mapping with its value. `start` may lie before the key (a bullet does not count)."""

    key: Node
    value: Node

    @property
    def name(self) -> str | None:
        return self.key.value if self.key.kind == "scalar" and isinstance(self.key.value, str) else None

    @property
    def start(self) -> int:
        return self.key.start

    @property
    def end(self) -> int:
        return max(self.value.end, self.key.end)


def walk(node: Node, path: Path) -> Iterator[tuple[Node, Path]]:
    """Every node below, with its path."""
    yield node, path
    for entry in node.entries:
        yield from walk(entry.value, (*path, entry.name if entry.name is not None else "?"))
    for i, item in enumerate(node.items):
        yield from walk(item, (*path, i))


def aliases(node: Node) -> set[str]:
    """The names of anchors that something refers to."""
    found = {str(node.value)} if node.kind == "alias" else set()
    for entry in node.entries:
        found |= aliases(entry.key) | aliases(entry.value)
    for item in node.items:
        found |= aliases(item)
    return found


def anchors(node: Node) -> dict[str, Node]:
    found = {node.anchor: node} if node.anchor else {}
    for entry in node.entries:
        found |= anchors(entry.key) | anchors(entry.value)
    for item in node.items:
        found |= anchors(item)
    return found


def data_of(node: Node, known: Mapping[str, Node]) -> Data:
    """What a program gets. Merge keys stay as they are, with what they refer to."""
    match node.kind:
        case "mapping":
            return {_key(e.key): data_of(e.value, known) for e in node.entries}
        case "sequence":
            return [data_of(item, known) for item in node.items]
        case "alias":
            name = str(node.value)
            # Without itself: an anchor may contain an alias to itself.
            return data_of(known[name], {k: v for k, v in known.items() if k != name}) if name in known else None
        case _:
            return (node.tag, node.value) if node.tag else node.value


def _key(node: Node) -> object:
    if node.kind == "scalar":
        return node.value
    return f"{node.kind}:{node.start}" if node.kind != "alias" else f"*{node.value}"
