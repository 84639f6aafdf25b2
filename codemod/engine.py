"""One file: bytes in, findings and bytes out. Knows languages by their analysers and rules by the registry only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING

from fsdp_migrate.cases import MOVE, Case, Draft
from fsdp_migrate.findings import Applicability, Edit, Finding, Fix, Place, Result, Severity, apply_edits
from fsdp_migrate.languages import Asked, Found, UnreadableError, reader
from fsdp_migrate.lines import Lines
from fsdp_migrate.naming import Names, named, unread
from fsdp_migrate.prefilter import TOOL, may_select_neighbours
from fsdp_migrate.python.project import Project
from fsdp_migrate.registry import codes, rules
from fsdp_migrate.segments import Container, Document, Segment, Whole, container, unfold
from fsdp_migrate.upstream import FLAG

if TYPE_CHECKING:
    from fsdp_migrate.suppress import Ignore, Remarks

_BUG = "this is a bug in fsdp-migrate: please report it with this file"
_COMMENTS = (
    "a `fsdp-migrate: ignore` comment may stand where the fixes give it another meaning: put it above the statement "
    "that stays, use ignore-file, or exempt the whole move"
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run asks for: enabled codes, unsafe fixes, the Bridge release, and line ranges (empty: all lines).

    `add_ignores`: write comments that exempt what is found, instead of fixing it.
    """

    codes: frozenset[str]
    unsafe: bool = False
    target: str = ""
    lines: tuple[tuple[int, int], ...] = ()
    add_ignores: bool = False
    names: Names = field(default_factory=Names)


Drafted = tuple[str, Draft]


def migrate(source: bytes, path: str, choice: Choice, project: Project) -> Result:
    """Look at one file and apply what the choice allows. Never raises for what is in the file."""
    unchanged = Result(path, source, source)
    kind = container(path, source)
    if kind is None:
        return unchanged.failed("is of no kind that this tool knows; nothing was changed")
    try:
        document = kind.decode(source)
        look = _look(kind, document, path, choice, project)
    except UnreadableError as error:
        return unchanged.failed(f"{error}; nothing was changed")
    except RecursionError:
        return unchanged.failed("is nested too deeply to be looked at: migrate it by hand; nothing was changed")
    result = Result(path, source, source, look.all, suppressed=look.suppressed)
    if (renames := _pending(look.neighbours, choice)) and not choice.add_ignores:
        return _after_renames(document, result, renames, look, choice, project)
    if choice.add_ignores:
        return _exempted(kind, document, replace(result, findings=look.all), look, choice, project)
    fixed = _pending(look.findings, choice)
    # Comments that exempt nothing go first: on a line that a move takes away they would come to stand above another.
    repairs = _pending(look.comments, choice) if not (fixed and choice.lines) else []
    if not fixed and not repairs:
        return result
    try:
        result = replace(result, fixed=(*fixed, *repairs))
        if repairs:
            result = replace(result, output=_applied(document, repairs))
            document = kind.decode(result.output)
            fixed = fixed and _pending(_look(kind, document, path, choice, project).findings, choice)
        if fixed:
            result = replace(result, output=_applied(document, fixed))
        with project.after_the_move():
            again = _again(kind, result, choice, project)
            if fixed and not choice.lines and (repairs := _pending(again.comments, choice)):
                # What was about the move itself goes with it.
                result = replace(result, output=_applied(kind.decode(result.output), repairs))
                again = _again(kind, result, choice, project)
        problem = _problem(result, again, choice)
    except UnreadableError as error:
        problem = f"the rewritten file {error}"
    except (ValueError, UnicodeEncodeError) as error:
        return result.failed(f"its fixes cannot be applied together ({error}); {_BUG}")
    if not problem:
        return result
    return result.failed(f"{problem}; nothing was changed; {_COMMENTS if look.suppressed else _BUG}")


def _after_renames(
    document: Document, result: Result, renames: list[Finding], look: _Look, choice: Choice, project: Project
) -> Result:
    """Older names first: only behind them the flag and its companions are all in sight."""
    from fsdp_migrate.stages import as_before

    edits = tuple(dict.fromkeys(e for f in renames if f.fix for e in f.fix.edits))
    try:
        renamed = document.encode(apply_edits(document.text, edits))
    except (ValueError, UnicodeEncodeError) as error:
        return result.failed(f"its fixes cannot be applied together ({error}); {_BUG}")
    then = migrate(renamed, result.path, choice, project)
    if then.error:
        return result.failed(then.error)
    done = set(map(id, then.fixed))
    findings = [(f, as_before(f, document.text, edits)) for f in then.findings]
    fixed = (*renames, *(g for f, g in findings if id(f) in done))
    every = sorted((*renames, *(g for _, g in findings)), key=lambda f: (f.place, f.code))
    return replace(result, output=then.output, findings=tuple(every), fixed=fixed, suppressed=then.suppressed)


def _exempted(
    kind: Container, document: Document, result: Result, look: _Look, choice: Choice, project: Project
) -> Result:
    """Comments that exempt every error and warning of a look."""
    from fsdp_migrate.add_ignores import comments_for

    counted = [f for f in (*look.findings, *look.neighbours) if f.severity is not Severity.INFO]
    if not counted:
        return result
    segments = list(_segments(kind, document, result.path, choice))
    comments = comments_for(document.text, result.path, segments, counted)
    told = {id(f): replace(f, why=why) for f, why in zip(counted, comments.reasons, strict=True)}
    findings = tuple(told.get(id(f), f) for f in result.findings)
    exempted = tuple(told[id(f)] for f in counted if not told[id(f)].why)
    result = replace(result, findings=findings)
    if not exempted:
        return result
    try:
        result = replace(result, output=document.encode(apply_edits(document.text, comments.edits)), fixed=exempted)
        again = _again(kind, result, replace(choice, lines=()), project)
    except (UnreadableError, ValueError) as error:
        return result.failed(f"the comments cannot be written ({error}); nothing was changed; {_BUG}")
    if not choice.lines and _kinds(again.all) != _kinds(result.remaining):
        what = _difference(again.all, result.remaining)
        return result.failed(f"the comments do not exempt what they should ({what}); nothing was changed; {_BUG}")
    return result


def _pending(findings: Iterable[Finding], choice: Choice) -> list[Finding]:
    return [f for f in findings if f.fix is not None and _wanted(f.fix, choice)]


def _wanted(fix: Fix, choice: Choice) -> bool:
    return bool(fix.edits) and (fix.applicability is Applicability.SAFE or choice.unsafe)


def _applied(document: Document, fixed: Iterable[Finding]) -> bytes:
    return document.encode(apply_edits(document.text, (e for f in fixed if f.fix for e in f.fix.edits)))


@dataclass(slots=True)
class _Look:
    """What one look at a file gave: findings about the code, those about comments that exempt, and the exempted."""

    findings: list[Finding]
    neighbours: list[Finding]
    comments: list[Finding]
    suppressed: tuple[Finding, ...]

    @property
    def all(self) -> tuple[Finding, ...]:
        return tuple(sorted((*self.findings, *self.neighbours, *self.comments), key=lambda f: (f.place, f.code)))


def _look(kind: Container, document: Document, path: str, choice: Choice, project: Project) -> _Look:
    findings: list[Finding] = []
    neighbours: list[Finding] = []
    has_neighbours = may_select_neighbours(choice.codes)
    asked = Asked(path, project, choice.target, document.encoding)
    lines = Lines(document.text)
    segments = list(_segments(kind, document, path, choice))
    kept = _Kept(document.text, path, segments)
    for segment in segments:
        told = unread(segment, choice.names)
        asked_for = []
        for found in _read(segment, asked) if told is None else told:
            case = replace(found.case, companions="none", config=None) if segment.quotes else found.case
            sited = _Sited(found, segment, Lines(segment.text), lines)
            asked_for.append(_chosen(sited, _drafts(case), choice, kept))
        held = _held(asked_for)
        findings += [f for one in asked_for for f in _with_fixes(one, choice, held)]
        if has_neighbours:
            neighbours += _neighbours(segment, asked, choice, kept, lines)
    comments: list[Finding] = []
    if remarks := kept.remarks(choice, lines):
        whole = Whole("text", document.text)
        asked_about = _chosen(_Sited(remarks, whole, lines, lines), _drafts(remarks.case), choice, kept)
        comments = _with_fixes(asked_about, choice)
    # Recipes that share what a module does at import share what is wrong with it.
    return _Look(list(dict.fromkeys(findings)), neighbours, comments, tuple(kept.suppressed))


def _neighbours(segment: Segment, asked: Asked, choice: Choice, kept: _Kept, lines: Lines) -> Iterator[Finding]:
    from fsdp_migrate.neighbours.reading import read

    for found in read(segment, asked):
        sited = _Sited(found, segment, Lines(segment.text), lines)
        yield from _with_fixes(_chosen(sited, _drafts(found.case), choice, kept), choice)


def _segments(kind: Container, document: Document, path: str, choice: Choice) -> Iterator[Segment]:
    return unfold(named(kind.split(document, path), choice.names))


def _drafts(case: Case) -> list[Drafted]:
    return [(rule.code, draft) for rule in rules() for draft in rule.check(case)]


class _Kept:
    """The comments of a file that exempt findings, and what they exempted so far."""

    def __init__(self, text: str, path: str, segments: Sequence[Segment]) -> None:
        self.suppressed: list[Finding] = []
        self.used: set[tuple[int, str]] = set()
        self.ignores: list[Ignore] = []
        if TOOL in text:
            from fsdp_migrate.suppress import read as ignores

            found = [ignore for segment in segments for ignore in ignores(segment, path)]
            # A mapping may be a segment by itself and a part of another.
            self.ignores = list({ignore.segment.offset(ignore.start): ignore for ignore in reversed(found)}.values())

    def exempts(self, code: str, draft: Draft, lines: Lines, *, counts: bool) -> bool:
        """Whether a comment exempts a finding. It is remembered; `counts`: the run asked for the finding."""
        if not self.ignores:
            return False
        span = lines.offsets(draft.place)
        hits = [(n, ignore) for n, ignore in enumerate(self.ignores) if ignore.covers_finding(code, *span)]
        self.used |= {(n, code) for n, _ in hits}
        if hits and counts:
            why = f"exempted by a comment: {hits[0][1].reason or 'no reason given'}"
            self.suppressed.append(Finding(code, draft.severity, draft.message, draft.place, why=why))
        return bool(hits)

    def remarks(self, choice: Choice, lines: Lines) -> Remarks | None:
        if not self.ignores:
            return None
        from fsdp_migrate.suppress import remarks

        # What only shows when recipes are traced is not missing here.
        looked_at = choice.codes - {rule.code for rule in rules() if rule.traceable}
        return remarks(self.ignores, self.used, codes(), looked_at, lines)


def _read(segment: Segment, asked: Asked) -> Sequence[Found]:
    try:
        return reader(segment.language)(segment.text, asked)
    except UnreadableError as error:
        if segment.whole:
            raise
        # A piece of a document that is no whole program must not hide the other pieces.
        from fsdp_migrate.prose import unread as unparsed

        return unparsed(segment.text, str(error))


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


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a run asks for of one case. `blocked` are parts of its fix of which a piece is not asked for or exempted."""

    case: _Sited
    drafts: Sequence[Drafted]
    blocked: frozenset[str]
    exempted: bool


def _chosen(case: _Sited, drafts: Sequence[Drafted], choice: Choice, kept: _Kept) -> _Chosen:
    drafts = [(code, case.sited(draft)) for code, draft in drafts]
    asked = [code in choice.codes and _in_lines(d, choice.lines) for code, d in drafts]
    exempt = [
        kept.exempts(code, d, case.outer, counts=is_asked) for (code, d), is_asked in zip(drafts, asked, strict=True)
    ]
    left = [is_asked and not is_exempt for is_asked, is_exempt in zip(asked, exempt, strict=True)]
    # A move is one piece: if one of its findings is not asked for, or exempted, none of it is applied.
    blocked = {d.part for _, d in compress(drafts, map(not_, left)) if d.part == MOVE and d.needed}
    return _Chosen(case, list(compress(drafts, left)), frozenset(blocked), any(exempt))


def _held(every: Sequence[_Chosen]) -> frozenset[int]:
    """Scopes whose move would change what another scope means that does not move itself."""
    held: set[int] = set()
    while True:
        cases = [one.case.found.case for one in every if one.blocked or one.case.found.case.scope in held]
        more = {scope for case in cases for scope in case.rests_on} - held
        if not more:
            return frozenset(held)
        held |= more


def _with_fixes(one: _Chosen, choice: Choice, held: frozenset[int] = frozenset()) -> list[Finding]:
    case, blocked = one.case, one.blocked
    is_held = not blocked and case.found.case.scope in held
    if is_held:
        blocked |= {MOVE}
    parts = frozenset(d.part for _, d in one.drafts if d.part and (d.safe or choice.unsafe)) - blocked
    fix, problem = _fix(case, parts, Applicability.SAFE)
    found: list[Finding] = []
    unsafe: dict[str, Fix | None] = {}
    for code, draft in one.drafts:
        mine: Fix | None = None
        why = draft.why
        if draft.part in parts and fix is not None:
            mine, why = fix, ""
        elif draft.part in blocked:
            why = _HELD if is_held else _EXEMPTED if one.exempted else _UNSELECTED
        elif draft.part and not draft.safe:
            if draft.part not in unsafe:
                unsafe[draft.part], _ = _fix(case, parts | {draft.part}, Applicability.UNSAFE)
            mine = unsafe[draft.part]
        elif draft.part and problem:
            why = problem
        found.append(Finding(code, draft.severity, draft.message, draft.place, mine, why))
    return found


_HELD = "a recipe that derives from this one is not migrated along, and the move would change it; migrate both or none"
_EXEMPTED = "the move belongs together with a finding that a comment exempts; exempt both or none"
_UNSELECTED = "the move belongs together with findings that are not selected; select FSDP0 to apply it"


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


def _again(kind: Container, result: Result, choice: Choice, project: Project) -> _Look:
    return _look(kind, kind.decode(result.output), result.path, choice, project)


def _problem(result: Result, again: _Look, choice: Choice) -> str:
    """Why a result must not be written, or an empty string. `again` is a look at it."""
    if choice.lines:
        return ""
    if pending := _pending(again.all, choice):
        return f"a second run would edit again ({pending[0].code} on line {pending[0].place.line})"
    out_of_scope = FLAG.encode() not in result.output
    if _kinds(again.all) != _kinds(result.remaining) and not out_of_scope:
        return f"a second run would report something else ({_difference(again.all, result.remaining)})"
    return ""


def _kinds(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    # What a config adds up to may show better once it is migrated.
    judging = {rule.code for rule in rules() if rule.traceable}
    return sorted((f.code, f.severity.value) for f in findings if f.code not in judging)


def _difference(again: Iterable[Finding], before: Iterable[Finding]) -> str:
    then, now = _kinds(before), _kinds(again)
    extra = [code for code, _ in now if now.count((code, _)) > then.count((code, _))]
    gone = [code for code, _ in then if then.count((code, _)) > now.count((code, _))]
    return f"new: {', '.join(extra) or 'none'}, gone: {', '.join(gone) or 'none'}"
