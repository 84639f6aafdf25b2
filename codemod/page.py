"""The frame of an HTML report: one file, no script, nothing from the network, light and dark, fit to print."""

from __future__ import annotations

from html import escape

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; --open: #9a6700; --faint: #8881; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #f85149; --open: #d29922; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
section { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 1rem 0; }
.good, .passed, .info { color: var(--good); } .fails, .failed, .error { color: var(--bad); }
.open, .warning { color: var(--open); }
td a { overflow-wrap: anywhere; }
details { margin-top: .5rem; } summary { cursor: pointer; }
pre { overflow-x: auto; font-size: 12px; line-height: 1.45; background: var(--faint); padding: .5rem; }
pre .add { color: var(--good); } pre .del { color: var(--bad); } pre .at { opacity: .7; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; padding: 0 .6rem; } section { padding: .6rem; }
  th, td { padding: .25rem .3rem; font-size: 13px; }
}
@media print {
  details:not([open]) > :not(summary) { display: block; } tr { break-inside: avoid; } h2 { break-after: avoid; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; } .wide { overflow: visible; }
}
"""


def page(title: str, body: str, style: str = "") -> str:
    """A whole page. `body` is HTML, `title` is not; `style` is added to the common one."""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n{body}\n</html>\n"
    )


def shown_diff(diff: str) -> str:
    """A unified diff as HTML, its lines coloured."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    lines = []
    for line in diff.splitlines():
        kind = "" if line.startswith(("+++", "---")) else kinds.get(line[:1], "")
        lines.append(f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line))
    return "<pre>" + "\n".join(lines) + "</pre>"
