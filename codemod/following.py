"""Where a finding is once its file is written: edits above it move it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from dataclasses import replace

from fsdp_migrate.alike import spans
from fsdp_migrate.findings import Finding, Place, Result


def followed(result: Result, settled: Container[int] = ()) -> Result:
    """The result with everything that is left placed in `output`; what was fixed stays where it was in `source`.

    `settled` are the ids of findings that are about `output` already. Their fixes are for `source` alone.
    """
    done = set(map(id, result.fixed))
    left = [f for f in result.findings if id(f) not in done and id(f) not in settled]
    if not (result.changed and left):
        return result
    lines = _Lines(result.source, result.output)
    moved = {id(finding): _moved(finding, lines) for finding in left}
    return replace(result, findings=tuple(moved.get(id(f), f) for f in result.findings))


def _moved(finding: Finding, lines: _Lines) -> Finding:
    place = finding.place
    first, is_first_kept = lines.after(place.line)
    last, is_last_kept = lines.after(place.end_line)
    if is_first_kept and is_last_kept:
        return replace(finding, place=replace(place, line=first, end_line=last))
    return replace(finding, place=lines.whole(first))


class _Lines:
    """The lines of two versions of a file, counted from 1."""

    def __init__(self, old: bytes, new: bytes) -> None:
        self._new = new.split(b"\n")
        self._spans = list(spans(old.split(b"\n"), self._new))
        self._starts = [start for _, start, *_ in self._spans]

    def after(self, line: int) -> tuple[int, bool]:
        """The line of the new version, and whether it is the same; if not, it is the one in its place."""
        # Of an empty span and the one that follows, the last begins where the line is.
        is_kept, start, _, new_start, new_end = self._spans[bisect_right(self._starts, line - 1) - 1]
        new = new_start + line - start
        if is_kept:
            return new, True
        count = len(self._new) - (self._new[-1] == b"")
        return max(1, min(new, max(new_end, new_start + 1), count)), False

    def whole(self, line: int) -> Place:
        text = self._new[line - 1].decode("utf-8", "replace")
        return Place(line, len(text) - len(text.lstrip()) + 1, line, len(text.rstrip()) + 1)
