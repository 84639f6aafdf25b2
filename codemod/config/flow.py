"""Edits inside brackets: JSON, and YAML's flow style."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fsdp_migrate.config.tree import Node
from fsdp_migrate.findings import Edit

Span = tuple[int, int]


def spans(node: Node) -> list[Span]:
    """The members of a collection."""
    return [(e.start, e.end) for e in node.entries] or [(i.start, i.end) for i in node.items]


def removals(text: str, node: Node, gone: set[int]) -> Iterator[Edit]:
    """Take members out, each with one comma and the blanks around it. Comments stay."""
    members = spans(node)
    last_kept = max((i for i in range(len(members)) if i not in gone), default=-1)
    for i in sorted(gone):
        start, end = members[i]
        if i < last_kept or (last_kept < 0 and i + 1 < len(members)):
            following = members[i + 1][0]
            comma = text.index(",", end) + 1
            yield Edit(start, comma if _has_comment(text[end:following]) else following, "")
        elif last_kept < 0:
            yield Edit(start, end, "")
        else:
            before = members[i - 1][1]
            if _has_comment(text[before:start]):
                comma = text.index(",", before)
                yield Edit(comma, comma + 1, "")
                yield Edit(start, end, "")
            else:
                yield Edit(before, end, "")


def _has_comment(gap: str) -> bool:
    return "#" in gap or "//" in gap or "/*" in gap


def insertion(text: str, node: Node, index: int | None, members: Sequence[str], feed: str) -> Edit:
    """Put members behind the one at `index`, or at the end."""
    present = spans(node)
    if not present:
        opening = text.index("{" if node.kind == "mapping" else "[", node.start) + 1
        return Edit(opening, opening, ", ".join(members))
    at = len(present) - 1 if index is None else index
    separator = f",{feed}{indent}" if (indent := own_line(text, node, at)) is not None else ", "
    end = present[at][1]
    return Edit(end, end, "".join(separator + member for member in members))


def own_line(text: str, node: Node, at: int) -> str | None:
    """The indentation of a member that begins its line, else None."""
    start = spans(node)[at][0]
    line = text.rfind("\n", 0, start) + 1
    before = text[line:start]
    return before if line and not before.strip() else None


def section(name: str, members: Sequence[str], indent: str | None, unit: str, feed: str) -> str:
    """A new section: on one line, or laid out like the others if the one beside it begins a line."""
    if indent is None:
        return f"{name}: {{{', '.join(members)}}}"
    inner = f",{feed}{indent}{unit}".join(members)
    return f"{name}: {{{feed}{indent}{unit}{inner}{feed}{indent}}}"


def unit_of(text: str) -> str:
    """One level of indentation, as the file writes it."""
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return match[1] if match else "  "
