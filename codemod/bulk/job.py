"""One repository in a process of its own, so that a crash, a full memory or a kill ends nothing else.

The process reads its jobs from stdin, which stays open: when it ends, whoever started it is gone, and so is the work.
On this machine it does many, one after another; on a cluster one, so that nothing stays behind there.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from queue import SimpleQueue

from fsdp_migrate.bulk.git import GitError, Remote, ask
from fsdp_migrate.bulk.rows import FAILED, Row
from fsdp_migrate.bulk.sources import without_credentials
from fsdp_migrate.bulk.work import Job, is_current, is_delivered, refusal, running, work

_children: set[subprocess.Popen[bytes]] = set()
_guard = threading.Lock()
_stopped = threading.Event()
_SHARE = 50  # jobs of one child: a process keeps the memory that it once had
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
    child = _kept.child if isinstance(_kept.child, _Child) else _Child()
    try:
        row = child.do(job, remote)
    except _StoppedError:
        return job.row(FAILED, "was interrupted: run again to go on")
    if _kept.keeps and not child.is_spent:
        _kept.child = child
    else:
        _kept.child = None
        child.close()
    return row


class _Kept(threading.local):
    """The child of this thread, if it does one repository after another: starting one takes longer than many a job."""

    keeps = False
    child: _Child | None = None


_kept = _Kept()


def keep_child() -> None:
    """Let this thread use one child for many jobs. For pools of our own, which `stop` their children in the end."""
    _kept.keeps = True


class _StoppedError(Exception):
    """No child may start any more."""


class _Child:
    """A process that does one job after another, until it dies or has done its share."""

    def __init__(self) -> None:
        self._done = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115

    @property
    def is_spent(self) -> bool:
        return self._done >= _SHARE or self._process is None or self._process.poll() is not None

    def _started(self) -> subprocess.Popen[bytes]:
        with _guard:
            if _stopped.is_set():
                raise _StoppedError
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "fsdp_migrate.bulk.job"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._complaints,
                    start_new_session=True,
                )
                _children.add(self._process)
            return self._process

    def do(self, job: Job, remote: Remote) -> Row:
        """The row of a job, also if the process dies of it."""
        child = self._started()
        self._done += 1
        assert child.stdin is not None and child.stdout is not None
        late = threading.Event()
        timer = threading.Timer(job.timeout, _end_late, (child, late))
        timer.daemon = True
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError, ValueError):
                pickle.dump((job, remote), child.stdin)
                child.stdin.flush()
            line = child.stdout.readline()
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            return Row.from_json(line.decode())
        if late.is_set():
            return job.row(FAILED, f"took longer than {job.timeout:g} s: raise `timeout` in the plan")
        code = child.wait()
        self._complaints.seek(0)
        said = self._complaints.read()[-2000:].decode("utf-8", "backslashreplace").strip().splitlines()
        why = f"signal {-code}" if code < 0 else f"code {code}"
        last = f": {without_credentials(said[-1])}" if said else " (a crash, or no memory left)"
        return job.row(FAILED, f"the process that migrated it ended with {why}{last}; look at it by hand")

    def close(self) -> None:
        if self._process is not None:
            _end(self._process)
            _children.discard(self._process)
            assert self._process.stdout is not None
            self._process.stdout.close()
        self._complaints.close()


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
    gc.disable()  # `fsdp_migrate.run` says why.
    # Git's output, and whatever else prints, must not get between the lines of the answer.
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.set_inheritable(answer, False)
    waiting: SimpleQueue[tuple[Job, Remote]] = SimpleQueue()
    threading.Thread(target=_read, args=(waiting,), daemon=True).start()
    with open(answer, "w", encoding="utf-8") as file:
        while True:
            file.write(work(*waiting.get()).to_json() + "\n")
            file.flush()
            gc.collect()


def _read(waiting: SimpleQueue[tuple[Job, Remote]]) -> None:
    """Take jobs from stdin. At its end, whoever gave them is gone, and another run may want to go on."""
    try:
        while True:
            waiting.put(pickle.load(sys.stdin.buffer))
    except EOFError:
        pass
    finally:
        for group in tuple(running):
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
