"""The files of one launch: what the parent hands to the ranks, and what the ranks answer.

A launch has a folder of its own. The parent writes ``jobs.json``; rank 0 appends events to ``progress.jsonl``; every
rank writes ``result-JOB-RANK.json`` when it is through with a job, and its process id and what it prints to
``rank-RANK.pid`` and ``rank-RANK.log``. Only whole files and whole lines are read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fsdp_migrate.traincheck.job import Job


@dataclass(frozen=True, slots=True)
class Failure:
    """What stopped a job. `phase` is what was being done; `kind` an exception's type, ``hang`` or ``killed``."""

    phase: str
    kind: str
    message: str
    trace: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.kind else self.message


@dataclass(frozen=True, slots=True)
class Measured:
    """One training run on one rank. Losses are means over all ranks; `peak_bytes` is 0 without a GPU."""

    losses: tuple[float, ...] = ()
    gradient_norms: tuple[float, ...] = ()
    seconds: float = 0.0
    peak_bytes: int = 0
    elements: Mapping[str, int] = field(default_factory=dict)
    tensors: int = 0
    changed_tensors: int = 0


@dataclass(frozen=True, slots=True)
class Resumed:
    """The losses of the next steps: of the run that saved, and of a fresh one that loaded.

    `optimizer` says whether the moments were saved as well; without them only the first loss has to be equal.
    """

    went_on: tuple[float, ...] = ()
    loaded: tuple[float, ...] = ()
    optimizer: bool = False
    files: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one rank has to say about one job. What was not reached is None."""

    job: int
    rank: int
    fsdp: Measured | None = None
    ddp: Measured | None = None
    resumed: Resumed | None = None
    failure: Failure | None = None
    refused: str = ""
    one_rank_fault: bool = False
    data_parallel: int = 1
    seconds: float = 0.0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """The outcome that a rank wrote."""
        kinds: tuple[tuple[str, Callable[..., Any]], ...] = (
            ("fsdp", Measured),
            ("ddp", Measured),
            ("resumed", Resumed),
            ("failure", Failure),
        )
        values = dict(data)
        for name, kind in kinds:
            if values.get(name) is not None:
                parts = values[name].items()
                values[name] = kind(**{key: tuple(part) if isinstance(part, list) else part for key, part in parts})
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Versions:
    """What a launch ran with, for the reports."""

    torch: str = ""
    megatron_core: str = ""
    megatron_bridge: str = ""
    device: str = ""


def write_json(path: Path, data: Any) -> None:
    """Write whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data), encoding="utf-8")
    partial.replace(path)


def write_jobs(folder: Path, backend: str, jobs: Mapping[int, Job]) -> None:
    """What the ranks are to do, by the numbers of the jobs in the whole check."""
    write_json(folder / "jobs.json", {"backend": backend, "jobs": {n: job.to_json() for n, job in jobs.items()}})


def read_jobs(folder: Path) -> tuple[str, dict[int, Job]]:
    """The backend and the jobs of a launch."""
    data = json.loads((folder / "jobs.json").read_text(encoding="utf-8"))
    return data["backend"], {int(number): Job.from_json(job) for number, job in data["jobs"].items()}


def append_event(folder: Path, event: Mapping[str, Any]) -> None:
    """Tell the parent: ``{"versions": ...}``, ``{"job", "doing"}`` or ``{"job", "done": true}``."""
    with (folder / "progress.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(event) + "\n")


class Events:
    """The events of a launch as they come."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "progress.jsonl"
        self._read = 0

    def new(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as lines:
            lines.seek(self._read)
            data = lines.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def outcomes(folder: Path, job: int) -> list[Outcome]:
    """What the ranks answered about a job, in order of rank."""
    found = [Outcome.from_json(json.loads(path.read_text("utf-8"))) for path in folder.glob(f"result-{job}-*.json")]
    return sorted(found, key=lambda outcome: outcome.rank)


def worker_ids(folder: Path) -> dict[int, int]:
    """The process ids of the ranks that have started."""
    found = {}
    for path in folder.glob("rank-*.pid"):
        text = path.read_text(encoding="ascii").strip()
        if text:
            found[int(path.stem.removeprefix("rank-"))] = int(text)
    return found


def announce(folder: Path, rank: int) -> None:
    """Leave this process's id, and send what it prints from now on to its log."""
    (folder / f"rank-{rank}.pid").write_text(str(os.getpid()), encoding="ascii")
    log = os.open(folder / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
