"""A report for people, as one page: what was found in which file, why it is not fixed, and the changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from fsdp_migrate import __version__
from fsdp_migrate.diff import unified_diff
from fsdp_migrate.findings import Finding
from fsdp_migrate.formats.findings import Listed, shown
from fsdp_migrate.page import page, shown_diff
from fsdp_migrate.registry import rules
from fsdp_migrate.render import Totals, neutral
from fsdp_migrate.run import Outcome


def render(outcomes: Sequence[Outcome], totals: Totals) -> Iterator[str]:
    noted = [o for o in outcomes if o.result.findings or o.result.error or o.result.suppressed]
    summary = " ".join(map(escape, totals.summary()))
    body = f"<h1>fsdp-migrate: {escape(_headline(totals))}</h1>\n<p>{summary}</p>\n"
    body += f"{_rules(totals)}\n{_files(noted)}\n" + "\n".join(map(_section, range(len(noted)), noted))
    body += f"\n<p>fsdp-migrate {escape(__version__)}</p>"
    yield page("fsdp-migrate", body)


def _headline(totals: Totals) -> str:
    if totals.written:
        return f"files written: {totals.written}, findings left: {totals.left}"
    return f"findings that can be fixed: {totals.fixed.total()}, left: {totals.left}"


def _rules(totals: Totals) -> str:
    summaries = {rule.code: rule.summary for rule in rules()}
    fixed = "fixed" if totals.written else "fixable"
    rows = []
    for code, found in sorted(totals.found.items()):
        by_hand = found - totals.fixed[code] - totals.hidden[code]
        numbers = (found, totals.fixed[code], totals.hidden[code], by_hand)
        cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
        rows.append(f"<tr><td>{code}</td><td>{escape(summaries.get(code, ''))}</td>{cells}</tr>")
    head = "".join(f'<th class="number">{name}</th>' for name in ("found", fixed, "unsafe", "by hand"))
    return _table(f"<tr><th>rule</th><th></th>{head}</tr>", rows)


def _files(noted: Sequence[Outcome]) -> str:
    rows = []
    for number, outcome in enumerate(noted):
        result = outcome.result
        state = "written" if outcome.written else "changes" if result.changed else "as it is"
        kind = "good" if result.changed else ""
        if result.error:
            state = kind = "error"
        link = f'<a href="#file-{number}">{escape(shown(result.path))}</a>'
        counts = Counter(finding.code for finding in result.findings)
        codes = ", ".join(f"{code} × {n}" if n > 1 else code for code, n in sorted(counts.items()))
        rows.append(f'<tr><td>{link}</td><td class="{kind}">{state}</td><td>{codes}</td></tr>')
    head = "<tr><th>file</th><th>state</th><th>findings</th></tr>"
    return _table(head, rows)


def _table(head: str, rows: Sequence[str]) -> str:
    return f'<div class="wide"><table>{head}{"".join(rows)}</table></div>' if rows else ""


def _section(number: int, outcome: Outcome) -> str:
    result = outcome.result
    listed = Listed(outcome)
    parts = [f'<section id="file-{number}"><h2>{escape(shown(result.path))}</h2>']
    if result.error:
        parts.append(f'<p class="error">{escape(neutral(result.error.splitlines()[0]))}</p>')
    rows = [_row(listed, finding) for finding, _ in listed.findings]
    rows += map(_exempted, result.suppressed)
    parts.append(_table("<tr><th>line</th><th>rule</th><th>finding</th></tr>", rows))
    if result.changed:
        diff = unified_diff(result.path, result.source, result.output).decode("utf-8", "backslashreplace")
        text = shown_diff(neutral(diff, keep="\n\t"))
        parts.append(f"<details open><summary>Changes</summary>{text}</details>")
    return "\n".join([*parts, "</section>"])


def _row(listed: Listed, finding: Finding) -> str:
    fixed = listed.is_fixed(finding)
    done = "fixed" if listed.outcome.written else "fixable"
    why = f'<br><span class="good">{done}</span>' if fixed else ""
    if not fixed and (reason := listed.why(finding)):
        why = f"<br>{escape(neutral(reason))}"
    kind = finding.severity.value
    return (
        f'<tr><td class="number">{finding.place.line}</td><td class="{kind}">{finding.code}<br>{kind}</td>'
        f"<td>{escape(neutral(finding.message))}{why}</td></tr>"
    )


def _exempted(finding: Finding) -> str:
    text = f"{escape(neutral(finding.message))}<br>{escape(neutral(finding.why))}"
    return f'<tr><td class="number">{finding.place.line}</td><td>{finding.code}</td><td>{text}</td></tr>'
