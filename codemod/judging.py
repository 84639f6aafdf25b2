"""``--trace``: the rules about conflicts, on what recipes really end up with. This runs the recipes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fsdp_migrate.cases import Case
from fsdp_migrate.conflicts import Known, judged
from fsdp_migrate.findings import Finding, Place, Result
from fsdp_migrate.lines import Lines
from fsdp_migrate.registry import rules
from fsdp_migrate.run import Outcome
from fsdp_migrate.trace import TracedRecipe, Unknown, trace_targets
from fsdp_migrate.transforms.plan import UNKNOWN

Codes = Callable[[str], Collection[str]]
"""The codes that are asked for in a file."""


def with_conflicts(
    outcomes: Sequence[Outcome], paths: Sequence[str], target: str, codes: Codes, *, after: bool
) -> tuple[list[Outcome], list[TracedRecipe]]:
    """The outcomes with what the rules conclude about the recipes below `paths`, and the recipes that do not run.

    `after`: about what the recipes are once the changes of the outcomes are made.

    Raises:
        TraceError: nothing could be traced at all.
    """
    targets = [path for path in paths if os.path.isdir(path) or path.endswith(".py")]
    changed = {Path(o.result.path).absolute(): o.result.output for o in outcomes if o.result.changed and after}
    recipes = trace_targets(targets, release=target or None, replaced=changed) if targets else ()
    found: dict[str, list[Finding]] = {}
    for recipe in recipes:
        file = _located(recipe.file, paths)
        for finding in conflicts_of(recipe, target):
            if finding.code in codes(file):
                found.setdefault(file, []).append(replace(finding, message=f"{recipe.name}: {finding.message}"))
    return _merged(outcomes, found, after), [recipe for recipe in recipes if recipe.reason]


def conflicts_of(recipe: TracedRecipe, target: str) -> Iterator[Finding]:
    """What the rules conclude about one traced recipe, each at the line of the recipe's file that it is about."""
    case = case_of(recipe, target)
    if case is None:
        return
    for rule in rules():
        for draft in rule.check(case):
            yield Finding(rule.code, draft.severity, draft.message, draft.place, None, draft.why)


def case_of(recipe: TracedRecipe, target: str) -> Case | None:
    settings: dict[str, Known] = {}
    for setting in recipe.settings:
        place = _place(setting.line if setting.file == recipe.file and setting.line else recipe.line)
        for path, value in _leaves(setting.path, setting.value):
            settings[path] = Known(value, place)
    sections = {setting.path.partition(".")[0] for setting in recipe.settings}
    complete = frozenset(section for section in sections if recipe.has_defaults(section))
    return judged(settings, target, complete=complete, name=recipe.name)


def _leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Unknown):
        yield path, UNKNOWN
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}", inner)
    else:
        yield path, value


def _place(line: int) -> Place:
    return Place(max(line, 1), 1, max(line, 1), 1)


def _located(file: str, paths: Sequence[str]) -> str:
    """The file of a recipe as the user would name it: the trace tells it from the root of its project."""
    starts = [Path(path.partition("::")[0]) for path in paths]
    candidates = [Path(file), *(folder / file for start in starts for folder in (start, *start.absolute().parents))]
    found = next((path for path in candidates if path.is_file()), Path(file))
    return os.path.relpath(found) if any(not start.is_absolute() for start in starts) else str(found.absolute())


def _merged(outcomes: Sequence[Outcome], found: Mapping[str, Sequence[Finding]], after: bool) -> list[Outcome]:
    by_file = {os.path.realpath(o.result.path): o for o in outcomes}
    for file, findings in found.items():
        real = os.path.realpath(file)
        outcome = by_file.get(real)
        if outcome is None:
            source = Path(file).read_bytes()
            outcome = Outcome(Result(file, source, source))
        by_file[real] = _with(outcome, findings, outcome.result.output if after else outcome.result.source)
    return sorted(by_file.values(), key=lambda o: o.result.path.split("/"))


def _with(outcome: Outcome, findings: Sequence[Finding], traced: bytes) -> Outcome:
    """An outcome with further findings: not those that the source told already, nor those that a comment exempts."""
    result = outcome.result
    lines = Lines(traced.decode("utf-8", "replace"))
    told = {(f.code, f.place.line) for f in result.findings}
    same = {rule.code: rule.same_as or rule.code for rule in rules()}
    new = [replace(f, place=_whole(f.place.line, lines)) for f in findings if (same[f.code], f.place.line) not in told]
    kept, exempted = _exempted(new, result, lines)
    return replace(
        outcome,
        result=replace(result, findings=(*result.findings, *kept), suppressed=(*result.suppressed, *exempted)),
    )


def _whole(line: int, lines: Lines) -> Place:
    text = lines.line(line)
    return Place(line, len(text) - len(text.lstrip()) + 1, line, len(text.rstrip()) + 1)


def _exempted(findings: Sequence[Finding], result: Result, lines: Lines) -> tuple[list[Finding], list[Finding]]:
    from fsdp_migrate.segments import Whole
    from fsdp_migrate.suppress import read

    ignores = read(Whole("python", lines.text), result.path)
    kept: list[Finding] = []
    exempted: list[Finding] = []
    for finding in findings:
        span = lines.offsets(finding.place)
        hit = any(ignore.covers_finding(finding.code, *span) for ignore in ignores)
        (exempted if hit else kept).append(finding)
    return kept, exempted
