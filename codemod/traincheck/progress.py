"""What a running check shows: a bar on a terminal, a line per recipe elsewhere. On stderr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fsdp_migrate.traincheck.launch import Progress as Report


@contextmanager
def shown_progress(names: Mapping[int, str]) -> Iterator[Report]:
    """A function that shows what a job, by its number, is doing."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console, names)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=len(names))

        def show(job: int | None, doing: str) -> None:
            name = "" if job is None else f"{names[job]}: "
            bar.update(task, description=f"{name}{doing}", advance=doing == "done")

        yield show


def _lines(console: Console, names: Mapping[int, str]) -> Report:
    def show(job: int | None, doing: str) -> None:
        if job is None:
            console.print(f"train-check: {doing}", highlight=False, soft_wrap=True)
        elif doing == "done":
            console.print(f"train-check: {names[job]}: done", highlight=False, soft_wrap=True)

    return show
