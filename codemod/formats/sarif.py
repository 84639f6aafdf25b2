"""SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from fsdp_migrate import __version__
from fsdp_migrate.cases import Rule
from fsdp_migrate.findings import Finding, Place, Severity
from fsdp_migrate.formats.findings import Listed, relative, shown, uri
from fsdp_migrate.reference import section
from fsdp_migrate.registry import rules
from fsdp_migrate.render import Totals, neutral
from fsdp_migrate.run import Outcome

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_ROOT = "SRCROOT"


def render(outcomes: Iterable[Outcome], totals: Totals) -> Iterator[str]:
    order = {rule.code: number for number, rule in enumerate(rules())}
    driver = {
        "name": "fsdp-migrate",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules()],
    }
    folder = quote(os.fsencode(os.getcwd().replace(os.sep, "/")))
    head = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"uri": f"file://{folder.rstrip('/')}/"}},
    }
    yield f'{{"$schema": "{_SCHEMA}", "version": "2.1.0", "runs": [{json.dumps(head)[:-1]},\n"results": ['
    separator = "\n"
    failed: list[dict[str, Any]] = []
    for outcome in outcomes:
        listed = Listed(outcome)
        for finding, fingerprint in listed.left:
            yield separator + json.dumps(_result(listed, finding, fingerprint, order))
            separator = ",\n"
        for finding in outcome.result.suppressed:
            found = _bare(outcome.result.path, finding, order)
            found["suppressions"] = [{"kind": "inSource", "justification": neutral(finding.why)}]
            yield separator + json.dumps(found)
            separator = ",\n"
        if outcome.result.error:
            failed.append(_failure(outcome))
    invocation = {
        "executionSuccessful": not failed,
        "exitCode": totals.exit_code(),
        "toolExecutionNotifications": failed,
    }
    yield f'\n],\n"invocations": [{json.dumps(invocation)}]}}]}}\n'


def _rule(rule: Rule) -> dict[str, Any]:
    text = f"{rule.explanation}\n\nFix: {rule.safety}\n\nSource: {rule.source}"
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.explanation},
        "help": {"text": text, "markdown": section(rule)},
        "defaultConfiguration": {"enabled": rule.default},
    }


def _bare(path: str, finding: Finding, order: dict[str, int]) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "ruleIndex": order[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": neutral(finding.message)},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(path), "region": _region(finding.place)}}],
    }


def _result(listed: Listed, finding: Finding, fingerprint: str, order: dict[str, int]) -> dict[str, Any]:
    found = _bare(listed.outcome.result.path, finding, order)
    found["partialFingerprints"] = {"lineText/v1": fingerprint}
    fixed = listed.is_fixed(finding)
    if not fixed and (why := listed.why(finding)):
        found["message"]["text"] += f" ({neutral(why)})"
    fix = listed.fix(finding)
    if fix is not None and not listed.outcome.frozen:
        replacements = [
            {"deletedRegion": _region(listed.place(edit)), "insertedContent": {"text": edit.text}} for edit in fix.edits
        ]
        change = {"artifactLocation": _artifact(listed.outcome.result.path), "replacements": replacements}
        text = f"{fix.applicability.value} fix"
        found["fixes"] = [{"description": {"text": text}, "artifactChanges": [change]}] if replacements else []
    return found


def _failure(outcome: Outcome) -> dict[str, Any]:
    return {
        "level": "error",
        "message": {"text": f"{shown(outcome.result.path)}: {neutral(outcome.result.error.splitlines()[0])}"},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(outcome.result.path)}}],
    }


def _artifact(path: str) -> dict[str, Any]:
    found: dict[str, Any] = {"uri": uri(path)}
    return found | {"uriBaseId": _ROOT} if relative(path) is not None else found


def _region(place: Place) -> dict[str, int]:
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
