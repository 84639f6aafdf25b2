"""One file: bytes in, findings and bytes out. Knows languages by their analysers and rules by the registry only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fsdp_migrate.cases import MOVE, Draft
from fsdp_migrate.findings import Applicability, Edit, Finding, Fix, Place, Result, apply_edits
from fsdp_migrate.languages import Asked, Found, UnreadableError, reader
from fsdp_migrate.lines import Lines
from fsdp_migrate.python.project import Project
from fsdp_migrate.registry import rules
from fsdp_migrate.segments import Container, Document, Segment, container, unfold
from fsdp_migrate.upstream import FLAG

_BUG = "this is a bug in fsdp-migrate: please report it with this file"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run asks for: enabled codes, unsafe fixes, the Bridge release, and line ranges (empty: all lines)."""

    codes: frozenset[str]
    unsafe: bool = False
    target: str = ""
    lines: tuple[tuple[int, int], ...] = ()


Drafted = tuple[str, Draft]


def migrate(source: bytes, path: str, choice: Choice, project: Project) -> Result:
    """Look at one file and apply what the choice allows. Never raises for what is in the file."""
    unchanged = Result(path, source, source)
    kind = container(path, source)
    if kind is None:
        return unchanged.failed("is of no kind that this tool knows; nothing was changed")
    try:
        document = kind.decode(source)
        findings = _findings(kind, document, path, choice, project)
    except UnreadableError as error:
        return unchanged.failed(f"{error}; nothing was changed")
    except RecursionError:
        return unchanged.failed("is nested too deeply to be looked at; nothing was changed")
    fixed = [f for f in findings if f.fix is not None and _wanted(f.fix, choice)]
    result = Result(path, source, source, tuple(findings))
    if not fixed:
        return result
    try:
        new = document.encode(apply_edits(document.text, (e for f in fixed if f.fix for e in f.fix.edits)))
    except (ValueError, UnicodeEncodeError) as error:
        return result.failed(f"its fixes cannot be applied together ({error}); {_BUG}")
    result = Result(path, source, new, tuple(findings), tuple(fixed))
    problem = _recheck(kind, result, choice, project)
    return result.failed(f"{problem}; nothing was changed; {_BUG}") if problem else result


def _wanted(fix: Fix, choice: Choice) -> bool:
    return bool(fix.edits) and (fix.applicability is Applicability.SAFE or choice.unsafe)


def _findings(kind: Container, document: Document, path: str, choice: Choice, project: Project) -> list[Finding]:
    findings: list[Finding] = []
    asked = Asked(path, project, choice.target, document.encoding)
    lines = Lines(document.text)
    for segment in unfold(kind.split(document, path)):
        for found in _read(segment, asked):
            case = replace(found.case, companions="none") if segment.quotes else found.case
            drafts = [(rule.code, draft) for rule in rules() for draft in rule.check(case)]
            findings += _with_fixes(_Sited(found, segment, Lines(segment.text), lines), drafts, choice)
    return sorted(findings, key=lambda f: (f.place, f.code))


def _read(segment: Segment, asked: Asked) -> Sequence[Found]:
    try:
        return reader(segment.language)(segment.text, asked)
    except UnreadableError as error:
        if segment.whole:
            raise
        # A piece of a document that is no whole program must not hide the other pieces.
        from fsdp_migrate.prose import unread

        return unread(segment.text, str(error))


@dataclass(frozen=True, slots=True)
class _Sited:
    """What was found in a segment, seen from the file."""

    found: Found
    segment: Segment
    inner: Lines
    outer: Lines

    def place(self, place: Place) -> Place:
        start, end = self.inner.offsets(place)
        return self.outer.place(self.segment.offset(start), self.segment.offset(end))

    def sited(self, draft: Draft) -> Draft:
        label = self.segment.label_at(self.inner.offsets(draft.place)[0])
        message = f"{label}: {draft.message}" if label else draft.message
        return replace(draft, place=self.place(draft.place), message=message)

    def edits(self, parts: frozenset[str]) -> tuple[Edit, ...]:
        return tuple(self.segment.edit(edit) for edit in self.found.edits(parts))


def _with_fixes(case: _Sited, drafts: Sequence[Drafted], choice: Choice) -> list[Finding]:
    drafts = [(code, case.sited(draft)) for code, draft in drafts]
    chosen = [(code, d) for code, d in drafts if code in choice.codes and _in_lines(d, choice.lines)]
    # A move is one piece: if one of its findings is not asked for, none of it is applied.
    blocked = {d.part for code, d in drafts if d.part == MOVE and (code, d) not in chosen and code != "FSDP021"}
    parts = frozenset(d.part for _, d in chosen if d.part and (d.safe or choice.unsafe)) - blocked
    fix, problem = _fix(case, parts, Applicability.SAFE)
    found: list[Finding] = []
    for code, draft in chosen:
        mine: Fix | None = None
        why = draft.why
        if draft.part in parts and fix is not None:
            mine, why = fix, ""
        elif draft.part in blocked:
            why = "the move belongs together with findings that are not selected; select FSDP0 to apply it"
        elif draft.part and not draft.safe:
            mine, _ = _fix(case, parts | {draft.part}, Applicability.UNSAFE)
        elif draft.part and problem:
            why = problem
        found.append(Finding(code, draft.severity, draft.message, draft.place, mine, why))
    return found


def _in_lines(draft: Draft, lines: tuple[tuple[int, int], ...]) -> bool:
    place = draft.place
    return not lines or any(place.line <= last and place.end_line >= first for first, last in lines)


def _fix(case: _Sited, parts: frozenset[str], applicability: Applicability) -> tuple[Fix | None, str]:
    """The edits for these parts of a case, or why there are none."""
    if not parts:
        return None, ""
    try:
        edits = case.edits(parts)
    except Exception as error:  # a fault in one scope must not lose the findings of a file
        return None, f"the edit could not be made ({type(error).__name__}: {error}); change it by hand; {_BUG}"
    return Fix(edits, applicability), ""


# ── The tool checks its own work ────────────────────────────────────────────────────────────────────────────────────


def _recheck(kind: Container, result: Result, choice: Choice, project: Project) -> str:
    """Why a result must not be written, or an empty string."""
    try:
        document = kind.decode(result.output)
        with project.after_the_move():
            again = _findings(kind, document, result.path, choice, project)
    except UnreadableError as error:
        return f"the rewritten file {error}"
    if choice.lines:
        return ""
    pending = [f for f in again if f.fix is not None and _wanted(f.fix, choice)]
    if pending:
        return f"a second run would edit again ({pending[0].code} on line {pending[0].place.line})"
    out_of_scope = FLAG not in document.text
    if _kinds(again) != _kinds(result.remaining) and not out_of_scope:
        return f"a second run would report something else ({_difference(again, result.remaining)})"
    return ""


def _kinds(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return sorted((f.code, f.severity.value) for f in findings)


def _difference(again: Iterable[Finding], before: Iterable[Finding]) -> str:
    then, now = _kinds(before), _kinds(again)
    extra = [code for code, _ in now if now.count((code, _)) > then.count((code, _))]
    gone = [code for code, _ in then if then.count((code, _)) > now.count((code, _))]
    return f"new: {', '.join(extra) or 'none'}, gone: {', '.join(gone) or 'none'}"
