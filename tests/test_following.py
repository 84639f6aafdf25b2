"""Findings that are left keep to their statement when a file is written."""

from __future__ import annotations

import pytest

from fsdp_migrate.findings import Finding, Place, Result, Severity
from fsdp_migrate.following import followed

OLD = b"one\ntwo\nthree\nfour\n"


def finding(line: int, column: int = 2, end_line: int = 0) -> Finding:
    return Finding("FSDP020", Severity.ERROR, "", Place(line, column, end_line or line, column + 1))


@pytest.mark.parametrize(
    ("new", "line", "place"),
    [
        (b"one\ntwo\nthree\nfour, longer\n", 2, Place(2, 2, 2, 3)),
        (b"zero\none\ntwo\nthree\nfour\n", 1, Place(2, 2, 2, 3)),
        (b"one\nthree\nfour\n", 4, Place(3, 2, 3, 3)),
        (b"one\n  2\nand more\nthree\nfour\n", 2, Place(2, 3, 2, 4)),
        (b"one\n  2\nand more\nthree\nfour\n", 3, Place(4, 2, 4, 3)),
        (b"one\nthree\nfour\n", 2, Place(2, 1, 2, 6)),
        (b"one\ntwo\nthree\n", 4, Place(3, 1, 3, 6)),
        (b"", 3, Place(1, 1, 1, 1)),
    ],
    ids=["above", "below", "gone_above", "changed", "grown_above", "gone", "last_gone", "nothing_left"],
)
def test_a_line_is_followed(new: bytes, line: int, place: Place) -> None:
    [found] = followed(Result("a.py", OLD, new, (finding(line),))).findings
    assert found.place == place


def test_a_place_of_several_lines_moves_as_a_whole() -> None:
    [found] = followed(Result("a.py", OLD, b"zero\n" + OLD, (finding(2, end_line=4),))).findings
    assert found.place == Place(3, 2, 5, 3)


def test_what_is_fixed_and_what_is_settled_stays() -> None:
    fixed, settled, left = finding(2), finding(3), finding(4)
    result = Result("a.py", OLD, b"zero\n" + OLD, (fixed, settled, left), (fixed,))
    found = followed(result, {id(settled)})
    assert found.findings[0] is fixed
    assert found.findings[1] is settled
    assert found.remaining == (settled, found.findings[2])
    assert found.findings[2].place.line == 5
