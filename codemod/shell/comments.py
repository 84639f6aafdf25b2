"""The comments of shell scripts, and what they may stand above or behind."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from fsdp_migrate.languages import Item
from fsdp_migrate.shell.words import script_of
from fsdp_migrate.trees import comments_of, items_of, meaning_of

_SIMPLE = frozenset(
    {"command", "redirected_statement", "variable_assignment", "declaration_command", "list", "pipeline"}
)


def comments(text: str, kind: str) -> list[tuple[int, int]]:
    return comments_of(script_of(text).tree.root_node, text)


def items(text: str, lines: Collection[int]) -> list[Item]:
    return items_of(script_of(text).tree.root_node, text, _SIMPLE)


def meaning(text: str) -> Hashable:
    return meaning_of(script_of(text).tree.root_node)
