"""Changes to Python syntax, addressed by `ast` nodes. `rewrite` carries them out with libcst."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RemoveStatement:
    """The statement goes; its trailing comment moves to `heir`, or stays as a line of its own."""

    statement: ast.stmt
    heir: ast.stmt | None = None


@dataclass(frozen=True, slots=True)
class RemoveTarget:
    """One target of a chained assignment goes."""

    statement: ast.stmt
    index: int


@dataclass(frozen=True, slots=True)
class SetStored:
    """The assigned value becomes `source`."""

    statement: ast.stmt
    source: str


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """New statements follow `statement`, one per line."""

    statement: ast.stmt
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InsertBlockAfter:
    """A compound statement follows `statement`."""

    statement: ast.stmt
    header: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameSection:
    """In ``<root>.dist`` the section becomes ddp. An alias is replaced by `spelled`."""

    node: ast.Attribute
    spelled: str = ""


@dataclass(frozen=True, slots=True)
class RenameArgument:
    """The call's first argument names the ddp section instead."""

    call: ast.Call
    spelled: str = ""


@dataclass(frozen=True, slots=True)
class SetArgument:
    """A positional argument of a call becomes `source`."""

    call: ast.Call
    index: int
    source: str


@dataclass(frozen=True, slots=True)
class DropKeyword:
    call: ast.Call
    name: str


@dataclass(frozen=True, slots=True)
class AddKeyword:
    call: ast.Call
    name: str
    source: str


@dataclass(frozen=True, slots=True)
class SetKeyword:
    call: ast.Call
    name: str
    source: str


@dataclass(frozen=True, slots=True)
class SetText:
    """A string literal is replaced by the literal `source`."""

    node: ast.expr
    source: str


@dataclass(frozen=True, slots=True)
class DropElement:
    """An element of a list, tuple or set display goes."""

    owner: ast.expr
    index: int


@dataclass(frozen=True, slots=True)
class AddElements:
    """Elements follow element `index` of a display."""

    owner: ast.expr
    index: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropKey:
    """An entry of a dict display goes; `index` counts the entries."""

    owner: ast.Dict
    index: int


@dataclass(frozen=True, slots=True)
class AddKey:
    """An entry is added at the end of a dict display."""

    owner: ast.Dict
    key: str
    source: str


@dataclass(frozen=True, slots=True)
class SetEntry:
    """The value of entry `index` of a dict display becomes `source`."""

    owner: ast.Dict
    index: int
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
