"""Seconds and memory of ``bulk`` over many repositories of mixed content and trouble.

    python -m tests.bench.bulk [--repositories 300] [--jobs 2] [--folder FOLDER]

A preview, an apply, and a second apply that finds everything done, each in a process of its own. Beside the seconds it
prints the processor time of everything that ran, and the peak memory of the main process
and of the largest child when a third of the repositories were done and at the end: the two must hardly differ. The
targets for 300 on two cores are 90 s for the apply and 5 s for the second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bulk.repositories import make, plan


def children(process: int) -> Iterator[int]:
    """A process and what it started, as far as that still runs."""
    yield process
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        for task in tasks:
            for child in (task / "children").read_text().split():
                yield from children(int(child))
    except OSError:
        return


def memory(process: int) -> tuple[int, int]:
    """Peak MiB of a process and of the largest Python below it."""
    peaks = []
    for each in children(process):
        try:
            status = dict(line.split(":", 1) for line in Path(f"/proc/{each}/status").read_text().splitlines())
        except OSError:
            continue
        if each == process or status["Name"].strip().startswith("python"):
            peaks.append(int(status.get("VmHWM", "0 kB").split()[0]) >> 10)
    return peaks[0], max(peaks[1:], default=0)


def measured(name: str, words: list[str], total: int) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "fsdp_migrate", "bulk", *words, "--progress", "json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as run:
        assert run.stderr is not None
        third, last = (0, 0), (0, 0)
        for line in run.stderr:
            if line.startswith("{") and (done := json.loads(line).get("done")):
                if done <= total // 3:
                    third = memory(run.pid)
                elif done % 10 == 0 or total - done < 5:
                    last = tuple(map(max, last, memory(run.pid)))  # type: ignore[assignment]
    seconds = time.perf_counter() - start
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return (
        f"{name:<14}{seconds:6.1f} s  {spent:6.1f} s of processor time  "
        f"main {third[0]} to {last[0]} MiB, largest child {third[1]} to {last[1]} MiB"
    )


def main(number: int, jobs: int, folder: Path) -> None:
    make(folder / "repositories", number)
    path = str(plan(folder))
    for name, command in (("preview", "preview"), ("apply", "apply"), ("apply again", "apply")):
        print(measured(name, [command, path, "--jobs", str(jobs)], number), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repositories", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.folder:
        main(given.repositories, given.jobs, given.folder)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(given.repositories, given.jobs, Path(temporary))
