"""Outcomes as text. A renderer is a function from outcomes to pieces of text, so that one file at a time is in memory.

What machines read is in `formats`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from click import style

from fsdp_migrate.findings import Applicability, Finding, Severity
from fsdp_migrate.run import Outcome


class Renderer(Protocol):
    def __call__(self, outcomes: Iterable[Outcome], *, colour: bool) -> Iterator[str]: ...


# name -> "module:function", imported when it is used
FORMATS = {
    "text": "fsdp_migrate.render:text",
    "check": "fsdp_migrate.render:check",
    "written": "fsdp_migrate.render:written",
    "exempted": "fsdp_migrate.render:exempted",
}


def renderer(name: str) -> Renderer:
    module, _, attribute = FORMATS[name].partition(":")
    found: Renderer = getattr(import_module(module), attribute)
    return found


_SEVERITY_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


def neutral(text: str, *, keep: str = "") -> str:
    """Text that cannot command a terminal: what is not printable is spelled out as Python would, but for `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _spelled(c) for c in text)


def _spelled(character: str) -> str:
    if 0xDC80 <= ord(character) <= 0xDCFF:
        # A byte of a name that is not UTF-8.
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def error_line(path: str, message: str, *, colour: bool, verbose: bool) -> str:
    """One line for a path that failed; with `verbose` also the traceback that follows the first line of `message`."""
    first, *trace = message.splitlines() or [""]
    shown = _paint(neutral(path), colour, bold=True)
    line = f"{shown}: {_paint('error', colour, fg='red')}: {neutral(first)}\n"
    return line + "".join(f"    {neutral(more)}\n" for more in trace) if verbose else line


def text(outcomes: Iterable[Outcome], *, colour: bool) -> Iterator[str]:
    """Every finding as `path:line:column: CODE message`, and under it why it is not fixed."""
    for outcome in outcomes:
        yield from _findings(outcome, outcome.result.findings, colour)


def written(outcomes: Iterable[Outcome], *, colour: bool) -> Iterator[str]:
    """A line for each file that was written, and every finding that is left."""
    yield from _written(outcomes, "fixed", colour)


def exempted(outcomes: Iterable[Outcome], *, colour: bool) -> Iterator[str]:
    """The same for a run that wrote comments."""
    yield from _written(outcomes, "exempted", colour)


def _written(outcomes: Iterable[Outcome], verb: str, colour: bool) -> Iterator[str]:
    for outcome in outcomes:
        result = outcome.result
        if outcome.written:
            yield f"{_paint(neutral(result.path), colour, bold=True)}: {verb} {_codes(result.fixed)}\n"
        yield from _findings(outcome, result.remaining, colour)


def check(outcomes: Iterable[Outcome], *, colour: bool) -> Iterator[str]:
    """One line for each file that something is left to do in."""
    for outcome in outcomes:
        result = outcome.result
        by_hand = [finding for finding in result.remaining if finding.severity is not Severity.INFO]
        parts = []
        if result.changed:
            parts.append(f"--write fixes {_codes(result.fixed)}")
        if by_hand:
            parts.append(f"to look at: {_codes(by_hand)}")
        if parts:
            yield f"{_paint(neutral(result.path), colour, bold=True)}: {'; '.join(parts)}\n"


def _findings(outcome: Outcome, findings: Iterable[Finding], colour: bool) -> Iterator[str]:
    path = _paint(neutral(outcome.result.path), colour, bold=True)
    fixed = set(map(id, outcome.result.fixed))
    for finding in sorted(findings, key=lambda f: (f.place, f.code)):
        code = _paint(finding.code, colour, fg=_SEVERITY_COLOURS[finding.severity], bold=True)
        is_fixed = id(finding) in fixed
        mark = _paint(" [fixable]", colour, fg="cyan") if is_fixed else ""
        yield f"{path}:{finding.place.line}:{finding.place.column}: {code} {neutral(finding.message)}{mark}\n"
        if not is_fixed:
            for reason in reasons(outcome, finding):
                yield f"    {_paint(neutral(reason), colour, dim=True)}\n"


def reasons(outcome: Outcome, finding: Finding) -> Iterator[str]:
    """Why a finding is not fixed, a sentence each."""
    if outcome.frozen:
        yield f"not edited: {outcome.frozen}"
    if finding.why:
        yield f"not fixed: {finding.why}"
    elif is_hidden(finding) and not outcome.frozen:
        yield "not fixed: the fix may change what the code does; --unsafe-fixes applies it"


def is_hidden(finding: Finding) -> bool:
    """Whether --unsafe-fixes would fix this (remaining) finding."""
    return finding.fix is not None and finding.fix.applicability is Applicability.UNSAFE


def _codes(findings: Iterable[Finding]) -> str:
    counts = Counter(finding.code for finding in findings)
    return ", ".join(code if n == 1 else f"{code} ({n} times)" for code, n in sorted(counts.items()))


def _paint(
    words: str, colour: bool, *, fg: str | None = None, bold: bool | None = None, dim: bool | None = None
) -> str:
    return style(words, fg=fg, bold=bold, dim=dim) if colour else words


@dataclass(slots=True)
class Totals:
    """What a run came to. Feed it every outcome; it decides the exit code and writes the last lines."""

    looked_at: int = 0
    exempting: bool = False
    only_changes: bool = False  # a run with --diff: only what would change counts
    differs: bool = False  # --verify took something back
    target: str = ""  # the release that the working directory's settings name
    errors: int = 0
    changed: int = 0
    written: int = 0
    found: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)
    hidden: Counter[str] = field(default_factory=Counter)
    suppressed: int = 0
    left: int = 0  # findings that make a run exit 1
    files: int = 0

    def add(self, outcome: Outcome) -> None:
        result = outcome.result
        self.errors += bool(result.error)
        self.changed += result.changed
        self.written += outcome.written
        self.files += bool(result.findings)
        self.suppressed += len(result.suppressed)
        self.found.update(finding.code for finding in result.findings)
        self.fixed.update(finding.code for finding in result.fixed)
        for finding in result.remaining:
            self.left += finding.severity is not Severity.INFO
            if is_hidden(finding) and not outcome.frozen:
                self.hidden[finding.code] += 1

    def counted(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """The same outcomes, each added when it passes."""
        for outcome in outcomes:
            self.add(outcome)
            yield outcome

    def exit_code(self) -> int:
        """0 nothing left, 1 something left (with `only_changes`: a file would change), 2 something failed."""
        if self.errors:
            return 2
        pending = self.changed > self.written
        return int(pending or self.differs or (self.left > 0 and not self.only_changes))

    def summary(self) -> Iterator[str]:
        """The sentences that end a run."""
        looked_at = _count(self.looked_at, "file")
        found, fixed = self.found.total(), self.fixed.total()
        if not found:
            yield f"Nothing to migrate in {looked_at}."
        else:
            yield f"{_count(found, 'finding')} in {_count(self.files, 'file')} ({looked_at} looked at)."
        if self.written:
            verb = "exempted" if self.exempting else "fixed"
            yield f"{_count(fixed, 'finding')} {verb} in {_count(self.written, 'file')}."
        elif fixed and not self.exempting:
            them = "it" if fixed == 1 else "them"
            yield f"{fixed} can be fixed: see {them} with --diff, apply {them} with --write."
        if hidden := self.hidden.total():
            yield f"{hidden} more can be fixed with --unsafe-fixes, which may change what the code does."
        if self.suppressed:
            yield f"{_count(self.suppressed, 'finding')} exempted by comments."
        if self.errors:
            yield f"{_count(self.errors, 'file')} failed; the messages say what to do."

    def statistics(self) -> Iterator[str]:
        """A table with one row per rule."""
        fixed = "fixed" if self.written else "fixable"
        rows = [("code", "found", fixed, "unsafe", "by hand")]
        for code, found in sorted(self.found.items()):
            by_hand = found - self.fixed[code] - self.hidden[code]
            rows.append((code, str(found), str(self.fixed[code]), str(self.hidden[code]), str(by_hand)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for first, *numbers in rows:
            cells = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
            yield "  ".join([first.ljust(widths[0]), *cells]) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
