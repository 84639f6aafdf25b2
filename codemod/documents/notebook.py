"""Notebooks: only the `source` strings of changed cells are edited, in the JSON text as it stands.

Python cells run one after the other in one process, so they are one program; between two cells somebody may look.
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from fsdp_migrate.config.json_file import JSON
from fsdp_migrate.config.tree import Node
from fsdp_migrate.documents import markdown
from fsdp_migrate.documents.code import completed, language_of, python_lines, segments_of
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import UnreadableError
from fsdp_migrate.lines import Lines
from fsdp_migrate.prefilter import MARK
from fsdp_migrate.segments import Document, Excerpt, Line, Nested, Segment, decode, lines_of
from fsdp_migrate.upstream import FLAG

__all__ = ["decode", "split"]

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|[^\\]", re.DOTALL
)
_CELL_MAGIC = re.compile(r"%%(?P<name>\w+)(?P<rest>[^\r\n]*)\r?\n?")
# Cell magics that run the rest of the cell in the notebook's own process.
_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "memit", "python_here"})
# A cell ends where its user may look at the config: an observation point that no cell contains.
_BETWEEN = "yield\n"


def split(document: Document, path: str) -> Sequence[Segment]:
    """The cells that have to do with the flag.

    Raises:
        UnreadableError: it is no notebook.
    """
    found: list[Segment] = []
    programs: list[Segment] = []
    for cell, kind in _cells(document.text):
        if kind == "code":
            program, others = _code(cell)
            programs += [program] if program is not None else []
            found += others
        elif FLAG in cell.text or MARK in cell.text:
            found += [Nested(cell, inner) for inner in markdown.pieces(cell.text)]
    joined = Program(tuple(programs))
    return [joined, *found] if FLAG in joined.text or MARK in joined.text else found


def cell_lines(text: str) -> list[int]:
    """The line, counted from 1, on which each cell begins.

    Raises:
        UnreadableError: it is no notebook.
    """
    lines = Lines(text)
    return [lines.place(node.start, node.start).line for node in _nodes(text)]


def _nodes(text: str) -> list[Node]:
    documents = JSON.documents(text)
    cells = documents[0].entry("cells") if len(documents) == 1 else None
    if cells is None or cells.value.kind != "sequence":
        raise UnreadableError("is no notebook of format 4: it has no list of cells")
    return cells.value.items


def _cells(text: str) -> Iterator[tuple[Cell, str]]:
    is_ascii = text.isascii()
    for number, node in enumerate(_nodes(text), 1):
        source, kind = node.entry("source"), node.entry("cell_type")
        if source is None or kind is None:
            continue
        value = source.value
        strings = value.items if value.kind == "sequence" else [value]
        if all(isinstance(s.value, str) for s in strings):
            pieces = tuple((s.start + 1, s.end - 1) for s in strings)
            yield Cell(text, pieces, value.kind == "sequence", number, is_ascii), str(kind.value.value)


def _code(cell: Cell) -> tuple[Segment | None, list[Segment]]:
    """The Python of a cell, and its other languages."""
    lines = [Line(at, "", line) for at, line in lines_of(cell.text)]
    magic = _CELL_MAGIC.fullmatch(lines[0].text) if lines else None
    if magic and magic["name"] not in _PYTHON_MAGICS:
        language = _of_magic(magic["name"], magic["rest"])
        if language == "text":
            return None, []
        return None, [Nested(cell, inner) for inner in segments_of(language, lines[1:])]
    code, magics = python_lines(lines)
    code = list(completed(code))
    program = Nested(cell, Excerpt("python", tuple(code))) if code else None
    others: list[Segment] = [Nested(cell, inner) for inner in magics]
    if program is not None and not _parses(program.text):
        # It cannot be part of the program; if it names the flag, it is reported by itself.
        return None, [*others, program] if FLAG in program.text else others
    return program, others


def _of_magic(name: str, rest: str) -> str:
    if name in ("bash", "sh", "script", "system", "sx"):
        return "shell"
    if name in ("python", "python3", "pypy"):
        return "python"
    return language_of(rest, "") if name in ("writefile", "file") and rest.strip() else "text"


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


@dataclass(frozen=True)
class Cell:
    """The source of one cell. `strings` are the places of what stands between the quotes in the file."""

    file: str
    strings: tuple[tuple[int, int], ...]
    is_list: bool
    number: int
    is_ascii: bool
    language: str = "python"
    whole: bool = False
    quotes: bool = False

    @cached_property
    def _characters(self) -> tuple[str, list[int], list[int]]:
        """The text, the place in the file of each of its characters, and where in the text each string begins."""
        parts: list[str] = []
        places: list[int] = []
        begins: list[int] = []
        for start, end in self.strings:
            begins.append(len(places))
            for match in _ESCAPE.finditer(self.file, start, end):
                raw = match[0]
                parts.append(json.loads(f'"{raw}"') if len(raw) > 1 else raw)
                places.append(match.start())
        return "".join(parts), places, begins

    @property
    def text(self) -> str:
        return self._characters[0]

    def label_at(self, position: int) -> str:
        return f"cell {self.number}"

    def offset(self, position: int) -> int:
        places = self._characters[1]
        return places[position] if position < len(places) else self._end

    def edit(self, edit: Edit) -> Edit:
        start, end, text = edit.start, edit.end, edit.text
        if not text and end == len(self.text) and start > 0 and self.text[start - 1] == "\n":
            # The last line goes, and what is the last line then has no line end either.
            start -= 1
        if not self.is_list:
            return Edit(self.offset(start), self.offset(end), self._escaped(text))
        keeps_end = start < end and text.endswith("\n") and self.text[end - 1] == "\n"
        lines = text.split("\n")
        written = f'\\n"{self._between}"'.join(map(self._escaped, lines))
        if keeps_end or (text.endswith("\n") and start == end == len(self.text)):
            written = written[: -len(f'"{self._between}"')]
        return Edit(self.offset(start), self._end_of(end) if keeps_end else self.offset(end), written)

    @property
    def _end(self) -> int:
        return self.strings[-1][1] if self.strings else 0

    def _end_of(self, position: int) -> int:
        """The place behind the character before a position, inside its string."""
        begins = self._characters[2]
        if position in begins[1:]:
            return self.strings[begins.index(position) - 1][1]
        return self.offset(position)

    @property
    def _between(self) -> str:
        """What separates two strings of the list."""
        if len(self.strings) > 1:
            return self.file[self.strings[0][1] + 1 : self.strings[1][0] - 1]
        line = self.file.rfind("\n", 0, self.strings[0][0]) + 1
        before = self.file[line : self.strings[0][0] - 1]
        return ", " if before.strip() else f",\n{before}"

    def _escaped(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self.is_ascii)[1:-1]


@dataclass(frozen=True)
class Program:
    """All Python cells of a notebook, one after the other."""

    cells: tuple[Segment, ...]
    language: str = "python"
    whole: bool = False
    quotes: bool = False

    @cached_property
    def _joined(self) -> tuple[str, list[int]]:
        """The text, and where in it each cell begins."""
        parts: list[str] = []
        starts: list[int] = []
        length = 0
        for cell in self.cells:
            starts.append(length)
            end = "" if cell.text.endswith("\n") or not cell.text else "\n"
            parts.append(cell.text + end + _BETWEEN)
            length += len(parts[-1])
        return "".join(parts), starts

    @property
    def text(self) -> str:
        return self._joined[0]

    def label_at(self, position: int) -> str:
        cell, inside = self._at(position)
        return cell.label_at(inside)

    def offset(self, position: int) -> int:
        cell, inside = self._at(position)
        return cell.offset(min(inside, len(cell.text)))

    def edit(self, edit: Edit) -> Edit:
        cell, start = self._at(edit.start)
        end = start + edit.end - edit.start
        text, length = edit.text, len(cell.text)
        if end == length + 1 and not cell.text.endswith("\n"):
            # Up to the line end that only the joined text has.
            if start > length:
                return cell.edit(Edit(length, length, "\n" + text.removesuffix("\n")))
            return cell.edit(Edit(start, length, text.removesuffix("\n")))
        if end > length:
            raise ValueError("the edit reaches into another cell")
        return cell.edit(Edit(start, end, text))

    def _at(self, position: int) -> tuple[Segment, int]:
        starts = self._joined[1]
        number = max(0, bisect_right(starts, position) - 1)
        return self.cells[number], position - starts[number]
