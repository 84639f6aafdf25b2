"""The settings and environment variables that the words of one command add up to, for the rules about conflicts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fsdp_migrate import overrides
from fsdp_migrate.conflicts import Config, Known, effective_flag
from fsdp_migrate.lines import Lines
from fsdp_migrate.shell.words import Script, Word, WordList
from fsdp_migrate.transforms.plan import UNKNOWN

if TYPE_CHECKING:
    from tree_sitter import Node

# Where an assignment inside one of these stands, it may not have happened.
_MAYBE: Final = frozenset(
    {"if_statement", "case_statement", "while_statement", "for_statement", "list", "function_definition", "subshell"}
)


def config_of(
    script: Script, lists: Sequence[WordList], certain: bool, lines: Lines, release: str
) -> tuple[Config | None, Mapping[str, Word]]:
    """What is known of the config that gets these words, with the words; None if FSDP may be on or off.

    `certain`: every list is used whenever the first one is.
    """
    settings: dict[str, Known] = {}
    words: dict[str, Word] = {}
    if not any(found.flags for found in lists):
        return None, {}
    for name, value, node in _assignments(script, lists[-1]):
        settings[f"environ.{name}"] = Known(value, lines.place(*script.span(node)))
    if ranks := _ranks(lists):
        settings["launch.ranks"] = Known(ranks)
    anchor = lines.place(lists[0].start, lists[0].end)
    for found in lists:
        for word in found.words:
            override = word.override
            if override is None or override.value is None:
                continue
            plain = not word.expands and "`" not in word.text
            known = overrides.literal(override.value) if plain and (certain or len(lists) == 1) else UNKNOWN
            place = lines.place(word.start, word.end)
            settings[override.name] = Known(known, place, plain and override.mark != "~")
            words[override.name] = word
            if override.is_flag and known is True:
                anchor = place
    fsdp = effective_flag(settings)
    return (None if fsdp is None else Config(fsdp, anchor, settings, release)), words


def _ranks(lists: Sequence[WordList]) -> int:
    """How many ranks torchrun is told to start; 0 where it cannot be told."""
    text = " ".join(word.text for found in lists for word in found.words)
    per_node, nodes = (re.search(rf"(?<!\S)--{name}[= ](\S+)", text) for name in (r"nproc[-_]per[-_]node", "nnodes"))
    counts = [per_node[1] if per_node else "", nodes[1] if nodes else "1"]
    return math.prod(map(int, counts)) if all(map(str.isdecimal, counts)) else 0


def _assignments(script: Script, before: WordList) -> Iterator[tuple[str, object, Node]]:
    """Variables that are set ahead of a command, in its own environment or exported."""
    for node in script.nodes:
        if node.type != "variable_assignment" or script.character(node.start_byte) >= before.end:
            continue
        parent = node.parent
        own = parent is not None and parent.type == "command"
        if own and parent is not None and script.character(parent.end_byte) < before.start:
            continue
        name, *rest = node.children
        text = script.of(rest[-1]) if len(rest) > 1 else ""
        certain = own or not _may_be_skipped(node)
        yield script.of(name), text.strip("'\"") if certain and "$" not in text and "`" not in text else UNKNOWN, node


def _may_be_skipped(node: Node) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.type in _MAYBE:
            return True
        parent = parent.parent
    return False
