"""The comments of TOML, and what they may stand above or behind."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from fsdp_migrate.config.toml_file import TOML, syntax_tree
from fsdp_migrate.languages import Item
from fsdp_migrate.trees import comments_of, items_of, meaning_of

_SIMPLE = frozenset({"pair"})


def comments(text: str, kind: str) -> list[tuple[int, int]]:
    return comments_of(syntax_tree(text), text)


def items(text: str, lines: Collection[int]) -> list[Item]:
    return items_of(syntax_tree(text), text, _SIMPLE)


def meaning(text: str) -> Hashable:
    TOML.documents(text)
    return meaning_of(syntax_tree(text))
