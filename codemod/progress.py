"""A progress bar on stderr: only on a terminal, and only once a run has taken longer than a moment."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

PATIENCE = 1.0  # seconds without a bar
_INTERVAL = 0.1  # seconds between two drawings: drawing more often costs more than it shows


class Progress:
    """Counts steps. Use it as a context; `hide` before anything else is written to the terminal."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled and sys.stderr.isatty()
        self._next = time.monotonic() + PATIENCE
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def update(self, what: str, done: int, total: int | None = None) -> None:
        """`done` of `total` steps are over; without a total the bar only shows that something happens."""
        if not self._enabled or (now := time.monotonic()) < self._next:
            return
        self._next = now + _INTERVAL
        if self._bar is None or self._task is None:
            self._bar, self._task = _draw()
        self._bar.update(self._task, description=what, completed=done, total=total)
        self._bar.start()
        self._bar.refresh()

    def hide(self) -> None:
        """Take the bar off the screen; the next update draws it again."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._task = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()


def _draw() -> tuple[Bar, TaskID]:
    # Only here: importing rich takes as long as a whole run over few files.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    # No refreshing thread: it would write between our own lines, and be there when workers start.
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    return bar, bar.add_task("", total=None)
