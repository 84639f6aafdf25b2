"""The rows of a plan, for people (Markdown, one HTML page, text) and for machines (JSON)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from html import escape

from fsdp_migrate import __version__
from fsdp_migrate.bulk.live import said
from fsdp_migrate.bulk.rows import CHANGED, FAILED, Row
from fsdp_migrate.page import page, shown_diff
from fsdp_migrate.render import neutral


def summary(rows: Sequence[Row], total: int) -> str:
    """One sentence."""
    counts = Counter(row.state for row in rows)
    parts = [f"{counts[state]} {state}" for state in (CHANGED, "unchanged", FAILED)]
    if total > len(rows):
        parts.append(f"{total - len(rows)} not done yet")
    left = sum(len(row.left) for row in rows)
    return f"{total} repositories: {', '.join(parts)}; findings left: {left}"


def text(rows: Sequence[Row]) -> str:
    """One line a repository."""
    wide = max((len(row.name) for row in rows), default=0)
    lines = [f"{neutral(row.name).ljust(wide)}  {row.state.ljust(9)}  {said(row)}" for row in rows]
    return "".join(line + "\n" for line in lines)


def as_json(rows: Sequence[Row], total: int) -> str:
    data = {"version": 1, "tool": __version__, "total": total, "repositories": [_plain(row) for row in rows]}
    return json.dumps(data, indent=2) + "\n"


def _plain(row: Row) -> dict[str, object]:
    about = asdict(row)
    for internal in ("fingerprint", "cached"):
        del about[internal]
    about["files"] = [{"path": path, "added": added, "removed": removed} for path, added, removed in row.files]
    return about


def markdown(rows: Sequence[Row], total: int) -> str:
    lines = [f"# fsdp-migrate: {summary(rows, total)}", "", "| repository | state | changes | left | commit |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        commit = row.commit[:12] if row.commit and row.state == CHANGED else ""
        cells = (row.name, row.state, said(row), str(len(row.left)), commit)
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    for row in rows:
        if not (row.left or row.diff or row.notes or row.checks):
            continue
        lines += ["", f"## {_cell(row.name)}", ""]
        lines += [f"- {_cell(note)}" for note in row.notes]
        lines += [f"- {'passed' if check.passed else '**failed**'}: {_cell(check.command)}" for check in row.checks]
        lines += [f"- {_cell(left)}" for left in row.left]
        if row.diff:
            diff = neutral(row.diff, keep="\n\t")
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", diff)), default=0))
            lines += ["", f"{fence}diff", diff.rstrip("\n"), fence]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", neutral(text))


def html(rows: Sequence[Row], total: int) -> str:
    body = f"<h1>fsdp-migrate: {escape(summary(rows, total))}</h1>\n"
    body += '<div class="wide"><table><tr><th>repository</th><th>state</th><th>changes</th><th>commit</th></tr>\n'
    body += "\n".join(map(_html_row, rows))
    body += f"\n</table></div>\n<p>fsdp-migrate {escape(__version__)}</p>"
    return page("fsdp-migrate bulk", body)


def _html_row(row: Row) -> str:
    kind = {CHANGED: "good", FAILED: "failed"}.get(row.state, "")
    details = [f"<li>{escape(neutral(note))}</li>" for note in row.notes]
    for check in row.checks:
        mark = "passed" if check.passed else "failed"
        output = (
            f"<pre>{escape(neutral(check.output, keep=chr(10)))}</pre>" if check.output and not check.passed else ""
        )
        details.append(f'<li><span class="{mark}">{mark}</span>: {escape(neutral(check.command))}{output}</li>')
    details += [f"<li>{escape(left)}</li>" for left in row.left]
    cell = escape(said(row)) + (f"<ul>{''.join(details)}</ul>" if details else "")
    if row.diff:
        cell += f"<details><summary>Diff</summary>{shown_diff(neutral(row.diff, keep=chr(10) + chr(9)))}</details>"
    commit = row.commit[:12] if row.state == CHANGED else ""
    return (
        f'<tr><td>{escape(neutral(row.name))}</td><td class="{kind}">{row.state}</td><td>{cell}</td>'
        f"<td>{commit}</td></tr>"
    )
