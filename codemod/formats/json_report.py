"""Every file and finding as one JSON document. `schema.json` beside this file says what is in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from fsdp_migrate import __version__
from fsdp_migrate.findings import Finding, Fix, Place
from fsdp_migrate.formats.findings import Listed, relative, uri
from fsdp_migrate.render import Totals, is_hidden, neutral
from fsdp_migrate.run import Outcome

SCHEMA_VERSION = 1


def render(outcomes: Iterable[Outcome], totals: Totals) -> Iterator[str]:
    head = {
        "schema_version": SCHEMA_VERSION,
        "tool": "fsdp-migrate",
        "version": __version__,
        "target": totals.target or None,
    }
    yield f'{json.dumps(head)[:-1]},\n"files": ['
    separator = "\n"
    for outcome in outcomes:
        yield separator + json.dumps(_file(Listed(outcome)))
        separator = ",\n"
    counts = {
        "looked_at": totals.looked_at,
        "findings": totals.found.total(),
        "fixed": totals.fixed.total() if totals.written else 0,
        "fixable": 0 if totals.written else totals.fixed.total(),
        "fixable_unsafe": totals.hidden.total(),
        "suppressed": totals.suppressed,
        "changed": totals.changed,
        "written": totals.written,
        "failed": totals.errors,
    }
    yield f'\n],\n"totals": {json.dumps(counts)},\n"exit_code": {totals.exit_code()}}}\n'


def _file(listed: Listed) -> dict[str, Any]:
    outcome = listed.outcome
    result = outcome.result
    return {
        "path": neutral(relative(result.path) or result.path.replace(os.sep, "/")),
        "uri": uri(result.path),
        "changed": result.changed,
        "written": outcome.written,
        "frozen": neutral(outcome.frozen) or None,
        "error": neutral(result.error.split("\n")[0]) or None,
        "findings": [_finding(listed, finding, fingerprint) for finding, fingerprint in listed.findings],
        "suppressed": [
            {"code": f.code, "severity": f.severity.value, "message": f.message, **_place(f.place), "reason": f.why}
            for f in result.suppressed
        ],
    }


def _finding(listed: Listed, finding: Finding, fingerprint: str) -> dict[str, Any]:
    fixed = listed.is_fixed(finding)
    outcome = "fixed" if fixed and listed.outcome.written else "fixable" if fixed else "by_hand"
    if not fixed and is_hidden(finding) and not listed.outcome.frozen:
        outcome = "fixable_unsafe"
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "message": finding.message,
        **_place(finding.place),
        "status": outcome,
        "why_not_fixed": None if fixed else listed.why(finding) or None,
        "fix": _fix(listed, fix) if (fix := listed.fix(finding)) is not None else None,
        "fingerprint": fingerprint,
    }


def _fix(listed: Listed, fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "edits": [
            {"start": edit.start, "end": edit.end, **_place(listed.place(edit)), "text": edit.text}
            for edit in fix.edits
        ],
    }


def _place(place: Place) -> dict[str, int]:
    return {
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
    }
