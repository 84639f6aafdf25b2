"""Annotations of a GitHub workflow: one command a line, with everything escaped that could begin another one.

Source: docs.github.com, "Workflow commands for GitHub Actions", and actions/toolkit, packages/core/src/command.ts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fsdp_migrate.findings import Severity
from fsdp_migrate.formats.findings import Listed, shown
from fsdp_migrate.render import Totals, neutral
from fsdp_migrate.run import Outcome

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(outcomes: Iterable[Outcome], totals: Totals) -> Iterator[str]:
    for outcome in outcomes:
        listed = Listed(outcome)
        # The runner takes names as relative to the checkout, wherever a step runs.
        file = _property(shown(outcome.result.path, "GITHUB_WORKSPACE"))
        if outcome.result.error:
            yield f"::error file={file},title=fsdp-migrate::{_data(outcome.result.error.splitlines()[0])}\n"
        for finding, _ in listed.left:
            place = finding.place
            where = f"file={file},line={place.line},endLine={place.end_line}"
            if place.line == place.end_line:
                where += f",col={place.column},endColumn={place.end_column}"
            why = listed.advice(finding)
            text = f"{finding.message} ({why})" if why else finding.message
            yield f"::{_LEVELS[finding.severity]} {where},title={finding.code}::{_data(text)}\n"


def _data(text: str) -> str:
    # Line ends are spelled out already.
    return neutral(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
