"""Changes to Python syntax, addressed by `ast` nodes. `rewrite` carries them out with libcst.

Named tuples, because seventeen dataclasses take longer to define than most files take to migrate.
"""

from __future__ import annotations

import ast
from typing import NamedTuple


class RemoveStatement(NamedTuple):
    """The statement goes; its trailing comment moves to `heir`, or stays as a line of its own."""

    statement: ast.stmt
    heir: ast.stmt | None = None


class RemoveTarget(NamedTuple):
    """One target of a chained assignment goes."""

    statement: ast.stmt
    at: int


class SetStored(NamedTuple):
    """The assigned value becomes `source`."""

    statement: ast.stmt
    source: str


class InsertAfter(NamedTuple):
    """New statements follow `statement`, one per line."""

    statement: ast.stmt
    lines: tuple[str, ...]


class InsertBlockAfter(NamedTuple):
    """A compound statement follows `statement`."""

    statement: ast.stmt
    header: str
    lines: tuple[str, ...]


class RenameSection(NamedTuple):
    """In ``<root>.dist`` the section becomes ddp. An alias is replaced by `spelled`."""

    node: ast.Attribute
    spelled: str = ""


class RenameArgument(NamedTuple):
    """The call's first argument names the ddp section instead."""

    call: ast.Call
    spelled: str = ""


class SetArgument(NamedTuple):
    """A positional argument of a call becomes `source`."""

    call: ast.Call
    at: int
    source: str


class DropKeyword(NamedTuple):
    call: ast.Call
    name: str


class AddKeyword(NamedTuple):
    call: ast.Call
    name: str
    source: str


class SetKeyword(NamedTuple):
    call: ast.Call
    name: str
    source: str


class SetText(NamedTuple):
    """A string literal is replaced by the literal `source`."""

    node: ast.expr
    source: str


class DropElement(NamedTuple):
    """An element of a list, tuple or set display goes."""

    owner: ast.expr
    at: int


class AddElements(NamedTuple):
    """Elements follow element `index` of a display."""

    owner: ast.expr
    at: int
    sources: tuple[str, ...]


class DropKey(NamedTuple):
    """An entry of a dict display goes; `index` counts the entries."""

    owner: ast.Dict
    at: int


class AddKey(NamedTuple):
    """An entry is added at the end of a dict display."""

    owner: ast.Dict
    key: str
    source: str


class SetEntry(NamedTuple):
    """The value of entry `index` of a dict display becomes `source`."""

    owner: ast.Dict
    at: int
    source: str


Change = (
    RemoveStatement
    | RemoveTarget
    | SetStored
    | InsertAfter
    | InsertBlockAfter
    | RenameSection
    | RenameArgument
    | SetArgument
    | DropKeyword
    | AddKeyword
    | SetKeyword
    | SetText
    | DropElement
    | AddElements
    | DropKey
    | AddKey
    | SetEntry
)


def anchor(change: Change) -> ast.AST:
    """The node a change is about."""
    match change:
        case RemoveStatement(node) | RemoveTarget(node) | SetStored(node) | InsertAfter(node) | InsertBlockAfter(node):
            return node
        case RenameSection(node) | SetText(node):
            return node
        case RenameArgument(call) | SetArgument(call) | DropKeyword(call) | AddKeyword(call) | SetKeyword(call):
            return call
        case _:
            return change.owner
