"""The report as one HTML page: no script, no file beside it, loss curves and memory bars as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from fsdp_migrate.page import page as framed
from fsdp_migrate.traincheck import report
from fsdp_migrate.traincheck.judge import State, Verdict

_STYLE = """
:root { --fsdp: #2f6fde; --ddp: #d9822b; }
.charts { display: flex; flex-wrap: wrap; gap: 2rem; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
"""

WIDTH, HEIGHT, MARGIN = 420, 180, 44
"""Of a chart, in pixels; the margin is on the left and below."""


def page(checked: report.Checked) -> str:
    """The whole page."""
    good = sum(verdict.good for verdict in checked.verdicts)
    caveat = f"<p><strong>{escape(checked.caveat)}</strong></p>" if checked.caveat else ""
    head = f"<h1>{good} of {len(checked.verdicts)} recipes: the best verdict</h1>\n"
    head += f"<p>{escape(checked.machine)}; backend {escape(checked.backend)}</p>\n{caveat}\n"
    body = f"{head}{_overview(checked)}\n" + "\n".join(map(_section, checked.verdicts))
    return framed("fsdp-migrate train-check", body, _STYLE)


def _overview(checked: report.Checked) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("recipe", "verdict", "FSDP ↔ DDP", "per rank", "peak GiB", "s"))
    rows = []
    for verdict in checked.verdicts:
        cells = (report.difference(verdict), report.shares(verdict), report.peak(verdict), f"{verdict.seconds:.1f}")
        link = f'<a href="#{escape(_anchor(verdict))}">{escape(verdict.name)}</a>'
        numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><td>{link}</td><td class="{_class(verdict)}">{escape(verdict.word)}</td>{numbers}</tr>')
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _anchor(verdict: Verdict) -> str:
    return f"{verdict.file}::{verdict.name}".replace(" ", "-")


def _class(verdict: Verdict) -> str:
    return "good" if verdict.good else "fails" if verdict.word.startswith("fails") else "open"


def _section(verdict: Verdict) -> str:
    charts = _curves(verdict) + _memory(verdict)
    checks = "".join(
        f'<tr><td>{escape(check.name)}</td><td class="{_check_class(check.state)}">{check.state.value}</td>'
        f"<td>{escape(check.text)}{_advice(check.advice)}</td></tr>"
        for check in verdict.checks
    )
    parts = [
        f'<section id="{escape(_anchor(verdict))}"><h2>{escape(verdict.file)}::{escape(verdict.name)}</h2>',
        f'<p class="{_class(verdict)}">{escape(verdict.word)}{_advice(verdict.advice)}</p>',
        f'<div class="charts">{charts}</div>' if charts else "",
        f"<table>{checks}</table>" if checks else "",
        _details(
            "Replaced to fit", [report.replacement_text(item) for item in verdict.job.replaced] if verdict.job else []
        ),
        _details("Notes", list(verdict.job.notes) if verdict.job else []),
        f"<details><summary>Trace</summary><pre>{escape(verdict.trace)}</pre></details>" if verdict.trace else "",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _check_class(state: State) -> str:
    return {State.PASSED: "passed", State.FAILED: "failed", State.NOT_CHECKED: "open"}[state]


def _advice(text: str) -> str:
    return f"<br>→ {escape(text)}" if text else ""


def _details(summary: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<details><summary>{summary}</summary><ul>{items}</ul></details>" if lines else ""


def _curves(verdict: Verdict) -> str:
    """Loss over steps, FSDP drawn over DDP; values that are not finite leave a gap."""
    curves = [
        (name, color, run.losses)
        for name, color, run in (("DDP", "var(--ddp)", verdict.ddp), ("FSDP", "var(--fsdp)", verdict.fsdp))
        if run and run.losses
    ]
    finite = [loss for _, _, losses in curves for loss in losses if math.isfinite(loss)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    steps = max(len(losses) for _, _, losses in curves)
    lines = []
    for number, (name, color, losses) in enumerate(curves):
        points = " ".join(
            f"{_x(step, steps):.1f},{_y(loss, low, high):.1f}"
            for step, loss in enumerate(losses)
            if math.isfinite(loss)
        )
        dash = ' stroke-dasharray="6 4"' if name == "FSDP" else ""
        width = 2 if name == "FSDP" else 4
        lines.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="{width}"{dash}/>')
        lines.append(f'<text x="{WIDTH - 90 + 45 * number}" y="12" style="fill:{color}">{name}</text>')
    axis = (
        f'<path d="M{MARGIN} 8V{HEIGHT - MARGIN}H{WIDTH - 8}" fill="none" stroke="var(--line)"/>'
        f'<text x="0" y="20">{high:.3f}</text><text x="0" y="{HEIGHT - MARGIN}">{low:.3f}</text>'
        f'<text x="{MARGIN}" y="{HEIGHT - MARGIN + 18}">step 1</text>'
        f'<text x="{WIDTH - 60}" y="{HEIGHT - MARGIN + 18}">step {steps}</text>'
    )
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="loss per step">{axis}{"".join(lines)}</svg>'


def _x(step: int, steps: int) -> float:
    return MARGIN + (WIDTH - MARGIN - 12) * step / max(steps - 1, 1)


def _y(loss: float, low: float, high: float) -> float:
    return 16 + (HEIGHT - MARGIN - 24) * (high - loss) / ((high - low) or 1.0)


def _memory(verdict: Verdict) -> str:
    """A bar per rank and run, in GiB."""
    bars = [
        (f"{name} rank {rank}", color, peak / report.GIB)
        for name, color, peaks in (
            ("FSDP", "var(--fsdp)", verdict.peak_bytes),
            ("DDP", "var(--ddp)", verdict.ddp_peak_bytes),
        )
        for rank, peak in enumerate(peaks)
        if peak
    ]
    if not bars:
        return ""
    most = max(size for _, _, size in bars)
    rows = "".join(
        f'<text x="0" y="{14 + 22 * row}">{escape(label)}</text>'
        f'<rect x="90" y="{3 + 22 * row}" width="{220 * size / most:.1f}" height="14" fill="{color}"/>'
        f'<text x="{96 + 220 * size / most:.1f}" y="{14 + 22 * row}">{size:.2f} GiB</text>'
        for row, (label, color, size) in enumerate(bars)
    )
    return f'<svg width="{WIDTH}" height="{22 * len(bars) + 8}" role="img" aria-label="peak memory">{rows}</svg>'
