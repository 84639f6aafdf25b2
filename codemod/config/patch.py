"""Edits of a text that is made of lines: whole lines go, new ones come."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from fsdp_migrate.findings import Edit
from fsdp_migrate.segments import lines_of


class Patch:
    """Collects changes of lines, counted from 0, and turns them into edits that do not overlap."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [(start, start + len(line)) for start, line in lines_of(text)]
        self.starts = [start for start, _ in self.lines]
        self.feed = "\r\n" if "\r\n" in text else "\n"
        self.gone: set[int] = set()
        self.edits: list[Edit] = []
        self.new: dict[int, list[str]] = {}

    def line_of(self, position: int) -> int:
        return max(0, bisect_right(self.starts, position) - 1)

    def last_line(self, start: int, end: int) -> int:
        """The line in which a stretch of text ends."""
        return self.line_of(end - 1 if end > start else end)

    def indent_of(self, position: int) -> str:
        """What stands before a position on its line."""
        return self.text[self.starts[self.line_of(position)] : position]

    def tail(self, position: int) -> str:
        """What stands behind a position on its line."""
        return self.text[position : self.lines[self.line_of(position)][1]].rstrip("\r\n")

    def insert(self, line: int, new: Sequence[str]) -> None:
        """New lines behind one that is there."""
        self.new.setdefault(line, []).extend(new)

    def remove(self, start: int, end: int, comment: str = "#") -> None:
        """Take the lines of a stretch of text out. A comment behind it stays, on a line of its own."""
        first, last = self.line_of(start), self.last_line(start, end)
        tail = self.tail(end) if self.line_of(end) == last else ""
        if comment in tail:
            self.edits.append(Edit(start, end + tail.index(comment), ""))
        else:
            self.gone |= set(range(first, last + 1))

    def finish(self) -> list[Edit]:
        return sorted([*self.edits, *self._finish()])

    def _finish(self) -> Iterator[Edit]:
        waiting = dict(self.new)
        self._take_blank_end()
        for first, last in self._runs():
            inside = [line for n in range(first, last + 1) for line in waiting.pop(n, [])]
            ends_file = not self.text[: self.lines[last][1]].endswith("\n")
            start, end = self.lines[first][0], self.lines[last][1]
            if not inside and self._blank(first - 1) and self._blank(last + 1):
                # Two blank lines would be left where one was.
                end = self.lines[last + 1][1] if last + 1 < len(self.lines) else end
            if ends_file and first:
                # The last line has no line end, and neither will the one that is last then.
                inside = waiting.pop(first - 1, []) + inside
                start -= len(self.feed) if self.text[:start].endswith(self.feed) else 1
                yield Edit(start, end, "".join(self.feed + line for line in inside))
            else:
                yield Edit(start, end, "".join(line + self.feed for line in inside))
        for number, lines in waiting.items():
            end = self.lines[number][1]
            if self.text[:end].endswith("\n"):
                yield Edit(end, end, "".join(line + self.feed for line in lines))
            else:
                yield Edit(end, end, "".join(self.feed + line for line in lines))

    def _take_blank_end(self) -> None:
        """Blank lines before a last line that goes and has no line end go with it."""
        if self.text.endswith("\n"):
            return
        number = len(self.lines) - 1
        while number > 1 and number in self.gone:
            number -= 1
            if self._blank(number) and number not in self.new:
                self.gone.add(number)

    def _runs(self) -> Iterator[tuple[int, int]]:
        first = None
        for number in sorted(self.gone):
            if first is None:
                first = number
            if number + 1 not in self.gone:
                yield first, number
                first = None

    def _blank(self, line: int) -> bool:
        if line < 0 or line >= len(self.lines):
            return line < 0
        return not self.text[slice(*self.lines[line])].strip()


def bullets(before: str) -> bool:
    """Whether what stands before an entry is nothing but the bullets of lists."""
    return re.fullmatch(r"\s*(?:-[ \t]+)+", before) is not None
