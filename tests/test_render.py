"""What a run says."""

from __future__ import annotations

import os

import pytest

from fsdp_migrate.findings import Applicability, Edit, Finding, Fix, Place, Result, Severity
from fsdp_migrate.render import FORMATS, Totals, error_line, neutral, renderer
from fsdp_migrate.run import Outcome

SOURCE, OUTPUT = b"old\n", b"new\n"
EDIT = (Edit(0, 3, "new"),)
MOVED = Finding("FSDP001", Severity.ERROR, "moved", Place(3, 5, 3, 9), Fix(EDIT))
AVERAGE = Finding("FSDP011", Severity.WARNING, "averages", Place(1, 1, 1, 2), Fix(EDIT, Applicability.UNSAFE))
STUCK = Finding("FSDP020", Severity.ERROR, "cannot move", Place(2, 1, 2, 2), why="the root is rebound: move it by hand")
GUARD = Finding("FSDP022", Severity.INFO, "version guard", Place(9, 1, 9, 2))

MIXED = Result("a.py", SOURCE, OUTPUT, (MOVED, AVERAGE, STUCK, GUARD), (MOVED,))
CLEAN = Result("a.py", SOURCE, SOURCE)
INFORMED = Result("a.py", SOURCE, SOURCE, (GUARD,))
FIXED = Result("a.py", SOURCE, OUTPUT, (MOVED,), (MOVED,))
LEFT = Result("a.py", SOURCE, SOURCE, (STUCK,))
HIDDEN = Result("a.py", SOURCE, SOURCE, (AVERAGE,))
FAILED = Result("a.py", b"", b"", error="cannot be parsed: line 3")


def rendered(kind: str, *outcomes: Outcome, colour: bool = False) -> str:
    return "".join(renderer(kind)(outcomes, colour=colour))


def test_text_has_every_finding_in_order_and_says_why_it_is_not_fixed() -> None:
    assert rendered("text", Outcome(MIXED)) == (
        "a.py:1:1: FSDP011 averages\n"
        "    not fixed: the fix may change what the code does; --unsafe-fixes applies it\n"
        "a.py:2:1: FSDP020 cannot move\n"
        "    not fixed: the root is rebound: move it by hand\n"
        "a.py:3:5: FSDP001 moved [fixable]\n"
        "a.py:9:1: FSDP022 version guard\n"
    )


def test_text_of_a_frozen_file_says_why_it_is_not_edited() -> None:
    result = Result("CHANGELOG.md", SOURCE, SOURCE, (MOVED,))
    assert rendered("text", Outcome(result, frozen="it is history")) == (
        "CHANGELOG.md:3:5: FSDP001 moved\n    not edited: it is history\n"
    )


def test_written_names_the_file_and_its_rules_and_then_what_is_left() -> None:
    twice = Result("a.py", SOURCE, OUTPUT, (MOVED, second := Finding(*_fields(MOVED)), STUCK), (MOVED, second))
    assert rendered("written", Outcome(twice, written=True)) == (
        "a.py: fixed FSDP001 (2 times)\n"
        "a.py:2:1: FSDP020 cannot move\n"
        "    not fixed: the root is rebound: move it by hand\n"
    )


def _fields(finding: Finding) -> tuple[str, Severity, str, Place, Fix | None, str]:
    return finding.code, finding.severity, finding.message, finding.place, finding.fix, finding.why


def test_check_has_one_line_for_each_file_with_something_to_do() -> None:
    assert rendered("check", Outcome(MIXED), Outcome(INFORMED), Outcome(CLEAN)) == (
        "a.py: --write fixes FSDP001; to look at: FSDP011, FSDP020\n"
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_in_a_name_or_a_message_commands_the_terminal(kind: str) -> None:
    evil = "\x1b[2J\n\r\x9b\u202e\u2028" + os.fsdecode(b"\xff")
    finding = Finding("FSDP020", Severity.ERROR, evil, Place(1, 1, 1, 2), why=evil)
    result = Result(evil, SOURCE, OUTPUT, (finding, MOVED), (MOVED,))
    text = rendered(kind, Outcome(result, frozen=evil, written=True))
    assert all(line.isprintable() for line in text.splitlines())
    assert "\\x1b[2J\\n\\r\\x9b\\u202e\\u2028\\xff" in text
    text.encode("utf-8")


def test_colours_are_only_ours() -> None:
    result = Result("a\x1b.py", SOURCE, SOURCE, (STUCK,))
    text = rendered("text", Outcome(result), colour=True)
    assert "\x1b[1ma\\x1b.py\x1b[0m:2:1: \x1b[31m\x1b[1mFSDP020\x1b[0m" in text


@pytest.mark.parametrize("text, shown", [("naïve 名前", "naïve 名前"), ("a\tb", "a\\tb"), ("\x7f", "\\x7f"), ("", "")])
def test_neutral(text: str, shown: str) -> None:
    assert neutral(text) == shown
    assert neutral("a\tb", keep="\t") == "a\tb"


def test_an_error_is_one_line_and_its_traceback_needs_verbose() -> None:
    message = "internal error\nTraceback:\n  boom"
    assert error_line("a.py", message, colour=False, verbose=False) == "a.py: error: internal error\n"
    assert error_line("a.py", message, colour=False, verbose=True).endswith("    Traceback:\n      boom\n")


@pytest.mark.parametrize(
    "outcome, code, code_of_diff",
    [
        (Outcome(CLEAN), 0, 0),
        (Outcome(INFORMED), 0, 0),
        (Outcome(FIXED), 1, 1),
        (Outcome(FIXED, written=True), 0, 0),
        (Outcome(LEFT), 1, 0),
        (Outcome(HIDDEN), 1, 0),
        (Outcome(MIXED), 1, 1),
        (Outcome(MIXED, written=True), 1, 0),
        (Outcome(FAILED), 2, 2),
        (Outcome(FIXED.failed("not written: it changed"), written=False), 2, 2),
    ],
)
def test_exit_codes(outcome: Outcome, code: int, code_of_diff: int) -> None:
    codes = []
    for only_changes in (False, True):
        totals = Totals(only_changes=only_changes)
        totals.add(outcome)
        codes.append(totals.exit_code())
    assert codes == [code, code_of_diff]


def test_an_error_outweighs_everything() -> None:
    for only_changes in (False, True):
        totals = Totals(only_changes=only_changes)
        assert len(list(totals.counted([Outcome(FAILED), Outcome(FIXED)]))) == 2
        assert totals.exit_code() == 2


def summary(*outcomes: Outcome) -> str:
    totals = Totals(looked_at=3)
    for outcome in outcomes:
        totals.add(outcome)
    return "\n".join(totals.summary())


def test_summary() -> None:
    assert summary() == "Nothing to migrate in 3 files."
    assert summary(Outcome(MIXED)) == (
        "4 findings in 1 file (3 files looked at).\n"
        "1 can be fixed: see it with --diff, apply it with --write.\n"
        "1 more can be fixed with --unsafe-fixes, which may change what the code does."
    )
    assert (
        summary(Outcome(FIXED, written=True)) == "1 finding in 1 file (3 files looked at).\n1 finding fixed in 1 file."
    )
    assert summary(Outcome(FAILED)) == "Nothing to migrate in 3 files.\n1 file failed; the messages say what to do."


def test_statistics() -> None:
    totals = Totals()
    for outcome in (Outcome(MIXED), Outcome(FIXED)):
        totals.add(outcome)
    assert "".join(totals.statistics()) == (
        "code     found  fixable  unsafe  by hand\n"
        "FSDP001      2        2       0        0\n"
        "FSDP011      1        0       1        0\n"
        "FSDP020      1        0       0        1\n"
        "FSDP022      1        0       0        1\n"
    )
