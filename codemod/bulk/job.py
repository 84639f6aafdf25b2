"""One repository in a process of its own, so that a crash, a full memory or a kill ends nothing else.

The process reads its job from stdin, which stays open: when it ends, whoever started it is gone, and so is the work.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace

from fsdp_migrate.bulk.git import GitError, Remote, ask
from fsdp_migrate.bulk.rows import FAILED, Row
from fsdp_migrate.bulk.sources import without_credentials
from fsdp_migrate.bulk.work import Job, is_current, is_delivered, refusal, running, work

_children: set[subprocess.Popen[bytes]] = set()
_guard = threading.Lock()
_stopped = threading.Event()
_GRACE = 5.0  # seconds in which a child that lost its stdin ends what it started


def task(job: Job) -> Row:
    """The row of one repository. Runs in a thread here or in a worker of a cluster; never raises."""
    began = time.perf_counter()
    if job.repository.problem:
        return job.row(FAILED, job.repository.problem)
    folder = job.repository.folder
    if folder and not os.path.isdir(folder):
        return job.row(FAILED, "is not there: correct the entry in the plan")
    try:
        remote = ask(job.repository.url, job.base, job.branch, job.timeout)
    except GitError as error:
        return _with_time(job.row(FAILED, f"cannot be read: {error}"), began)
    if reason := refusal(job, remote):
        return _with_time(job.row(FAILED, reason), began)
    if job.previous is not None and is_current(job, remote) and is_delivered(job, job.previous):
        return replace(job.previous, cached=True, seconds=0.0)
    return _with_time(_alone(job, remote), began)


def _with_time(row: Row, began: float) -> Row:
    return replace(row, seconds=round(time.perf_counter() - began, 3))


def _alone(job: Job, remote: Remote) -> Row:
    with tempfile.TemporaryFile() as complaints:
        with _guard:
            if _stopped.is_set():
                return job.row(FAILED, "was interrupted: run again to go on")
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "fsdp_migrate.bulk.job"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,
            )
            _children.add(child)
        assert child.stdin is not None and child.stdout is not None
        late = threading.Event()
        timer = threading.Timer(job.timeout, _end_late, (child, late))
        timer.daemon = True
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                pickle.dump((job, remote), child.stdin)
                child.stdin.flush()
            output = child.stdout.read()
            code = child.wait()
        finally:
            timer.cancel()
            _children.discard(child)
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
            child.stdout.close()
        if code == 0 and output:
            return Row.from_json(output.decode())
        if late.is_set():
            return job.row(FAILED, f"took longer than {job.timeout:g} s: raise `timeout` in the plan")
        complaints.seek(0)
        said = complaints.read()[-2000:].decode("utf-8", "backslashreplace").strip().splitlines()
    why = f"signal {-code}" if code < 0 else f"code {code}"
    last = f": {without_credentials(said[-1])}" if said else " (a crash, or no memory left)"
    return job.row(FAILED, f"the process that migrated it ended with {why}{last}; look at it by hand")


def _end_late(child: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    _end(child)


def stop() -> None:
    """End all children and what they started; no further ones start."""
    _stopped.set()
    with _guard:
        children = list(_children)
    for child in children:
        _end(child)


def go_on() -> None:
    """Let children start again after `stop`."""
    _stopped.clear()


def _end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE)
        return
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)


def main() -> None:
    # Git's output, and whatever else prints, must not get between the lines of the answer.
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.set_inheritable(answer, False)
    job, remote = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    row = work(job, remote)
    with open(answer, "w", encoding="utf-8") as file:
        file.write(row.to_json())


def _end_with_stdin() -> None:
    os.read(sys.stdin.fileno(), 1)
    for group in tuple(running):
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
