"""Mappings inside a file that are a config by themselves, where the settings name the way to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fsdp_migrate.config.json_file import JSON
from fsdp_migrate.config.tree import Node
from fsdp_migrate.config.yaml_file import YAML
from fsdp_migrate.languages import UnreadableError
from fsdp_migrate.segments import Excerpt, Line, Nested, Segment, lines_of
from fsdp_migrate.upstream import FLAG


def below(segment: Segment, roots: Sequence[str]) -> Iterator[Segment]:
    """The values of these dotted keys, each a segment of its own."""
    text = segment.text
    try:
        documents = (YAML if segment.language == "yaml" else JSON).documents(text)
    except UnreadableError:
        return  # it is reported as what cannot be read
    for document in documents:
        for root in roots:
            node: Node | None = document
            for name in root.split("."):
                entry = node.entry(name) if node is not None else None
                node = entry.value if entry is not None else None
            if node is not None and node.kind == "mapping" and FLAG in text[node.start : node.end]:
                lines = _lines(text, node, is_block=segment.language == "yaml" and not node.flow)
                if lines:
                    yield Nested(segment, Excerpt(segment.language, lines))


def _lines(text: str, node: Node, *, is_block: bool) -> tuple[Line, ...]:
    if not is_block:
        return tuple(Line(at, "", line) for at, line in lines_of(text, node.start, node.end))
    begin = text.rfind("\n", 0, node.start) + 1
    indent = node.start - begin
    end = text.find("\n", node.end) + 1 or len(text)
    lines = []
    for at, line in lines_of(text, begin, end):
        cut = min(indent, len(line) - len(line.lstrip(" ")))
        lines.append(Line(at, line[:cut], line[cut:]))
    return tuple(lines) if not text[begin : node.start].strip() else ()
