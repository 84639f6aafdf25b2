"""GitLab's code quality report.

Source: docs.gitlab.com, "Code Quality", section "Code Quality report format".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from fsdp_migrate.findings import Severity
from fsdp_migrate.formats.findings import Listed, shown
from fsdp_migrate.render import Totals, neutral
from fsdp_migrate.run import Outcome

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def render(outcomes: Iterable[Outcome], totals: Totals) -> Iterator[str]:
    yield "["
    separator = "\n"
    for outcome in outcomes:
        for entry in _entries(Listed(outcome)):
            yield separator + json.dumps(entry)
            separator = ",\n"
    yield "\n]\n"


def _entries(listed: Listed) -> Iterator[dict[str, Any]]:
    result = listed.outcome.result
    path = shown(result.path, "CI_PROJECT_DIR")  # GitLab wants it relative to the repository
    if result.error:
        yield {
            "description": neutral(result.error.splitlines()[0]),
            "check_name": "fsdp-migrate",
            "fingerprint": hashlib.sha256(f"failed\0{path}".encode()).hexdigest()[:32],
            "severity": "blocker",
            "location": {"path": path, "lines": {"begin": 1}},
        }
    for finding, fingerprint in listed.left:
        yield {
            "description": neutral(finding.message),
            "check_name": finding.code,
            "fingerprint": fingerprint,
            "severity": _SEVERITIES[finding.severity],
            "location": {"path": path, "lines": {"begin": finding.place.line, "end": finding.place.end_line}},
        }
