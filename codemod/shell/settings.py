"""The settings and environment variables that the words of one command add up to, for the rules about conflicts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from fsdp_migrate import overrides
from fsdp_migrate.conflicts import Config, Known, effective_flag
from fsdp_migrate.lines import Lines
from fsdp_migrate.shell.environment import environment_of
from fsdp_migrate.shell.words import Script, Word, WordList
from fsdp_migrate.transforms.plan import UNKNOWN


def config_of(
    script: Script,
    lists: Sequence[WordList],
    others: Sequence[WordList],
    certain: bool,
    lines: Lines,
    target: str,
) -> tuple[Config | None, Mapping[str, Word]]:
    """What is known of the config that gets these words, with the words; None if FSDP may be on or off.

    `certain`: every list is used whenever the first one is. `others` may reach the same command.
    """
    if not any(found.flags for found in lists):
        return None, {}
    settings: dict[str, Known] = {}
    words: dict[str, Word] = {}
    for name, variable in environment_of(script, lists[-1]).items():
        settings[f"environ.{name}"] = Known(variable.value, lines.place(variable.start, variable.end))
    if ranks := _ranks(lists):
        settings["launch.ranks"] = Known(ranks)
    anchor = lines.place(lists[0].start, lists[0].end)
    for found in lists:
        for word in found.words:
            override = word.override
            if override is None:
                continue
            if override.value is None:
                settings.pop(override.name, None)
                continue
            plain = not word.expands and "`" not in word.text
            known = overrides.single(override.value) if plain and (certain or len(lists) == 1) else UNKNOWN
            place = lines.place(word.start, word.end)
            settings[override.name] = Known(known, place, known is not UNKNOWN and override.mark != "~")
            words[override.name] = word
            if override.is_flag and known is True:
                anchor = place
    for override in (word.override for found in others for word in found.words if word.override is not None):
        mine = settings.get(override.name)
        if mine is not None and (override.value is None or overrides.single(override.value) != mine.value):
            settings[override.name] = Known(UNKNOWN, mine.place)
    fsdp = effective_flag(settings)
    return (None if fsdp is None else Config(fsdp, anchor, settings, target)), words


def _ranks(lists: Sequence[WordList]) -> int:
    """How many ranks torchrun is told to start; 0 where it cannot be told."""
    text = " ".join(word.text for found in lists for word in found.words)
    per_node, nodes = (re.search(rf"(?<!\S)--{name}[= ](\S+)", text) for name in (r"nproc[-_]per[-_]node", "nnodes"))
    counts = [per_node[1] if per_node else "", nodes[1] if nodes else "1"]
    return math.prod(map(int, counts)) if all(map(str.isdecimal, counts)) else 0
