"""The comments of JSON and TOML, and what they may stand above or behind. Plain JSON has none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsdp_migrate.config import json_file, toml_file
from fsdp_migrate.config.analyse import Syntax
from fsdp_migrate.languages import Item
from fsdp_migrate.trees import comments_of, items_of, meaning_of

if TYPE_CHECKING:
    from tree_sitter import Node

_SIMPLE = frozenset({"pair"})


@dataclass(frozen=True)
class Comments:
    """What a grammar's tree tells of them."""

    syntax: Syntax
    tree: Callable[[str], Node]

    def comments(self, text: str, kind: str) -> list[tuple[int, int]]:
        return comments_of(self.tree(text), text)

    def items(self, text: str, lines: Collection[int]) -> list[Item]:
        return items_of(self.tree(text), text, _SIMPLE)

    def meaning(self, text: str) -> Hashable:
        self.syntax.documents(text)
        return meaning_of(self.tree(text))


JSON = Comments(json_file.JSON, json_file.syntax_tree)
TOML = Comments(toml_file.TOML, toml_file.syntax_tree)
