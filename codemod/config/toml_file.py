"""TOML as a container and as a language. Positions are tree-sitter's."""

from __future__ import annotations

import tomllib
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from fsdp_migrate.config import flow
from fsdp_migrate.config.analyse import analyse
from fsdp_migrate.config.changes import Add, AddItems, Change, Remove, Rename, Set, Value
from fsdp_migrate.config.patch import Patch
from fsdp_migrate.config.tree import Entry, Node, Path
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import Asked, Found, UnreadableError
from fsdp_migrate.segments import Document, Segment, Whole, decode

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax
    from tree_sitter import Parser

__all__ = ["decode", "read", "split"]

# How a key is written, in the `tag` of its node: as a table's header, or as a part of a dotted key.
HEADER = "header"
DOTTED = "dotted"


def split(document: Document, path: str) -> Sequence[Segment]:
    return [Whole("toml", document.text)]


def read(text: str, asked: Asked) -> Sequence[Found]:
    """The cases of one file or stretch of TOML.

    Raises:
        UnreadableError: it is not TOML.
    """
    return analyse(text, TOML, asked.path, asked.target)


class _Toml:
    null = ""

    @staticmethod
    @lru_cache(maxsize=4)
    def documents(text: str) -> Sequence[Node]:
        try:
            # It also refuses what the grammar lets pass, such as a key that stands there twice.
            tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnreadableError(f"is not valid TOML: {error}") from None
        return [_Builder(text).document()]

    def edits(self, text: str, documents: Sequence[Node], changes: Sequence[Change]) -> Sequence[Edit]:
        return _Editor(text, documents[0]).run(changes)


TOML = _Toml()


class _Builder:
    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = None if text.isascii() else list(accumulate((len(c.encode()) for c in text), initial=0))

        # The tables that are made part by part, by what holds them and their name: a file may have thousands.
        self.tables: dict[tuple[int, str], Entry] = {}

    def document(self) -> Node:
        root = Node("mapping", 0, len(self.text))
        for child in _parser().parse(self.text.encode("utf-8")).root_node.named_children:
            if child.type == "pair":
                self.pair(child, root)
            elif child.type == "table":
                header, *pairs = child.named_children
                owner = self.owner(root, self.parts(header), HEADER)
                owner.end = max(owner.end, self.span(header)[1] + 1)
                for pair in pairs:
                    if pair.type == "pair":
                        self.pair(pair, owner)
        return root

    def pair(self, syntax: Syntax, owner: Node) -> None:
        key, value = (n for n in syntax.named_children if n.type != "comment")
        *outer, last = self.parts(key)
        owner = self.owner(owner, outer, DOTTED)
        if outer:
            last.tag = DOTTED
        entry = Entry(last, self.value(value))
        owner.entries.append(entry)
        self.tables[id(owner), str(last.value)] = entry
        owner.end = max(owner.end, entry.end)

    def owner(self, node: Node, parts: Sequence[Node], written: str) -> Node:
        for part in parts:
            entry = self.tables.get((id(node), str(part.value)))
            if entry is None:
                part.tag = written
                entry = Entry(part, Node("mapping", part.start, part.end))
                node.entries.append(entry)
                self.tables[id(node), str(part.value)] = entry
            node = entry.value
        return node

    def parts(self, key: Syntax) -> list[Node]:
        if key.type == "dotted_key":
            return [part for child in key.named_children for part in self.parts(child)]
        start, end = self.span(key)
        raw = self.text[start:end]
        quote = raw[0] if raw[0] in "'\"" else ""
        return [Node("scalar", start, end, raw[1:-1] if quote else raw, quote=quote)]

    def value(self, syntax: Syntax) -> Node:
        start, end = self.span(syntax)
        children = [n for n in syntax.named_children if n.type != "comment"]
        if syntax.type == "inline_table":
            node = Node("mapping", start, end, flow=True)
            for pair in children:
                self.pair(pair, node)
            node.end = end
            return node
        if syntax.type == "array":
            return Node("sequence", start, end, items=[self.value(n) for n in children], flow=True)
        raw = self.text[start:end]
        loaded = tomllib.loads(f"x = {raw}")["x"]
        if not isinstance(loaded, str | bool | int):
            # Not a number is not even equal to itself.
            loaded = raw
        return Node("scalar", start, end, loaded, quote=raw[0] if raw[0] in "'\"" else "")

    def span(self, syntax: Syntax) -> tuple[int, int]:
        if self.starts is None:
            return syntax.start_byte, syntax.end_byte
        return bisect_left(self.starts, syntax.start_byte), bisect_left(self.starts, syntax.end_byte)


class _Editor:
    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.root = root
        self.patch = Patch(text)
        self.removed: dict[int, tuple[Node, set[int]]] = {}
        self.renamed: dict[str, str] = {}

    def run(self, changes: Sequence[Change]) -> list[Edit]:
        for change in changes:
            match change:
                case Rename(path, name):
                    key = self.entry(path).key
                    self.renamed[str(path[-1])] = name
                    self.edit(key.start, key.end, f"{key.quote}{name}{key.quote}")
                case Set(path, value):
                    node = self.node(path)
                    self.edit(node.start, node.end, _spelled(value, node.quote or '"'))
                case Remove(path):
                    self.remove(path)
                case Add():
                    self.add(change)
                case AddItems(path, items):
                    owner, at = self.node(path[:-1]), path[-1]
                    assert isinstance(at, int)
                    quote = owner.items[at].quote
                    words = [f"{quote}{item}{quote}" for item in items]
                    self.patch.edits.append(flow.insertion(self.text, owner, at, words, self.patch.feed))
        for node, gone in self.removed.values():
            self.patch.edits += flow.removals(self.text, node, gone)
        return self.patch.finish()

    def edit(self, start: int, end: int, new: str) -> None:
        self.patch.edits.append(Edit(start, end, new))

    def node(self, path: Path) -> Node:
        node = self.root
        for step in path[1:]:
            if isinstance(step, int):
                node = node.items[step]
            else:
                entry = node.entry(step)
                if entry is None:
                    raise RuntimeError(f"there is no {step}")
                node = entry.value
        return node

    def entry(self, path: Path) -> Entry:
        found = self.node(path[:-1]).entry(str(path[-1]))
        if found is None:
            raise RuntimeError(f"there is no {path[-1]}")
        return found

    def remove(self, path: Path) -> None:
        owner = self.node(path[:-1])
        if owner.flow:
            index = path[-1] if isinstance(path[-1], int) else [e.name for e in owner.entries].index(str(path[-1]))
            self.removed.setdefault(id(owner), (owner, set()))[1].add(index)
            return
        entry = self.entry(path)
        if entry.value.entries and not entry.value.flow:
            # A section with its only key.
            if entry.key.tag == HEADER:
                self.patch.remove(entry.start, self.text.index("]", entry.key.end) + 1)
            entry = entry.value.entries[0]
        start = self.patch.starts[self.patch.line_of(entry.start)]
        start += len(self.text[start : entry.start]) - len(self.text[start : entry.start].lstrip())
        self.patch.remove(start, entry.end)

    def add(self, change: Add) -> None:
        if len(change.path) == 1:
            self.into(self.root, "", [f'"{n}" = {_spelled(v)}' for n, v in change.pairs], change.after)
            return
        pairs = [f"{name} = {_spelled(value)}" for name, value in change.pairs]
        name = str(change.path[-1])
        entry = self.node(change.path[:-1]).entry(name)
        if entry is None:
            self.add_section(name, pairs, self.entry((*change.path[:-1], change.beside)))
        elif len(change.path) > 2:
            self.into(entry.value, "", [f'"{n}" = {_spelled(v)}' for n, v in change.pairs], change.after)
        elif entry.value.kind != "mapping":
            raise RuntimeError(f"{name} is no table")
        else:
            prefix = f"{self.renamed.get(name, name)}." if entry.key.tag == DOTTED else ""
            self.into(entry.value, prefix, pairs, change.after)

    def into(self, node: Node, prefix: str, pairs: list[str], after: str) -> None:
        names = [e.name for e in node.entries]
        index = names.index(after) if after in names else None
        if node.flow:
            self.patch.edits.append(flow.insertion(self.text, node, index, pairs, self.patch.feed))
            return
        plain = [e for e in node.entries if e.key.tag != HEADER]
        behind = node.entries[index] if index is not None else plain[-1] if plain else None
        line = self.patch.last_line(behind.start, behind.end) if behind else self.patch.last_line(node.start, node.end)
        indent = self.patch.indent_of(behind.start) if behind and not prefix else ""
        indent = indent if not indent.strip() else ""
        self.patch.insert(line, [indent + prefix + pair for pair in pairs])

    def add_section(self, name: str, pairs: list[str], beside: Entry) -> None:
        last = beside.value.entries[-1] if beside.value.entries and not beside.value.flow else beside
        line = self.patch.last_line(last.start, last.end)
        if beside.key.tag == HEADER:
            self.patch.insert(line, ["", f"[{name}]", *pairs])
        elif beside.key.tag == DOTTED:
            self.patch.insert(line, [f"{name}.{pair}" for pair in pairs])
        else:
            self.patch.insert(line, [f"{name} = {{ {', '.join(pairs)} }}"])


def _spelled(value: Value, quote: str = '"') -> str:
    if value.source:
        return value.source
    return str(value.data).lower() if isinstance(value.data, bool) else f"{quote}{value.data}{quote}"


def syntax_tree(text: str) -> Syntax:
    """The root of the grammar's tree, which has the comments."""
    return _parser().parse(text.encode("utf-8")).root_node


@cache
def _parser() -> Parser:
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_toml.language()))
