"""What two texts have in common, line by line, in the time that one look at them takes.

Edits are small, and the file around them may be large and monotonous, for which `difflib` takes the square of the time.
So it only gets the lines between two places where both sides are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import AnyStr, TypeAlias

# Whether it is equal, and from where to where on both sides.
Span: TypeAlias = tuple[bool, int, int, int, int]

_NEAR = 64  # lines from a change to where both sides are the same again; more is not expected of an edit
_FEW = 1 << 18  # pairs of lines that `difflib` may compare
_WINDOWS = (3, 1)  # lines that must be the same for both sides to go on alike; better ones first
_AHEAD = _NEAR + max(_WINDOWS)


def spans(a: Sequence[AnyStr], b: Sequence[AnyStr]) -> Iterator[Span]:
    """What is equal (as long as possible, never nothing), and what lies between."""
    i = j = 0
    for start_a, start_b, size in [*_joined(_blocks(a, b)), (len(a), len(b), 0)]:
        if i < start_a or j < start_b:
            yield False, i, start_a, j, start_b
        if size:
            yield True, start_a, start_a + size, start_b, start_b + size
        i, j = start_a + size, start_b + size


def _joined(blocks: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    done: list[tuple[int, int, int]] = []
    for i, j, size in blocks:
        if done and done[-1][0] + done[-1][2] == i and done[-1][1] + done[-1][2] == j:
            i, j, size = done[-1][0], done[-1][1], done.pop()[2] + size
        if size:
            done.append((i, j, size))
    return done


def _blocks(a: Sequence[AnyStr], b: Sequence[AnyStr]) -> Iterator[tuple[int, int, int]]:
    shorter = min(len(a), len(b))
    head = next((n for n in range(shorter) if a[n] != b[n]), shorter)
    tail = next((n for n in range(shorter - head) if a[-1 - n] != b[-1 - n]), shorter - head)
    i, j, end_a, end_b = head, head, len(a) - tail, len(b) - tail
    yield 0, 0, head
    while i < end_a and j < end_b:
        x, y = end_a - i, end_b - j
        if x * y > _FEW:
            x, y = _meeting(a[i : min(end_a, i + _AHEAD)], b[j : min(end_b, j + _AHEAD)]) or (x, y)
        if x * y <= _FEW:
            matcher = SequenceMatcher(None, a[i : i + x], b[j : j + y], autojunk=False)
            for block in matcher.get_matching_blocks():
                yield i + block.a, j + block.b, block.size
        i, j = i + x, j + y
        rest = min(end_a - i, end_b - j)
        size = next((n for n in range(rest) if a[i + n] != b[j + n]), rest)
        yield i, j, size
        i, j = i + size, j + size
    yield end_a, end_b, tail


def _meeting(a: Sequence[AnyStr], b: Sequence[AnyStr]) -> tuple[int, int] | None:
    """How many lines of both sides are to be left behind until they go on alike."""
    for window in _WINDOWS:
        for distance in range(1, _NEAR):
            for x in range(distance + 1):
                y = distance - x
                if x + window <= len(a) and a[x : x + window] == b[y : y + window]:
                    return x, y
    return None
