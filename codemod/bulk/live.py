"""Progress on stderr: a live table on a terminal, else a line for every repository, as text or JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import click

from fsdp_migrate.bulk.rows import CHANGED, FAILED, Row
from fsdp_migrate.render import neutral

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_SHOWN = 8  # rows of the table: those that run, then the last that are done


def said(row: Row) -> str:
    """One line about a repository."""
    if row.state == FAILED:
        text = row.reason
    elif row.state == CHANGED:
        text = f"{len(row.files)} file{'s' * (len(row.files) != 1)} +{row.added} -{row.removed}"
        text += f", {row.delivered} {row.url}".rstrip() if row.delivered else ""
    else:
        text = "nothing to change"
    text += f", {len(row.left)} left" if row.left and row.state != FAILED else ""
    return neutral(text)


class Progress:
    """Told what begins and what is done. `kind`: "auto", "plain", "json" or "none"."""

    def __init__(self, kind: str, total: int) -> None:
        terminal = sys.stderr.isatty()
        self._kind = ("rich" if terminal else "plain") if kind == "auto" else kind
        self._total = total
        self._running: dict[str, float] = {}
        self._done: list[Row] = []
        self._states: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._live: Live | None = None

    def begin(self, key: str, name: str) -> None:
        with self._lock:
            self._running[name] = time.monotonic()
        if self._kind == "json":
            click.echo(json.dumps({"event": "begin", "repository": name, "key": key}), err=True)

    def end(self, row: Row) -> None:
        with self._lock:
            self._running.pop(row.name, None)
            self._done = [*self._done[-_SHOWN:], row]
            self._states["cached" if row.cached else row.state] += 1
        number = self._states.total()
        if self._kind == "json":
            about = {"event": "end", "repository": row.name, "key": row.key, "state": row.state, "cached": row.cached}
            about |= {"reason": row.reason, "seconds": row.seconds, "done": number, "total": self._total}
            click.echo(json.dumps(about), err=True)
        elif self._kind == "plain":
            cached = " (as before)" if row.cached else ""
            click.echo(f"[{number}/{self._total}] {row.name}: {row.state}: {said(row)}{cached}", err=True)

    def __enter__(self) -> Progress:
        if self._kind == "rich":
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(stderr=True), get_renderable=self._table, refresh_per_second=4, transient=True
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        styles = {FAILED: "red", CHANGED: "green"}
        with self._lock:
            counts = ", ".join(f"{number} {state}" for state, number in sorted(self._states.items()))
            title = f"{self._states.total()} of {self._total} repositories" + (f": {counts}" if counts else "")
            table = Table(title=title, title_justify="left", show_header=False, box=None)
            now = time.monotonic()
            running = list(self._running.items())[:_SHOWN]
            for name, since in running:
                table.add_row(Text(name), Text(f"running {now - since:.0f} s", "yellow"), "")
            for row in self._done[::-1][: max(0, _SHOWN - len(running))]:
                table.add_row(Text(row.name), Text(row.state, styles.get(row.state, "")), Text(said(row)))
        return table
