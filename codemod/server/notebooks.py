"""An open notebook as the file it would be saved as, and places in that file as places in its cells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from fsdp_migrate.findings import Place

_LINE = '   "'


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of an open notebook: the URI of its text, and whether it holds code."""

    uri: str
    text: str
    is_code: bool


@dataclass(frozen=True)
class Notebook:
    """Cells laid out as JSON, one line of source a line."""

    text: str
    first_lines: tuple[int, ...]
    """The line of the file, counted from 1, on which each cell's source begins."""
    cells: tuple[Cell, ...]

    def in_cell(self, place: Place) -> tuple[int, Place] | None:
        """The cell's number and the place in its text; None for what is in no cell."""
        before = [n for n, first in enumerate(self.first_lines) if first <= place.line]
        if not before:
            return None
        number = before[-1]
        first = self.first_lines[number] - 1
        start = place.line - first, self._column(place.line, place.column)
        end = place.end_line - first, self._column(place.end_line, place.end_column)
        return number, Place(*start, *end)

    def _column(self, line: int, column: int) -> int:
        """A column of the file as one of the source: what the JSON escapes is one character there."""
        text = self.text.split("\n")[line - 1]
        inside = text[len(_LINE) : column - 1]
        try:
            return len(json.loads(f'"{inside}"')) + 1
        except ValueError:
            return len(inside) + 1


def laid_out(cells: Sequence[Cell]) -> Notebook:
    """The file that these cells make."""
    lines = ['{"cells": [']
    first_lines = []
    for number, cell in enumerate(cells):
        kind = "code" if cell.is_code else "markdown"
        more = '"execution_count": null, "outputs": [], ' if cell.is_code else ""
        lines.append(f'  {{"cell_type": "{kind}", "metadata": {{}}, {more}"source": [')
        first_lines.append(len(lines) + 1)
        source = cell.text.split("\n")
        pieces = [f"{line}\n" for line in source[:-1]] + ([source[-1]] if source[-1] or len(source) == 1 else [])
        lines += [_LINE[:-1] + json.dumps(piece, ensure_ascii=False) + "," for piece in pieces]
        lines[-1] = lines[-1].removesuffix(",")
        lines.append("  ]}" + ("," if number + 1 < len(cells) else ""))
    lines.append('], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    return Notebook("\n".join(lines) + "\n", tuple(first_lines), tuple(cells))


def sources(text: str) -> list[str]:
    """The texts of the cells of a notebook's file."""
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
