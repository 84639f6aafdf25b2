"""The lists of words in a shell script that may hold overrides, found by tree-sitter's grammar for bash.

A list is the words of one command, the elements of one array or the words of one quoted string. Offsets are characters.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from fsdp_migrate import overrides
from fsdp_migrate.languages import UnreadableError
from fsdp_migrate.upstream import FLAG

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

_EXPANDS = re.compile(r"\$\{?[#!]?(?P<name>\w+)|\$\(|`")
_PLACEHOLDER = re.compile(r"(?<![<&\d])<[A-Za-z](?:[\w ./|-]*[\w.])?>(?![>&(])")
_STRINGS = frozenset({"string", "raw_string", "ansi_c_string", "translated_string"})
_DEEPEST = 500
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})


@dataclass(frozen=True, slots=True)
class Word:
    """One word: where it stands with its quotes, and the override it is, if it is one."""

    start: int
    end: int
    text: str
    override: overrides.Override | None = None

    @property
    def expands(self) -> frozenset[str]:
        """The variables in it."""
        return frozenset(m["name"] for m in _EXPANDS.finditer(self.text) if m["name"])


@dataclass(eq=False)
class WordList:
    """`kind` is command, array or string; `start` and `end` enclose the words, without brackets or quotes.

    `variable` is the name that an array or string is stored in, `adds` whether to what the name held before, `prepends`
    whether in front of it.
    """

    kind: str
    start: int
    end: int
    words: tuple[Word, ...]
    variable: str = ""
    adds: bool = False
    prepends: bool = False
    node: int = 0

    @property
    def flags(self) -> list[Word]:
        return [w for w in self.words if w.override is not None and w.override.is_flag]

    @property
    def expands(self) -> frozenset[str]:
        return frozenset().union(*(w.expands for w in self.words))


@dataclass(eq=False)
class Script:
    """A parsed script."""

    text: str
    tree: Tree = field(init=False)

    def __post_init__(self) -> None:
        # To the grammar, <your_path> would be two redirections.
        code = _PLACEHOLDER.sub(lambda m: re.sub(r"[<> ]", "_", m[0]), self.text)
        self.tree = _parser().parse(code.encode("utf-8"))
        if code.count("(") + code.count("{") > _DEEPEST and _depth(self.tree) > _DEEPEST:
            raise UnreadableError("is nested too deeply to be looked at: migrate it by hand")

    @cached_property
    def _bytes(self) -> list[int] | None:
        """The byte at which each character begins; None where they are the same."""
        if self.text.isascii():
            return None
        return list(accumulate((len(c.encode("utf-8")) for c in self.text), initial=0))

    def character(self, byte: int) -> int:
        return byte if self._bytes is None else bisect_left(self._bytes, byte)

    def span(self, node: Node) -> tuple[int, int]:
        return self.character(node.start_byte), self.character(node.end_byte)

    def of(self, node: Node) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    @cached_property
    def nodes(self) -> list[Node]:
        """Every node, a parent before its children."""
        return list(walk(self.tree.root_node))

    @cached_property
    def faults(self) -> int:
        """How many places the grammar does not understand. A backslash at the very end is none."""
        return sum(1 for node in self.nodes if node.is_error or node.is_missing)

    # Lists

    def lists(self, node: Node) -> Iterator[WordList]:
        """The lists that a node itself makes, outermost first."""
        match node.type:
            case "command":
                words = [n for n in self._command(node) if n.type != "command_name" or self._single(n)]
                yield WordList("command", *self.span(node), tuple(self._word(n) for n in words), node=node.id)
                for inner in words:
                    yield from self._strings(inner)
            case "variable_assignment":
                yield from self._assignment(node)
            case "ERROR":
                loose = tuple(self._word(n) for n in node.children if n.type in _WORDS)
                if any(w.override for w in loose):
                    yield WordList("command", *self.span(node), loose, node=node.id)

    def _command(self, node: Node) -> list[Node]:
        children = [n for n in node.children if n.type not in _REDIRECTS]
        redirects = [n for n in node.children if n.type in _REDIRECTS]
        if node.parent is not None and node.parent.type == "redirected_statement":
            redirects += [n for n in node.parent.children if n.type in _REDIRECTS]
        return sorted(children + redirects, key=lambda n: n.start_byte)

    def _single(self, name: Node) -> bool:
        return name.child_count == 1

    def _assignment(self, node: Node) -> Iterator[WordList]:
        name, operator, value = (*node.children, None, None)[:3]
        if name is None or operator is None or value is None:
            return
        variable = self.of(name)
        adds = self.of(operator) == "+="
        if value.type == "array":
            start, end = self.span(value)
            words = tuple(self._word(n) for n in value.children if n.type not in "()" and n.type != "comment")
            found = WordList("array", start + 1, end - 1, words, variable, adds, node=node.id)
            yield _with_itself(found)
            for inner in value.children:
                yield from self._strings(inner)
        else:
            start, end = self._inside(value)
            words = tuple(self._tokens(value))
            yield _with_itself(WordList("string", start, end, words, variable, adds, node=node.id))

    def _strings(self, node: Node) -> Iterator[WordList]:
        """A quoted word with blanks in it is a list of its own: what `bash -c` gets."""
        if node.type in _STRINGS and FLAG in self.of(node):
            words = tuple(self._tokens(node))
            if len(words) > 1:
                yield WordList("string", *self._inside(node), words, node=node.id)

    def _inside(self, node: Node) -> tuple[int, int]:
        start, end = self.span(node)
        if node.type not in _STRINGS:
            return start, end
        opening = 1 if self.text[start] in "'\"" else 2
        return start + opening, end - 1

    def _tokens(self, node: Node) -> Iterator[Word]:
        """The words inside a string. Blanks inside an expansion do not separate."""
        start, end = self._inside(node)
        masked = list(self.text[start:end])
        for child in node.children:
            if "expansion" in child.type or "substitution" in child.type:
                a, b = self.span(child)
                masked[a - start : b - start] = "x" * (b - a)
        for match in re.finditer(r"(?:\\(?!\r?\n)\S|[^\s\\])+", "".join(masked)):
            a, b = start + match.start(), start + match.end()
            yield self._made(a, b)

    def _word(self, node: Node) -> Word:
        return self._made(*self.span(node))

    def _made(self, start: int, end: int) -> Word:
        raw = self.text[start:end]
        return Word(start, end, raw, overrides.read(unquoted(raw)) if "=" in raw or "~" in raw else None)


_WORDS = frozenset({"word", "concatenation", *_STRINGS})


def _with_itself(found: WordList) -> WordList:
    """Whether the new value contains the old one, and where."""
    own = [i for i, word in enumerate(found.words) if found.variable in word.expands and word.override is None]
    if own:
        found.adds = True
        found.prepends = any(w.override for w in found.words[: own[-1]])
    return found


def unquoted(raw: str) -> str:
    """A word as the command gets it, its expansions left as they are written."""
    parts: list[str] = []
    quote = ""
    i = 0
    while i < len(raw):
        c = raw[i]
        if quote == "'":
            if c == "'":
                quote = ""
            else:
                parts.append(c)
        elif c == "\\" and i + 1 < len(raw) and (not quote or raw[i + 1] in '"\\$`\n'):
            i += 1
            parts.append(raw[i])
        elif c == '"':
            quote = "" if quote else '"'
        elif c == "'" and not quote:
            quote = "'"
        elif c == "$" and raw[i + 1 : i + 2] in ("{", "("):
            end = _closing(raw, i + 1)
            parts.append(raw[i:end])
            i = end - 1
        else:
            parts.append(c)
        i += 1
    return "".join(parts)


def _closing(raw: str, start: int) -> int:
    """The end of an expansion whose bracket opens at `start`."""
    depth = 0
    for i in range(start, len(raw)):
        depth += (raw[i] in "({") - (raw[i] in ")}")
        if not depth:
            return i + 1
    return len(raw)


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, a parent before its children."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _depth(tree: Tree) -> int:
    depth, level = 0, [tree.root_node]
    while level:
        depth, level = depth + 1, [child for node in level for child in node.children]
    return depth


@lru_cache(maxsize=4)
def script_of(text: str) -> Script:
    """The script of a text. Analysing it, looking for heredocs and checking an edit look at the same few texts.

    Raises:
        UnreadableError: commands stand in commands in commands; each is read with all that is in it.
    """
    return Script(text)


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
