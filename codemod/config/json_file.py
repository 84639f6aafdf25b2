"""JSON as a container and as a language. Positions are tree-sitter's."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from fsdp_migrate.config import flow
from fsdp_migrate.config.analyse import analyse
from fsdp_migrate.config.changes import Add, AddItems, Change, Remove, Rename, Set, Value
from fsdp_migrate.config.tree import Entry, Node, Path
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import Asked, Found, UnreadableError
from fsdp_migrate.segments import Document, Segment, Whole, decode

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax
    from tree_sitter import Parser

__all__ = ["decode", "read", "split"]


def split(document: Document, path: str) -> Sequence[Segment]:
    return [Whole("json", document.text)]


def read(text: str, asked: Asked) -> Sequence[Found]:
    """The cases of one file or stretch of JSON.

    Raises:
        UnreadableError: it is not JSON.
    """
    return analyse(text, JSON, asked.path, asked.target)


class _Json:
    null = "null"

    @staticmethod
    @lru_cache(maxsize=4)
    def documents(text: str) -> Sequence[Node]:
        encoded = text.encode("utf-8")
        root = _parser().parse(encoded).root_node
        if root.has_error:
            line = _first_fault(root).start_point[0] + 1
            raise UnreadableError(f"is not valid JSON (line {line})")
        starts = None if text.isascii() else list(accumulate((len(c.encode()) for c in text), initial=0))
        return [_node(child, text, starts) for child in root.named_children if child.type != "comment"]

    def edits(self, text: str, documents: Sequence[Node], changes: Sequence[Change]) -> Sequence[Edit]:
        return _Editor(text, documents).run(changes)


JSON = _Json()


def _first_fault(node: Syntax) -> Syntax:
    for child in node.children:
        if child.has_error:
            return _first_fault(child)
    return node


def _node(syntax: Syntax, text: str, starts: list[int] | None) -> Node:
    start, end = syntax.start_byte, syntax.end_byte
    if starts is not None:
        start, end = bisect_left(starts, start), bisect_left(starts, end)
    match syntax.type:
        case "object":
            node = Node("mapping", start, end, flow=True)
            for pair in syntax.named_children:
                if pair.type == "pair":
                    key, value = (n for n in pair.named_children if n.type != "comment")
                    node.entries.append(Entry(_node(key, text, starts), _node(value, text, starts)))
            return node
        case "array":
            items = [_node(n, text, starts) for n in syntax.named_children if n.type != "comment"]
            return Node("sequence", start, end, items=items, flow=True)
        case "string":
            return Node("scalar", start, end, _loaded(text[start:end]), quote='"')
        case _:
            return Node("scalar", start, end, _loaded(text[start:end]))


def _loaded(raw: str) -> object:
    try:
        return json.loads(raw, strict=False)
    except ValueError:
        raise UnreadableError(f"is not valid JSON: {raw[:40]}") from None


class _Editor:
    def __init__(self, text: str, documents: Sequence[Node]) -> None:
        self.text = text
        self.documents = documents
        self.feed = "\r\n" if "\r\n" in text else "\n"

    def run(self, changes: Sequence[Change]) -> list[Edit]:
        edits: list[Edit] = []
        removed: dict[int, tuple[Node, set[int]]] = {}
        for change in changes:
            match change:
                case Rename(path, name):
                    key = self.owner(path).entries[self.index(path)].key
                    edits.append(Edit(key.start, key.end, json.dumps(name)))
                case Set(path, value):
                    node = self.node(path)
                    edits.append(Edit(node.start, node.end, _spelled(value)))
                case Remove(path):
                    owner = self.owner(path)
                    removed.setdefault(id(owner), (owner, set()))[1].add(self.index(path))
                case Add():
                    edits.append(self.add(change))
                case AddItems(path, items):
                    words = [json.dumps(item) for item in items]
                    edits.append(flow.insertion(self.text, self.owner(path), self.index(path), words, self.feed))
        for owner, gone in removed.values():
            edits += flow.removals(self.text, owner, gone)
        return _joined(edits)

    def add(self, change: Add) -> Edit:
        pairs = [f"{json.dumps(name)}: {_spelled(value)}" for name, value in change.pairs]
        if len(change.path) == 1 or isinstance(change.path[-1], int):
            return self.into(self.node(change.path), pairs, change.after)
        owner, name = self.owner(change.path), change.path[-1]
        entry = owner.entry(name)
        if entry is not None and entry.value.kind == "mapping":
            return self.into(entry.value, pairs, change.after)
        if entry is not None:
            return Edit(entry.value.start, entry.value.end, f"{{{', '.join(pairs)}}}")
        index = [e.name for e in owner.entries].index(change.beside)
        indent = flow.own_line(self.text, owner, index)
        unit = flow.unit_of(self.text)
        new = flow.section(json.dumps(name), pairs, indent, unit, self.feed)
        return flow.insertion(self.text, owner, index, [new], self.feed)

    def into(self, node: Node, pairs: list[str], after: str) -> Edit:
        names = [e.name for e in node.entries]
        return flow.insertion(self.text, node, names.index(after) if after in names else None, pairs, self.feed)

    def owner(self, path: Path) -> Node:
        return self.node(path[:-1])

    def index(self, path: Path) -> int:
        last = path[-1]
        return last if isinstance(last, int) else [e.name for e in self.owner(path).entries].index(last)

    def node(self, path: Path) -> Node:
        assert isinstance(path[0], int)
        node = self.documents[path[0]]
        for step in path[1:]:
            if isinstance(step, int):
                node = node.items[step]
            else:
                entry = node.entry(step)
                if entry is None:
                    raise RuntimeError(f"there is no {step}")
                node = entry.value
        return node


def _spelled(value: Value) -> str:
    return value.source or json.dumps(value.data, ensure_ascii=False)


def _joined(edits: list[Edit]) -> list[Edit]:
    """Insertions at one place become one, in the order in which they were decided."""
    joined: dict[tuple[int, int], Edit] = {}
    for edit in edits:
        key = (edit.start, edit.end)
        before = joined[key].text if key in joined and edit.start == edit.end else ""
        joined[key] = Edit(edit.start, edit.end, before + edit.text)
    return list(joined.values())


def syntax_tree(text: str) -> Syntax:
    """The root of the grammar's tree, which has the comments."""
    return _parser().parse(text.encode("utf-8")).root_node


@cache
def _parser() -> Parser:
    import tree_sitter_json
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_json.language()))
