"""Sightings in shell scripts: override words of Bridge's launchers."""

from __future__ import annotations

from collections.abc import Sequence

from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import Asked
from fsdp_migrate.lines import Lines
from fsdp_migrate.neighbours.names import FIELDS
from fsdp_migrate.neighbours.sighting import Sighting, sighting
from fsdp_migrate.neighbours.words import is_bridge, spans
from fsdp_migrate.overrides import literal
from fsdp_migrate.shell.words import script_of

_TWICE = "the new name is used here too; keep one of the two by hand"


def read(text: str, asked: Asked) -> Sequence[Sighting]:
    """The sightings in one script. What its grammar does not understand is left."""
    if not is_bridge(text):
        return []
    script = script_of(text)
    rows = [row for row in FIELDS if row.holds(asked.target)]
    lists = [found for node in script.nodes for found in script.lists(node)]
    words = {(w.start, w.end): w for found in lists for w in found.words if w.override is not None}
    lines, found = Lines(text), []
    for row, start, end in spans(text, rows):
        word = next((w for w in words.values() if w.start <= start and end <= w.end), None)
        if word is None or word.override is None or word.override.name != ".".join(row.old):
            continue
        new = ".".join(row.new)
        why = _TWICE if any(w.override and w.override.name == new for w in words.values()) else ""
        safe = row.is_safe(literal(word.override.value or ""))
        changes = () if why else (Edit(start, end, new),)
        found.append(sighting("shell", lines, row.topic, (start, end), new, changes, safe=safe, why=why or row.why))
    return found
