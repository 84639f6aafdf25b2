"""Start the ranks, watch them, end them. Never imports torch.

A launch is ``python -m torch.distributed.run`` with one process per GPU. It dies with this process (`tether`), and so
do its workers. Whatever ends a launch, its processes are gone and its folder is removed when `run_jobs` returns.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fsdp_migrate.traincheck import exchange
from fsdp_migrate.traincheck.exchange import Events, Failure, Outcome, Versions
from fsdp_migrate.traincheck.job import Job

POLL_SECONDS = 0.1
START_SECONDS = 300.0
"""What a launch gets at least until its ranks have met: imports from a cold disk take long."""

GRACE_SECONDS = 3.0
"""What a launch gets to end by itself after SIGTERM."""

FOLDER_PREFIX = "fsdp-migrate-train-check-"

Progress = Callable[[int | None, str], None]
"""Called with a job's number, or None for the launch itself, and what it is doing."""


@dataclass
class Launched:
    """What came of all launches: the ranks' answers by job, and what they ran with."""

    outcomes: dict[int, list[Outcome]] = field(default_factory=dict)
    versions: Versions = field(default_factory=Versions)
    starts: int = 0


def run_jobs(
    jobs: Mapping[int, Job],
    backend: str,
    ranks: int,
    *,
    timeout: float,
    progress: Progress,
    keep_logs: Path | None = None,
) -> Launched:
    """Run every job, in as few launches as failures allow.

    Args:
        timeout: seconds in which a job must show that it goes on; it is ended otherwise.
        keep_logs: a folder for what the ranks print; without it their logs are removed.
    """
    launched = Launched()
    left = dict(jobs)
    with _signals_as_exceptions():
        while left:
            launched.starts += 1
            progress(None, f"starting{' afresh' * (launched.starts > 1)} ({len(left)} to check)")
            with _run_folder() as folder:
                _one_launch(folder, left, backend, ranks, timeout, progress, launched)
                if keep_logs is not None:
                    _keep_logs(folder, keep_logs / f"launch-{launched.starts}")
            left = {number: job for number, job in left.items() if number not in launched.outcomes}
    return launched


def _one_launch(
    folder: Path,
    jobs: Mapping[int, Job],
    backend: str,
    ranks: int,
    timeout: float,
    progress: Progress,
    launched: Launched,
) -> None:
    exchange.write_jobs(folder, backend, jobs)
    current = next(iter(jobs))
    doing = "start"
    done: set[int] = set()
    hung_after: float | None = None
    started = False
    with _started(folder, ranks) as process:
        events = Events(folder)
        last_sign = time.monotonic()
        while process.poll() is None:
            for event in events.new():
                last_sign = time.monotonic()
                started = True
                current, doing = _take(event, current, doing, done, progress, launched)
            allowed = timeout if started else max(timeout, START_SECONDS)
            if time.monotonic() - last_sign > allowed:
                hung_after = allowed
                _dump_stacks(folder)
                break
            time.sleep(POLL_SECONDS)
        code = process.poll()
    for event in events.new():
        started = True
        current, doing = _take(event, current, doing, done, progress, launched)
    for number in jobs:
        answers = exchange.outcomes(folder, number)
        if len(answers) == ranks and not any(answer.failure for answer in answers):
            launched.outcomes[number] = answers
    if len(launched.outcomes.keys() & jobs.keys()) == len(jobs):
        return
    number = current if current not in done else next(n for n in jobs if n not in done)
    failed = _with_failure(folder, number, doing, code, hung_after)
    launched.outcomes[number] = failed
    if not started:  # no recipe is to blame, and the next launch would end like this one
        launched.outcomes.update({other: failed for other in jobs if other not in launched.outcomes})


def _take(
    event: Mapping[str, object],
    current: int,
    doing: str,
    done: set[int],
    progress: Progress,
    launched: Launched,
) -> tuple[int, str]:
    versions = event.get("versions")
    if isinstance(versions, dict):
        launched.versions = Versions(**versions)
        return current, doing
    number = event["job"]
    assert isinstance(number, int)
    if event.get("done"):
        done.add(number)
        progress(number, "done")
        return number, "start"
    progress(number, str(event["doing"]))
    return number, str(event["doing"])


def _with_failure(folder: Path, job: int, doing: str, code: int | None, hung_after: float | None) -> list[Outcome]:
    """The ranks' answers about the job that ended a launch, one of them with the reason."""
    answers = exchange.outcomes(folder, job)
    ended = _exit_codes(folder)
    killed = next(((rank, -status) for rank, status in ended.items() if status < 0 and -status != signal.SIGTERM), None)
    if hung_after is not None:
        failure = Failure(doing, "hang", f"no progress for {hung_after:g} s", _logs(folder))
    elif killed is not None:  # what the other ranks say is that they lost this one
        name = signal.Signals(killed[1]).name
        failure = Failure(doing, "killed", f"rank {killed[0]} was ended by {name}", _logs(folder))
    elif any(answer.failure for answer in answers):
        return answers
    elif ended:
        rank, status = next(iter(ended.items()))
        failure = Failure(doing, "killed", f"rank {rank} ended with exit code {status}", _logs(folder))
    else:
        last = _read(folder / "launcher.log").strip().splitlines()[-1:] or ["it printed nothing"]
        failure = Failure(doing, "", f"the launcher ended with exit code {code}: {last[0][:300]}", _logs(folder))
    return [Outcome(job, 0, failure=failure)]


def _exit_codes(folder: Path) -> dict[int, int]:
    """How the ranks ended, by the launcher's summary; negative for a signal."""
    pairs = re.findall(r"rank\s*:\s*(\d+)[^\n]*\n\s*exitcode\s*:\s*(-?\d+)", _read(folder / "launcher.log"))
    return {int(rank): int(status) for rank, status in pairs}


def _remove_orphans(temporary: Path) -> None:
    """Folders of checks that were killed before they could remove them; the owner's process id is in the name."""
    for folder in temporary.glob(f"{FOLDER_PREFIX}*-*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        if owner.isdecimal() and not _is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def _run_folder() -> Iterator[Path]:
    _remove_orphans(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _started(folder: Path, ranks: int) -> Iterator[subprocess.Popen[bytes]]:
    """The launcher, ended with all its workers on the way out."""
    command = [
        sys.executable,
        "-m",
        "fsdp_migrate.traincheck.tether",
        str(os.getpid()),
        "torch.distributed.run",
        "--nnodes=1",
        f"--nproc-per-node={ranks}",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        "--local-addr=127.0.0.1",
        "--max-restarts=0",
        "--module",
        "fsdp_migrate.traincheck.worker",
        str(folder),
    ]
    with (folder / "launcher.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(folder),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process, folder)


def _environment(folder: Path) -> dict[str, str]:
    """The parent's, with temporary files in the launch's folder and no compiler processes or caches elsewhere."""
    environment = dict(os.environ)
    temporary = folder / "tmp"
    temporary.mkdir()
    environment.update(
        TMPDIR=str(temporary),
        TORCHINDUCTOR_CACHE_DIR=str(temporary / "inductor"),
        TRITON_CACHE_DIR=str(temporary / "triton"),
        TORCH_COMPILE_DISABLE="1",
        PYTHONUNBUFFERED="1",
    )
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    return environment


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    workers = exchange.worker_ids(folder).values()
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()
    for worker in workers:
        _kill_worker(worker, folder)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_worker(worker: int, folder: Path) -> None:
    """Kill a rank that outlived its launcher, if the id is still that of this launch's rank."""
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline:
        try:
            command = Path(f"/proc/{worker}/cmdline").read_bytes()
        except OSError:
            return
        if os.fsencode(str(folder)) not in command:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(worker, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _dump_stacks(folder: Path) -> None:
    """Have every rank write down where it stands; `worker` listens for the signal."""
    for worker in exchange.worker_ids(folder).values():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(worker, signal.SIGUSR1)
    time.sleep(5 * POLL_SECONDS)


def _logs(folder: Path, limit: int = 8000) -> str:
    """The ends of what the ranks printed."""
    logs = sorted(folder.glob("rank-*.log"))
    return "\n".join(f"--- {log.stem}\n{_read(log)[-limit:]}" for log in logs)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _keep_logs(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for log in (*folder.glob("*.log"), *folder.glob("progress.jsonl")):
        shutil.copy(log, target / log.name)


@contextlib.contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind like Ctrl-C, so that the launch is ended on the way out."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    try:
        old = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
