"""Sightings in shell scripts: override words of Bridge's launchers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import Asked
from fsdp_migrate.lines import Lines
from fsdp_migrate.neighbours.names import CUSTOM_OPTION, FIELDS, NEW_OPTION, OLD_OPTION
from fsdp_migrate.neighbours.sighting import Sighting, sighting
from fsdp_migrate.neighbours.words import is_bridge, spans
from fsdp_migrate.overrides import literal
from fsdp_migrate.shell.words import Script, WordList, script_of, unquoted

# Megatron-LM's own entry points, and the forks for Ascend that have an option of this name.
_PRETRAINS = re.compile(r"(?:^|/)pretrain_\w+\.py$")
_FORK = re.compile(r"mindspeed|ascend|npu\b|hccl", re.I)
_FORMAT = "look at --ckpt-format and --data-parallel-sharding-strategy, too: their defaults do not go with it"
_WHOSE = f"the script that gets it is not known to be Megatron-LM's; it has {NEW_OPTION} since Megatron-Core 0.14"
_TWICE = "the new name is used here too; keep one of the two by hand"


def read(text: str, asked: Asked) -> Sequence[Sighting]:
    """The sightings in one script. What its grammar does not understand is left."""
    has_option = OLD_OPTION in text and _FORK.search(text) is None
    if not is_bridge(text):
        return list(_options(script_of(text))) if has_option else []
    script = script_of(text)
    rows = [row for row in FIELDS if row.holds(asked.target)]
    lists = _lists(script)
    words = {(w.start, w.end): w for found in lists for w in found.words if w.override is not None}
    lines, found = Lines(text), list(_options(script)) if has_option else []
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


def _options(script: Script) -> Iterator[Sighting]:
    """The option of Megatron-LM's entry points, in a command or in a variable that only such commands get."""
    lists, lines = _lists(script), Lines(script.text)
    commands = [found for found in lists if found.kind == "command"]
    seen: set[int] = set()
    for found in lists:
        takers = [c for c in commands if found.variable in c.expands] if found.variable else [found]
        can = bool(takers) and all(map(_pretrains, takers))
        has_new = any(w.text == NEW_OPTION for one in (found, *takers) for w in one.words)
        for word in found.words:
            if word.text != OLD_OPTION or word.start in seen:
                continue
            seen.add(word.start)
            span = word.start, word.end
            changes = (Edit(*span, NEW_OPTION),) if can and not has_new else ()
            why = _FORMAT if changes else _TWICE if has_new else _WHOSE
            yield sighting("shell", lines, CUSTOM_OPTION, span, NEW_OPTION, changes, safe=False, why=why)


def _lists(script: Script) -> list[WordList]:
    return [found for node in script.nodes for found in script.lists(node)]


def _pretrains(command: WordList) -> bool:
    return any(_PRETRAINS.search(unquoted(word.text)) for word in command.words)
