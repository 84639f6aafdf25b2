"""The environment variables that a command in a shell script certainly gets. What may be changed since is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fsdp_migrate.shell.words import Script, WordList, unquoted, walk
from fsdp_migrate.transforms.plan import UNKNOWN

if TYPE_CHECKING:
    from tree_sitter import Node

# What stands inside one of these may not have happened, or has no effect outside.
_MAYBE: Final = frozenset(
    {"if_statement", "case_statement", "while_statement", "for_statement", "list", "function_definition", "subshell"}
)
_READS_ANYTHING: Final = frozenset({"source", ".", "eval"})
# Programs whose command does not get the environment of the script.
_ELSEWHERE: Final = frozenset({"docker", "podman", "ssh", "pdsh", "kubectl"})
_GIVEN: Final = re.compile(r"(?:--env=)?([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_DROPPED: Final = re.compile(r"--unset=(\w+)")


@dataclass(frozen=True, slots=True)
class Variable:
    """A value (`UNKNOWN` where it cannot be told), and the characters that set it."""

    value: object
    start: int
    end: int


@dataclass
class _Environment:
    variables: dict[str, Variable] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    certain: bool = True

    def set(self, name: str, value: object, span: tuple[int, int]) -> None:
        before = self.variables.get(name)
        if not self.certain and before is not None and before.value != value:
            value = UNKNOWN
        self.variables[name] = Variable(value, *span)

    def drop(self, name: str) -> None:
        if self.certain:
            self.variables.pop(name, None)
        else:
            self.forget(name)

    def clear(self) -> None:
        for name in list(self.variables):
            self.drop(name)

    def forget(self, *names: str) -> None:
        for name in names or tuple(self.variables):
            if name in self.variables:
                old = self.variables[name]
                self.variables[name] = Variable(UNKNOWN, old.start, old.end)


def environment_of(script: Script, found: WordList) -> dict[str, Variable]:
    """The variables that whoever gets these words gets.

    The words of a variable may be used anywhere below, so what is not the same all through the script is unknown.
    """
    environment = _Environment(certain=not found.variable)
    functions = {script.of(n.children[0]): n for n in script.nodes if n.type == "function_definition" and n.children}
    for node in script.nodes:
        if environment.certain and script.character(node.start_byte) >= found.end:
            break
        match node.type:
            case "variable_assignment":
                _assign(script, node, found, environment)
            case "declaration_command" if _exports(script, node):
                environment.exported |= {script.of(n) for n in node.children if n.type == "variable_name"}
            case "unset_command":
                for name in (script.of(n) for n in node.children[1:]):
                    environment.forget(name) if _may_be_skipped(node) else environment.drop(name)
            case "command_name" if script.of(node) in _READS_ANYTHING:
                environment.forget()
            case "command_name" if script.of(node) in functions:
                for name in _changes(script, functions[script.of(node)]):
                    environment.forget(name)
    for node in script.nodes:
        if node.type == "command" and _gets(script, node, found):
            _pass_on(next(script.lists(node)), environment)
    return {n: v for n, v in environment.variables.items() if n in environment.exported}


def _assign(script: Script, node: Node, found: WordList, environment: _Environment) -> None:
    parent = node.parent
    name, *rest = node.children
    if parent is not None and parent.type == "command":
        if not _gets(script, parent, found):
            return
        certain = True
        environment.exported.add(script.of(name))
    else:
        certain = not _may_be_skipped(node)
        if parent is not None and parent.type == "declaration_command" and _exports(script, parent):
            environment.exported.add(script.of(name))
    text = script.of(rest[-1]) if len(rest) > 1 else ""
    plain = certain and "$" not in text and "`" not in text
    environment.set(script.of(name), unquoted(text) if plain else UNKNOWN, script.span(node))


def _exports(script: Script, node: Node) -> bool:
    words = script.of(node).split()
    return words[0] == "export" or any(re.fullmatch(r"-\w*x\w*", word) for word in words[1:])


def _changes(script: Script, function: Node) -> Iterator[str]:
    for node in walk(function):
        if node.type == "variable_assignment":
            yield script.of(node.children[0])
        elif node.type == "unset_command":
            yield from (script.of(n) for n in node.children[1:])


def _pass_on(command: WordList, environment: _Environment) -> None:
    """What the programs in front of the words (``env``, ``srun``, ``docker run``) do to the environment."""
    words = [unquoted(word.text) for word in command.words]
    if _ELSEWHERE.intersection(words) or (words[:1] == ["env"] and "-i" in words):
        environment.clear()
    for word, text, before in zip(command.words, words, ["", *words], strict=False):
        given = [text]
        if text.startswith("--export="):
            given = text.removeprefix("--export=").split(",")
            if "ALL" not in given:
                environment.clear()
        elif match := _DROPPED.fullmatch(text):
            environment.drop(match[1])
        elif before == "-u":
            environment.drop(text)
        for match in filter(None, map(_GIVEN.fullmatch, given)):
            environment.exported.add(match[1])
            value = UNKNOWN if "$" in match[2] or "`" in match[2] else match[2]
            environment.set(match[1], value, (word.start, word.end))


def _gets(script: Script, command: Node, found: WordList) -> bool:
    start, end = script.span(command)
    named = found.variable and re.search(rf"\$\{{?{re.escape(found.variable)}\b", script.of(command))
    return bool(named) or start <= found.start <= found.end <= end


def _may_be_skipped(node: Node) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.type in _MAYBE:
            return True
        parent = parent.parent
    return False
