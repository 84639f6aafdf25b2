"""Comments and items in the trees that tree-sitter makes, whatever the grammar."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from fsdp_migrate.languages import Item

if TYPE_CHECKING:
    from tree_sitter import Node


def comments_of(root: Node, text: str) -> list[tuple[int, int]]:
    spans = _Spans(text)
    return [spans.of(node) for node in _walk(root) if node.type == "comment"]


def items_of(root: Node, text: str, simple: frozenset[str]) -> list[Item]:
    """Every named node but the root. `simple` are the types that a comment behind their last line is about."""
    spans = _Spans(text)
    nodes = (node for node in _walk(root) if node.is_named and node.parent is not None and node.type != "comment")
    return [Item(*spans.of(node), node.type in simple) for node in nodes]


def meaning_of(root: Node) -> Hashable:
    """The leaves that are no comments, without line ends."""
    leaves = (n for n in _walk(root) if not n.child_count and n.type != "comment" and n.text and n.text.strip())
    return tuple((node.type, node.text, node.is_error) for node in leaves)


def _walk(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


class _Spans:
    def __init__(self, text: str) -> None:
        self.starts = None if text.isascii() else list(accumulate((len(c.encode()) for c in text), initial=0))

    def of(self, node: Node) -> tuple[int, int]:
        return self._character(node.start_byte), self._character(node.end_byte)

    def _character(self, byte: int) -> int:
        return byte if self.starts is None else bisect_left(self.starts, byte)
