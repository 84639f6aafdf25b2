"""Characters to lines and columns, and back."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from fsdp_migrate.findings import Place


@dataclass(frozen=True)
class Lines:
    """Text with its lines, which end in ``\\n`` or ``\\r\\n`` exactly as in the file."""

    text: str

    @cached_property
    def starts(self) -> list[int]:
        """The character at which each line starts; the last entry is the end of the text."""
        starts = [0]
        starts += [m.end() for m in re.finditer("\n", self.text)]
        if starts[-1] != len(self.text):
            starts.append(len(self.text))
        return starts

    def line(self, number: int) -> str:
        """Line `number`, counted from 1, with its line end."""
        return self.text[self.starts[number - 1] : self.starts[number]] if number < len(self.starts) else ""

    def place(self, start: int, end: int) -> Place:
        """The place of a range of characters."""
        line, end_line = self._line_of(start), self._line_of(end)
        return Place(line, start - self.starts[line - 1] + 1, end_line, end - self.starts[end_line - 1] + 1)

    def _line_of(self, offset: int) -> int:
        if offset == len(self.text) and not self.text.endswith("\n") and len(self.starts) > 1:
            return len(self.starts) - 1
        return bisect_right(self.starts, offset)

    def offsets(self, place: Place) -> tuple[int, int]:
        """The range of characters of a place."""
        return (
            self.starts[place.line - 1] + place.column - 1,
            self.starts[place.end_line - 1] + place.end_column - 1,
        )
