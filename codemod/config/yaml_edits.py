"""Carry out changes in the text of a YAML file, by the spans of its nodes."""

from __future__ import annotations

from collections.abc import Sequence

from fsdp_migrate.config import flow
from fsdp_migrate.config.changes import Add, AddItems, Change, Remove, Rename, Set, Value
from fsdp_migrate.config.patch import Patch, bullets
from fsdp_migrate.config.tree import Entry, Node, Path, walk
from fsdp_migrate.findings import Edit


def edits_of(text: str, documents: Sequence[Node], changes: Sequence[Change]) -> Sequence[Edit]:
    """The edits for these changes.

    Raises:
        RuntimeError: something stands in a place where it cannot be edited.
    """
    return _Editor(text, documents).run(changes)


class _Editor:
    def __init__(self, text: str, documents: Sequence[Node]) -> None:
        self.text = text
        self.documents = documents
        self.patch = Patch(text)
        self.removed: dict[int, tuple[Node, set[int]]] = {}

    def run(self, changes: Sequence[Change]) -> list[Edit]:
        for change in changes:
            match change:
                case Rename(path, name):
                    key = self.entry(path).key
                    self.edit(key.start, key.end, f"{key.quote}{name}{key.quote}")
                case Set(path, value):
                    self.set(self.node(path), value, self.documents[_number(path)])
                case Remove():
                    self.remove(change)
                case Add():
                    self.add(change)
                case AddItems(path, items):
                    self.add_items(path, items)
        for node, gone in self.removed.values():
            self.patch.edits += flow.removals(self.text, node, gone)
        return self.patch.finish()

    def edit(self, start: int, end: int, new: str) -> None:
        self.patch.edits.append(Edit(start, end, new))

    # Finding things

    def node(self, path: Path) -> Node:
        node = self.documents[_number(path)]
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

    # Values

    def set(self, node: Node, value: Value, document: Node) -> None:
        new = self.spell(value, document, node.quote)
        self.edit(node.start, node.end, new if node.end > node.start else f" {new}")

    def spell(self, value: Value, document: Node, quote: str | None = None) -> str:
        if value.source:
            return value.source
        if isinstance(value.data, bool):
            return _in_case_of(str(value.data).lower(), self.text, document)
        if value.data is None:
            return "null"
        if quote is None:
            quote = _usual_quote(document)
        return f"{quote}{value.data}{quote}"

    # Removing

    def remove(self, change: Remove) -> None:
        path = change.path
        owner = self.node(path[:-1])
        if owner.flow:
            names = [e.name for e in owner.entries]
            index = path[-1] if isinstance(path[-1], int) else names.index(str(path[-1]))
            self.removed.setdefault(id(owner), (owner, set()))[1].add(index)
            return
        if isinstance(path[-1], int):
            item = owner.items[path[-1]]
            bullet = self.text.rindex("-", 0, item.start)
            if self.patch.indent_of(bullet).strip():
                raise RuntimeError("a list inside a list begins on this line")
            self.patch.remove(bullet, item.end)
            return
        entry = self.entry(path)
        before = self.patch.indent_of(entry.start)
        if bullets(before):
            following = next((e for e in owner.entries if e.start > entry.start), None)
            if following is None:
                raise RuntimeError("the list's item would be empty")
            gap = self.text[entry.end : following.start]
            self.edit(entry.start, entry.end if gap.strip() else following.start, "")
        elif before.strip():
            raise RuntimeError("something stands before the key on its line")
        else:
            self.remove_lines(entry, change)

    def remove_lines(self, entry: Entry, change: Remove) -> None:
        if entry.value.entries and not entry.value.flow:
            # A section with its only key; what is said between the two stays.
            header = self.text.index(":", entry.key.end) + 1
            self.patch.remove(entry.start, header)
            only = entry.value.entries[0]
            self.outdent(entry, self.patch.line_of(header) + 1, self.patch.line_of(only.start))
            self.remove_lines(only, change)
            self.outdent(entry, self.patch.last_line(only.start, only.end) + 1, len(self.patch.lines))
            return
        comment = self.patch.tail(entry.end)
        moves = change.with_comment
        if change.heir and "#" in comment:
            other = self.entry(change.heir)
            if "#" not in self.patch.tail(other.end) and not self.node(change.heir[:-1]).flow:
                self.edit(other.end, other.end, comment.rstrip())
                moves = True
        self.patch.remove(entry.start, entry.end + len(comment) if moves else entry.end)

    def outdent(self, section: Entry, first: int, last: int) -> None:
        """Comments of a section that goes stay, at the level of the section itself."""
        indent = self.patch.indent_of(section.start)
        for number in range(first, last):
            start, end = self.patch.lines[number]
            line = self.text[start:end]
            bare = line.lstrip(" ")
            if bare.strip() and (not bare.startswith("#") or len(line) - len(bare) <= len(indent)):
                return
            if bare.startswith("#"):
                self.edit(start, start + len(line) - len(bare), indent)

    # Adding

    def add(self, change: Add) -> None:
        document = self.documents[_number(change.path)]
        pairs = [f"{name}: {self.spell(value, document)}" for name, value in change.pairs]
        if len(change.path) == 1 or isinstance(change.path[-1], int):
            self.add_to(self.node(change.path), pairs, change.after, change.comment)
            return
        owner = self.node(change.path[:-1])
        entry = owner.entry(change.path[-1])
        if entry is None:
            self.add_section(owner, change, pairs)
        elif entry.value.kind == "mapping":
            self.add_to(entry.value, pairs, change.after, change.comment)
        elif entry.value.is_null:
            self.fill(owner, entry, pairs, change.comment)
        else:
            raise RuntimeError(f"{entry.name} is no mapping")

    def add_to(self, mapping: Node, pairs: list[str], after: str, comment: str) -> None:
        names = [e.name for e in mapping.entries]
        index = names.index(after) if after in names else None
        if mapping.flow or not mapping.entries:
            self.patch.edits.append(flow.insertion(self.text, mapping, index, pairs, self.patch.feed))
            return
        behind = mapping.entries[-1 if index is None else index]
        first = mapping.entries[0].start
        indent = " " * len(self.patch.indent_of(first))
        self.patch.insert(self.patch.last_line(behind.start, behind.end), _block(pairs, indent, comment))

    def fill(self, owner: Node, entry: Entry, pairs: list[str], comment: str) -> None:
        """An empty section, or one that says null."""
        if owner.flow:
            new = f"{{{', '.join(pairs)}}}"
            self.edit(entry.value.start, entry.value.end, new if entry.value.end > entry.value.start else f" {new}")
            return
        if entry.value.end > entry.value.start:
            colon = self.text.rindex(":", entry.key.end, entry.value.start) + 1
            self.edit(colon, entry.value.end, "")
        indent = self.patch.indent_of(entry.start) + self.unit(owner)
        self.patch.insert(self.patch.line_of(entry.end), _block(pairs, indent, comment))

    def add_section(self, owner: Node, change: Add, pairs: list[str]) -> None:
        name = str(change.path[-1])
        names = [e.name for e in owner.entries]
        index = names.index(change.beside)
        beside = owner.entries[index]
        if owner.flow:
            indent = flow.own_line(self.text, owner, index)
            new = flow.section(name, pairs, indent, self.unit(owner), self.patch.feed)
            self.patch.edits.append(flow.insertion(self.text, owner, index, [new], self.patch.feed))
            return
        indent = self.patch.indent_of(beside.start)
        if indent.strip():
            raise RuntimeError("something stands before the section on its line")
        lines = [f"{indent}{name}:", *_block(pairs, indent + self.unit(owner), change.comment)]
        self.patch.insert(self.patch.last_line(beside.start, beside.end), lines)

    def add_items(self, path: Path, items: tuple[str, ...]) -> None:
        owner, at = self.node(path[:-1]), path[-1]
        assert isinstance(at, int)
        item = owner.items[at]
        new = [f"{item.quote}{word}{item.quote}" for word in items]
        if owner.flow:
            self.patch.edits.append(flow.insertion(self.text, owner, at, new, self.patch.feed))
            return
        bullet = self.text.rindex("-", 0, item.start)
        indent, dash = self.patch.indent_of(bullet), self.text[bullet : item.start]
        if indent.strip():
            raise RuntimeError("a list inside a list begins on this line")
        self.patch.insert(self.patch.last_line(item.start, item.end), [f"{indent}{dash}{word}" for word in new])

    def unit(self, owner: Node) -> str:
        """One level of indentation, as the sections beside have it."""
        for entry in owner.entries:
            if entry.value.entries and not entry.value.flow:
                inner = self.patch.indent_of(entry.value.entries[0].start)
                if not inner.strip() and len(inner) > len(self.patch.indent_of(entry.start)):
                    return inner[len(self.patch.indent_of(entry.start)) :]
        return flow.unit_of(self.text) if owner.flow else "  "


def _number(path: Path) -> int:
    assert isinstance(path[0], int)
    return path[0]


def _block(pairs: Sequence[str], indent: str, comment: str) -> list[str]:
    lines = [indent + pair for pair in pairs]
    if comment:
        lines[0] += f"  {comment}"
    return lines


def _usual_quote(document: Node) -> str:
    """The quotes of most strings that could do without."""
    quotes = [n.quote for n, _ in walk(document, ()) if n.kind == "scalar" and isinstance(n.value, str) and not n.tag]
    quoted = [q for q in quotes if q]
    return max(quoted, key=quoted.count) if quoted and 2 * len(quoted) > len(quotes) else ""


def _in_case_of(word: str, text: str, document: Node) -> str:
    """`true` or `false` in the capitals of the file's other booleans."""
    for node, _ in walk(document, ()):
        raw = text[node.start : node.end]
        if isinstance(node.value, bool) and raw.lower() in ("true", "false"):
            return word.upper() if raw.isupper() else word.capitalize() if raw[0].isupper() else word
    return word
