"""The values that flow from the rules to the renderers. Nothing here knows a rule, a language or a file system."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum


class Severity(Enum):
    """How much a finding matters. Errors and warnings make a run exit 1, information never does."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Applicability(Enum):
    """Whether a fix may be applied without a second look (`SAFE`) or only on request (`UNSAFE`)."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A range in a file. Lines and columns count from 1, columns in characters; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the characters ``start:end`` of the decoded file by ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that apply together or not at all. Findings of one scope share one fix."""

    edits: tuple[Edit, ...]
    applicability: Applicability = Applicability.SAFE


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to tell the user.

    `fix` is what a run may apply; without one, `why` says why not and what to do by hand.
    """

    code: str
    severity: Severity
    message: str
    place: Place
    fix: Fix | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one file. `error` means that it could not be looked at or not be changed, and says why.

    `suppressed` are findings that a comment in the file exempts: not among `findings`, and never fixed.
    """

    path: str
    source: bytes
    output: bytes
    findings: tuple[Finding, ...] = ()
    fixed: tuple[Finding, ...] = ()
    error: str = ""
    suppressed: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        return self.output != self.source

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """What is left to do in `output`: every finding that was not fixed."""
        done = set(map(id, self.fixed))
        return tuple(f for f in self.findings if id(f) not in done)

    def failed(self, error: str) -> Result:
        """The same file, left as it was."""
        return replace(self, output=self.source, fixed=(), error=error)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply non-overlapping edits.

    Raises:
        ValueError: two edits overlap, so that the result would depend on their order.
    """
    parts: list[str] = []
    position = 0
    for edit in sorted(set(edits)):
        if edit.start < position:
            raise ValueError(f"edits overlap at character {edit.start}")
        parts += (text[position : edit.start], edit.text)
        position = edit.end
    parts.append(text[position:])
    return "".join(parts)
