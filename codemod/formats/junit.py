"""JUnit's XML: a suite for each file, a case for each finding. Information passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from fsdp_migrate.findings import Finding, Severity
from fsdp_migrate.formats.findings import Listed, shown
from fsdp_migrate.render import Totals, neutral
from fsdp_migrate.run import Outcome


def render(outcomes: Iterable[Outcome], totals: Totals) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="fsdp-migrate">\n'
    for outcome in outcomes:
        listed = Listed(outcome)
        cases = list(_cases(listed))
        failures = sum("<failure" in case for case in cases)
        errors = sum("<error" in case for case in cases)
        name = quoteattr(shown(outcome.result.path))
        yield f'<testsuite name={name} tests="{len(cases)}" failures="{failures}" errors="{errors}">\n'
        yield from cases
        yield "</testsuite>\n"
    yield "</testsuites>\n"


def _cases(listed: Listed) -> Iterator[str]:
    result = listed.outcome.result
    path = shown(result.path)
    if result.error:
        message = neutral(result.error.splitlines()[0])
        yield _case("file", path, f"<error message={quoteattr(message)}/>")
    for finding, _ in listed.left:
        name = f"{finding.code}:{finding.place.line}:{finding.place.column}"
        yield _case(name, path, _outcome(listed, finding))


def _outcome(listed: Listed, finding: Finding) -> str:
    text = neutral(finding.message)
    if finding.severity is Severity.INFO and not listed.is_fixed(finding):
        return f"<system-out>{escape(text)}</system-out>"
    why = neutral(listed.advice(finding))
    return f'<failure type="{finding.severity.value}" message={quoteattr(text)}>{escape(why)}</failure>'


def _case(name: str, path: str, inside: str) -> str:
    return f"<testcase name={quoteattr(name)} classname={quoteattr(path)}>{inside}</testcase>\n"
