"""What is no code: sentences that name the flag, and code that nobody can parse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fsdp_migrate.cases import Case, Spot
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import Asked, Found
from fsdp_migrate.lines import Lines
from fsdp_migrate.overrides import NEW_NAME, OLD_NAME
from fsdp_migrate.segments import lines_of
from fsdp_migrate.upstream import FLAG, NEW_SECTION, OLD_CLASS, OLD_SECTION

OLD_PATH = re.compile(rf"(?<![\w-]){re.escape(OLD_NAME)}\b")
_NEW_PATH = re.compile(rf"\b{re.escape(NEW_NAME)}\b")
_CLASS = re.compile(rf"\b{OLD_CLASS}\b")
_FLAG = re.compile(rf"\b{FLAG}\b")
_SECTION = re.compile(rf"\b{OLD_SECTION}\b(?P<colon>\s*:)?")

PROSE = "prose"


@dataclass(frozen=True)
class Text:
    """Remarks about a text, with what `--unsafe-fixes` may replace in it."""

    case: Case
    paths: tuple[tuple[int, int], ...] = ()

    def edits(self, parts: frozenset[str]) -> tuple[Edit, ...]:
        if PROSE not in parts:
            return ()
        return tuple(Edit(start, start + len(OLD_SECTION), NEW_SECTION) for start, _ in self.paths)


def read(text: str, asked: Asked) -> Sequence[Found]:
    """Every place where a text speaks about the old path."""
    paths: list[tuple[int, int]] = []
    remarks: list[Spot] = []
    lines = Lines(text)
    for start, end, is_path in mentions(text):
        if is_path:
            paths.append((start, end))
        form = PROSE if is_path else "mention"
        remarks.append(Spot(0, form, OLD_SECTION, lines.place(start, end), text[start:end]))
    return [Text(Case("text", "", remarks=tuple(remarks)), tuple(paths))] if remarks else []


def mentions(text: str) -> Iterator[tuple[int, int, bool]]:
    """The old path in a text, and whether putting the new one there could be all there is to do.

    It is not where the line names the new path or the old class as well: it would contradict itself or say one thing
    twice.
    """
    start = 0
    for line in text.split("\n"):
        both = _class_and_flag(line)
        says_both = _NEW_PATH.search(line) is not None or both is not None
        found = False
        for match in OLD_PATH.finditer(line):
            found = True
            yield start + match.start(), start + match.end(), not says_both
        if not found and both:
            yield start + both[0], start + both[1], False
        start += len(line) + 1


def _class_and_flag(line: str) -> tuple[int, int] | None:
    """From the old class to the flag, or the other way round, where a line names both."""
    if OLD_CLASS not in line:
        return None
    classes = [m.span() for m in _CLASS.finditer(line)]
    flags = [m.span() for m in _FLAG.finditer(line)]
    if not classes or not flags:
        return None
    return (classes[0][0], flags[-1][1]) if classes[0] < flags[0] else (flags[0][0], classes[-1][1])


def unread(text: str, reason: str) -> Sequence[Found]:
    """A remark on a stretch of code that names the old flag and cannot be parsed."""
    hit = next(_sections(text), None) if FLAG in text else None
    if hit is None:
        return []
    start, end = hit
    place, why = Lines(text).place(start, end), f"this piece {reason}; move the flag in it by hand"
    spot = Spot(0, "refused", OLD_SECTION, place, f"{FLAG} on {OLD_SECTION}", why)
    return [Text(Case("text", "", remarks=(spot,)))]


def _sections(text: str) -> Iterator[tuple[int, int]]:
    """The old section where the flag follows on its line, or a colon follows."""
    for start, line in lines_of(text):
        flag = max((m.start() for m in _FLAG.finditer(line)), default=-1)
        for match in _SECTION.finditer(line):
            if match["colon"] or match.end() <= flag:
                yield start + match.start(), start + match.end()
