"""What a second stage found in a text that the first has edited, told in terms of the text before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fsdp_migrate.findings import Edit, Finding, apply_edits
from fsdp_migrate.lines import Lines


def as_before(finding: Finding, text: str, edits: Sequence[Edit]) -> Finding:
    """The finding at its place in `text`. Its fix is left out if it touches what `edits` put there."""
    inner, outer = Lines(apply_edits(text, edits)), Lines(text)
    start, end = inner.offsets(finding.place)
    place = outer.place(_offset(start, edits)[0], _offset(end, edits)[0])
    if finding.fix is None:
        return replace(finding, place=place)
    moved = []
    for edit in finding.fix.edits:
        (first, inside), (last, also) = _offset(edit.start, edits), _offset(edit.end, edits)
        if inside or also or any(first < e.end and e.start < last for e in edits):
            return replace(finding, place=place, fix=None, why="it is made after the renaming on the same place")
        moved.append(Edit(first, last, edit.text))
    return replace(finding, place=place, fix=replace(finding.fix, edits=tuple(moved)))


def _offset(position: int, edits: Sequence[Edit]) -> tuple[int, bool]:
    """The character before the edits, and whether the position is inside of what one of them wrote."""
    shift = 0
    for edit in sorted(edits):
        start = edit.start + shift
        if position < start or (position == start and edit.start < edit.end):
            break
        if position < start + len(edit.text):
            return edit.start, True
        shift += len(edit.text) - (edit.end - edit.start)
    return position - shift, False
