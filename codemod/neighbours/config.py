"""Sightings in YAML, JSON and TOML: sections at the root of an override file, and dotted keys."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fsdp_migrate.config.changes import Add, Change, Remove, Rename, Value
from fsdp_migrate.config.tree import Node
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import Asked
from fsdp_migrate.lines import Lines
from fsdp_migrate.neighbours.names import FIELDS, Moved
from fsdp_migrate.neighbours.sighting import Sighting, sighting
from fsdp_migrate.neighbours.words import is_bridge
from fsdp_migrate.upstream import FLAG, NEW_SECTION, OLD_SECTION

_SYNTAXES = {
    "yaml": "fsdp_migrate.config.yaml_file:YAML",
    "json": "fsdp_migrate.config.json_file:JSON",
    "toml": "fsdp_migrate.config.toml_file:TOML",
}
# Sections of Bridge's container that stand together in nobody else's file.
_OWN = frozenset({"dist", "ddp", "comm_overlap", "mixed_precision", "validation", "checkpoint", "dataset", "train"})
_ENOUGH = 3
_TWICE = "the new name stands here too; keep one of the two by hand"
_SHARED = "it belongs to another section now, and this file shares values by anchors; move it by hand"


def read(language: str, text: str, asked: Asked) -> Sequence[Sighting]:
    """The sightings in one file.

    Raises:
        UnreadableError: it is not of the language.
    """
    module, _, name = _SYNTAXES[language].partition(":")
    syntax = getattr(import_module(module), name)
    documents: Sequence[Node] = syntax.documents(text)
    rows = [row for row in FIELDS if row.holds(asked.target)]
    lines = Lines(text)
    found = []
    for number, root in enumerate(documents):
        if root.kind == "mapping" and _is_bridge(root, text):
            found += _sightings(language, syntax, lines, documents, number, rows)
    return found


def _is_bridge(root: Node, text: str) -> bool:
    # A dump belongs to the checkpoint it was written with.
    if "_target_" in text:
        return False
    if any(e.value.entry(FLAG) for name in (OLD_SECTION, NEW_SECTION) for e in root.all(name)):
        return True
    own = [e for e in root.entries if e.name in _OWN and e.value.kind == "mapping"]
    return is_bridge(text) or (len(own) >= _ENOUGH and any(e.name in ("dist", "ddp") for e in own))


def _sightings(
    language: str, syntax: Any, lines: Lines, documents: Sequence[Node], number: int, rows: Sequence[Moved]
) -> list[Sighting]:
    """What has one section and belongs to another moves at once: the new section is made once."""
    root = documents[number]
    found = []
    for row in rows:
        dotted, new = ".".join(row.old), ".".join(row.new)
        for entry in root.all(dotted):
            why = _TWICE if root.entry(new) else ""
            changes = () if why else _edits(syntax, lines.text, documents, [Rename((number, dotted), new)])
            safe = row.is_safe(entry.value.value)
            span = entry.key.start, entry.key.end
            found.append(sighting(language, lines, row.topic, span, new, changes, safe=safe, why=why or row.why))
    for old, new in dict.fromkeys((row.old[0], row.new[0]) for row in rows):
        section = root.entry(old)
        if section is None or section.value.kind != "mapping":
            continue
        pairs = [(row, entry) for row in rows if row.old[0] == old for entry in section.value.all(row.old[1])]
        if old == new:
            for row, entry in pairs:
                why = _TWICE if section.value.entry(row.new[1]) else ""
                rename = [Rename((number, *row.old), row.new[1])]
                changes = () if why else _edits(syntax, lines.text, documents, rename)
                safe = row.is_safe(entry.value.value)
                span = entry.key.start, entry.key.end
                found.append(
                    sighting(language, lines, row.topic, span, row.new[1], changes, safe=safe, why=why or row.why)
                )
        elif pairs:
            row, first = pairs[0]
            target = root.entry(new)
            why = ""
            if target is not None and (
                target.value.kind != "mapping" or any(target.value.entry(r.new[1]) for r, _ in pairs)
            ):
                why = _TWICE
            elif "&" in lines.text or any(e.value.kind != "scalar" or e.value.tag for _, e in pairs):
                why = _SHARED
            values = tuple((r.new[1], Value(e.value.value, lines.text[e.value.start : e.value.end])) for r, e in pairs)
            change: list[Change] = [Remove((number, *r.old)) for r, _ in pairs]
            change.append(Add((number, new), values, beside=old))
            changes = () if why else _edits(syntax, lines.text, documents, change)
            span = first.key.start, first.key.end
            names = ", ".join(".".join(r.new) for r, _ in pairs)
            found.append(sighting(language, lines, row.topic, span, names, changes, safe=False, why=why or row.why))
    return found


def _edits(syntax: Any, text: str, documents: Sequence[Node], changes: Sequence[Change]) -> tuple[Edit, ...]:
    return tuple(syntax.edits(text, documents, changes))
