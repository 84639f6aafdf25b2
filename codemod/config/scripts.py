"""Command lines in YAML: what a workflow runs, or the arguments of a container."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fsdp_migrate.config.tree import Node, walk
from fsdp_migrate.config.yaml_file import YAML
from fsdp_migrate.languages import UnreadableError
from fsdp_migrate.segments import Excerpt, Line, Segment, lines_of
from fsdp_migrate.upstream import FLAG, NEW_SECTION, OLD_SECTION

_WORD = re.compile(rf"(?<![\w.])(?:\+{{1,2}}|~)?(?:{OLD_SECTION}|{NEW_SECTION})\.{FLAG}=")


def embedded(text: str) -> Sequence[Segment]:
    """Strings of several words with an override of the flag among them. They are read as shell."""
    if not _WORD.search(text):
        return []
    try:
        documents = YAML.documents(text)
    except UnreadableError:
        return []
    return [Excerpt("shell", lines) for node in _strings(documents, text) if (lines := _lines(text, node))]


def places(text: str, documents: Sequence[Node]) -> list[tuple[int, int]]:
    """Where those strings stand."""
    return (
        [(node.start, node.end) for node in _strings(documents, text) if _lines(text, node)]
        if _WORD.search(text)
        else []
    )


def _strings(documents: Sequence[Node], text: str) -> Iterator[Node]:
    for document in documents:
        for node, _ in walk(document, ()):
            raw = text[node.start : node.end]
            if (
                node.kind == "scalar"
                and isinstance(node.value, str)
                and _WORD.search(raw)
                and len(node.value.split()) > 1
            ):
                yield node


def _lines(text: str, node: Node) -> tuple[Line, ...]:
    """The lines of a string, if what stands in the file is what the shell gets."""
    raw = text[node.start : node.end]
    if raw[:1] in "|>":
        first = text.find("\n", node.start) + 1
        lines = list(lines_of(text, first, node.end))
        indents = [len(line) - len(line.lstrip(" ")) for _, line in lines if line.strip()]
        indent = min(indents, default=0)
        return tuple(
            Line(
                at,
                line[: min(indent, len(line) - len(line.lstrip(" ")))],
                line[min(indent, len(line) - len(line.lstrip(" "))) :],
            )
            for at, line in lines
        )
    inside = raw[1:-1] if node.quote else raw
    if "\n" in raw or "\\" in inside or (node.quote and node.quote in inside):
        return ()
    start = node.start + bool(node.quote)
    return (Line(start, "", inside),)
