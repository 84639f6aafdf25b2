"""Write the comments that exempt what a run reports: behind the line where its syntax allows, else above the statement.

Every comment is tried: it must be a comment to the language's parser, at that very place, and change nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fsdp_migrate.findings import Edit, Finding, apply_edits
from fsdp_migrate.languages import UnreadableError, commented
from fsdp_migrate.lines import Lines
from fsdp_migrate.segments import Segment, Whole, is_embedded
from fsdp_migrate.suppress import LINE, Ignore, covered, kind_of_name, read

_NOWHERE = "no comment can be written here; use per-file-ignores in the settings"
_NO_JSON = "JSON has no comments; use per-file-ignores in the settings"


@dataclass(frozen=True)
class Comments:
    """The edits of a file that add comments, and for each finding, by position, why it gets none (empty: it does)."""

    edits: tuple[Edit, ...]
    reasons: tuple[str, ...]


def comments_for(text: str, path: str, segments: Sequence[Segment], findings: Sequence[Finding]) -> Comments:
    """Comments that exempt these findings of a file."""
    lines = Lines(text)
    if kind_of_name(path) in ("markdown", "rest"):
        # Above a block of which the language has no comments, prose has.
        segments = [Whole("text", text), *(s for s in segments if s.language != "text" or not s.whole)]
    writers = [_Writer(segment, path) for segment in segments]
    wanted: dict[tuple[int, _Spot], list[str]] = {}
    reasons: list[str] = []
    for finding in findings:
        place = _place(writers, lines.offsets(finding.place)[0])
        if place is not None:
            wanted.setdefault(place, []).append(finding.code)
        reasons.append("" if place is not None else _NO_JSON if kind_of_name(path) == "json" else _NOWHERE)
    edits = [segments[n].edit(writers[n].edit(spot, codes)) for (n, spot), codes in wanted.items()]
    return Comments(tuple(edits), tuple(reasons))


def _place(writers: Sequence[_Writer], start: int) -> tuple[int, _Spot] | None:
    """The segment and the spot in it for a comment about what stands at a character of the file: the innermost."""
    for number in reversed(range(len(writers))):
        if is_embedded(writers[number].segment):
            continue  # a comment in a string or a heredoc would be a part of it for whoever gets it
        position = _inside(writers[number].segment, start)
        spot = writers[number].spot(position) if position is not None else None
        if spot is not None:
            return number, spot
    return None


def _inside(segment: Segment, position: int) -> int | None:
    """The character of a segment that stands at a position of the file, if it has one there."""
    found = bisect_left(range(len(segment.text)), position, key=segment.offset)
    return found if found < len(segment.text) and segment.offset(found) == position else None


@dataclass(frozen=True)
class _Spot:
    """Where codes go: into the comment number `merge`, else into a new one at `start`, `before` and `after` it."""

    start: int
    end: int
    before: str = ""
    after: str = ""
    merge: int = -1


class _Writer:
    """Writes comments into one segment."""

    def __init__(self, segment: Segment, path: str) -> None:
        self.segment, self.text = segment, segment.text
        self.kind = kind_of_name(path)
        self.language = commented(segment.language)
        self.opens, self.closes = _marks(segment.language, self.kind, PurePath(path).suffix)
        self.is_jsonc = PurePath(path).suffix == ".jsonc"
        self.is_prose = segment.language == "text"
        self.feed = "\r\n" if "\r\n" in self.text else "\n"
        self.ignores: list[Ignore] = read(segment, path)

    def edit(self, spot: _Spot, codes: Sequence[str]) -> Edit:
        if spot.merge >= 0:
            old = self.ignores[spot.merge]
            return Edit(spot.start, spot.end, ", ".join(dict.fromkeys((*old.prefixes, *sorted(codes)))))
        comment = f"{self.opens} fsdp-migrate: {LINE}[{', '.join(sorted(set(codes)))}]{self.closes}"
        return Edit(spot.start, spot.end, spot.before + comment + spot.after)

    def spot(self, position: int) -> _Spot | None:
        """Where a comment about what stands at `position` goes; None if nowhere."""
        if self.segment.language == "json" and not self.is_jsonc:
            return None
        for spot in self._candidates(position):
            if spot.merge >= 0 or self._holds(spot, position):
                return spot
        return None

    def _candidates(self, position: int) -> Iterator[_Spot]:
        text = self.text
        line = text.rfind("\n", 0, position) + 1
        stop = text.find("\n", position)
        content = text[line : len(text) if stop < 0 else stop]
        end = line + len(content.rstrip())
        if not self.is_prose:
            yield from self._merged(line, end)
            if not content.rstrip().endswith("\\"):
                yield _Spot(end, line + len(content.removesuffix("\r")), "  ")
        around = [
            item
            for item in self.language.items(text, [text.count("\n", 0, position) + 1])
            if item.start <= position < item.end
        ]
        for item in sorted(around, key=lambda item: item.end - item.start):
            begin = text.rfind("\n", 0, item.start) + 1
            before = text[begin : item.start]
            indent = before[: len(before) - len(before.lstrip())]
            if before.strip(" \t-") or text[:begin].rstrip("\r\n").endswith("\\"):
                continue
            above = text.rfind("\n", 0, max(0, begin - 1)) + 1
            if not text[above:begin].lstrip().startswith((self.opens, "{/*")):
                more = self.feed if self.kind == "rest" and self.is_prose else ""
                yield _Spot(begin, begin, indent, self.feed + more)
            else:
                yield from self._merged(above, begin)
                yield _Spot(begin, begin, indent, self.feed)

    def _merged(self, start: int, end: int) -> Iterator[_Spot]:
        for number, ignore in enumerate(self.ignores):
            if ignore.word == LINE and ignore.codes is not None and start <= ignore.start <= end:
                yield _Spot(*ignore.codes, merge=number)

    def _holds(self, spot: _Spot, position: int) -> bool:
        edit = self.edit(spot, ["FSDP000"])
        new = apply_edits(self.text, [edit])
        at = edit.start + len(spot.before)
        moved = position + (len(edit.text) - edit.end + edit.start if edit.start <= position else 0)
        try:
            comments = self.language.comments(new, self.kind)
            comment = next((span for span in comments if span[0] <= at < span[1]), None)
            if comment is None or self.language.meaning(new) != self.language.meaning(self.text):
                return False
            lines = [new.count("\n", 0, p) + 1 for p in (comment[0], moved)]
            first, last = covered(new, comment, comments, self.language.items(new, lines))
        except (UnreadableError, ValueError):
            return False
        return first <= moved < last


def _marks(language: str, kind: str, suffix: str) -> tuple[str, str]:
    if language == "json":
        return "//", ""
    if language != "text":
        return "#", ""
    if kind == "rest":
        return "..", ""
    return ("{/*", " */}") if suffix == ".mdx" else ("<!--", " -->")
