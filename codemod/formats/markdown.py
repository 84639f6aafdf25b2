"""A report for people in Markdown: the same as the page, for a pull request's text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fsdp_migrate.diff import unified_diff
from fsdp_migrate.formats.findings import Listed, shown
from fsdp_migrate.registry import rules
from fsdp_migrate.render import Totals, neutral
from fsdp_migrate.run import Outcome

# What Markdown or the HTML in it would take for more than text.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|&#~])")


def render(outcomes: Sequence[Outcome], totals: Totals) -> Iterator[str]:
    yield "# fsdp-migrate\n\n" + " ".join(totals.summary()) + "\n"
    if totals.found:
        yield from _rules(totals)
    for outcome in outcomes:
        if outcome.result.findings or outcome.result.error:
            yield from _file(outcome)


def _rules(totals: Totals) -> Iterator[str]:
    summaries = {rule.code: rule.summary for rule in rules()}
    yield f"\n| rule | what | found | {'fixed' if totals.written else 'fixable'} | unsafe |\n|---|---|--:|--:|--:|\n"
    for code, found in sorted(totals.found.items()):
        summary = _plain(summaries.get(code, ""))
        yield f"| {code} | {summary} | {found} | {totals.fixed[code]} | {totals.hidden[code]} |\n"


def _file(outcome: Outcome) -> Iterator[str]:
    result = outcome.result
    listed = Listed(outcome)
    yield f"\n## {_plain(shown(result.path))}\n\n"
    if result.error:
        yield f"* **failed**: {_plain(neutral(result.error.splitlines()[0]))}\n"
    for finding, _ in listed.findings:
        fixed = listed.is_fixed(finding)
        state = ("fixed" if outcome.written else "fixable") if fixed else neutral(listed.why(finding))
        text = f"line {finding.place.line}: **{finding.code}** {_plain(neutral(finding.message))}"
        yield f"* {text}" + (f" ({_plain(state)})" if state else "") + "\n"
    if result.changed:
        raw = unified_diff(result.path, result.source, result.output)
        diff = neutral(raw.decode("utf-8", "backslashreplace"), keep="\n\t")
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", diff)), default=0))
        yield f"\n{fence}diff\n{diff}{fence}\n"


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
