"""The comments of YAML, and what they may stand above or behind. The parser drops them: no node covers them."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator

from fsdp_migrate.config.tree import Node, anchors, data_of
from fsdp_migrate.config.yaml_file import YAML
from fsdp_migrate.languages import Item
from fsdp_migrate.segments import lines_of

_MARK = re.compile(r"(?:(?<=\s)|^)#", re.MULTILINE)
_BLOCK_HEADER = re.compile(r"[|>][-+\d]*[ \t]+#")


def comments(text: str, kind: str) -> list[tuple[int, int]]:
    scalars = sorted(span for document in YAML.documents(text) for span in _scalars(document, text))
    found: list[tuple[int, int]] = []
    waiting = iter([*scalars, (len(text), len(text))])
    start, end = next(waiting)
    for at, line in lines_of(text):
        stop = at + len(line.rstrip())
        for mark in _MARK.finditer(text, at, stop):
            while end <= mark.start() and start < len(text):
                start, end = next(waiting)
            if not start <= mark.start() < end:
                found.append((mark.start(), stop))
                break
    return found


def _scalars(node: Node, text: str) -> Iterator[tuple[int, int]]:
    """The characters of scalars; of a block scalar without its header, behind which a comment may stand."""
    if node.kind == "scalar" and node.start < node.end:
        header = _BLOCK_HEADER.match(text, node.start)
        yield header.end() if header and not node.quote else node.start, node.end
    for entry in node.entries:
        yield from _scalars(entry.key, text)
        yield from _scalars(entry.value, text)
    for item in node.items:
        yield from _scalars(item, text)


def items(text: str, lines: Collection[int]) -> list[Item]:
    return [item for document in YAML.documents(text) for item in _items(document)]


def _items(node: Node) -> Iterator[Item]:
    for entry in node.entries:
        yield Item(entry.start, entry.end, _is_simple(entry.value))
        yield from _items(entry.value)
    for item in node.items:
        yield Item(item.start, item.end, _is_simple(item))
        yield from _items(item)


def _is_simple(node: Node) -> bool:
    return node.kind == "scalar" or node.flow


def meaning(text: str) -> Hashable:
    return repr([data_of(document, anchors(document)) for document in YAML.documents(text)])
