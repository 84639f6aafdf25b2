"""From paths to results: reads and filters every file here, and migrates the few that matter, in workers when it pays.

The output does not depend on the number of workers. Nothing heavy is imported unless a file matters.

The command line and the workers run without the cycle collector, which takes a third of the time: syntax trees have no
cycles, and what else there is, is collected once in a while.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from fsdp_migrate.discover import (
    File,
    Problem,
    discover,
    explain,
    follow,
    frozen_reason,
    language_of_script,
    outside,
    read,
    real_folders,
)
from fsdp_migrate.findings import Result
from fsdp_migrate.prefilter import may_matter

if TYPE_CHECKING:
    from concurrent.futures import Future

    from fsdp_migrate.api import Options

Ranges: TypeAlias = tuple[tuple[int, int], ...]
Task: TypeAlias = Callable[[str], Result | None]
Report: TypeAlias = Callable[[str, int, int | None], None]

# Measured: two workers need 0.6 s to start, and each imports the parser and reads the project's modules again. Files
# differ so much that an average is worth something only after a while.
POOL_PAYS = 3.0  # seconds of work left from which on a pool pays
_SAMPLE = 1.5  # seconds of work before the rest is estimated
_FILES_PER_COLLECTION = 256
_MOST_WORKERS = 61  # Windows cannot wait for more
_AHEAD = 4  # files per worker that are given out before their results are asked for


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result, and what became of its fixes: `frozen` says why they are not for this file."""

    result: Result
    frozen: str = ""
    written: bool = False
    place: str = ""  # the real path at which the file was found; empty: nothing says that it was one


@dataclass(slots=True)
class Found:
    """The files to migrate, in order, with why some are reported only; what could not be looked at; how many were.

    `left_out` are folders (with a slash at the end) and files that do not count, and why; `excluded` counts the files
    that a setting leaves out.
    """

    frozen: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)  # by path: the real path
    problems: list[Problem] = field(default_factory=list)
    skipped: list[Problem] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    excluded: Counter[str] = field(default_factory=Counter)
    looked_at: int = 0

    @property
    def paths(self) -> list[str]:
        return list(self.frozen)

    def keep(self, paths: Container[str]) -> None:
        """Forget the files that are not among `paths`."""
        self.frozen = {path: reason for path, reason in self.frozen.items() if path in paths}


def find(
    paths: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    include: Sequence[str] = (),
    is_wanted: Callable[[bytes], bool] = may_matter,
    left_out: Callable[[str], str] = lambda path: "",
    left_out_if_named: bool = False,
    explains: bool = False,
    report: Report | None = None,
) -> Found:
    """Read every file below `paths`; keep those that the migration has to look at, each once, in the order of names.

    `left_out` says why a file does not count, if it does not. It is not asked about files that were named, unless
    `left_out_if_named`. With `explains`, `Found.left_out` says what else does not count.
    """
    found = Found()
    folders = real_folders(paths)
    hits: dict[str, tuple[str, str]] = {}  # by the file's real path: two names of one file are one file
    skip = (lambda path, why: found.left_out.setdefault(path, why)) if explains else None
    for item in discover(paths, exclude=exclude, include=include, skip=skip):
        if isinstance(item, Problem):
            found.problems.append(item)
            continue
        path, reason = item.path, ""
        if (why := left_out(path)) and (left_out_if_named or not item.named):
            found.excluded[why] += 1
            if explains:
                found.left_out[path] = why
            continue
        try:
            data = read(path, is_wanted)
        except OSError as error:
            if error.errno not in _SYMBOLIC_LINK:
                if problem := _problem(item, error):
                    found.problems.append(problem)
                continue
            linked = _linked(item, folders, is_wanted)
            if isinstance(linked, Problem):
                found.problems.append(linked)
                continue
            data, reason = linked
        found.looked_at += 1
        if report is not None and not found.looked_at % 256:
            report("Reading", found.looked_at, None)
        if data is None:
            continue
        if not item.language and not language_of_script(data):
            if item.named:
                found.skipped.append(Problem(path, "names the flag, but is of a kind that fsdp-migrate does not know"))
            continue
        real = os.path.realpath(path)
        if not item.named:
            reason = reason or outside(real, folders)
        if real not in hits or path < hits[real][0]:
            hits[real] = path, reason or frozen_reason(path, data)
    found.places = {path: real for real, (path, _) in hits.items()}
    found.frozen = dict(sorted(hits.values(), key=lambda hit: hit[0].split("/")))
    found.problems.sort(key=lambda problem: problem.path)
    return found


_SYMBOLIC_LINK = (errno.ELOOP, getattr(errno, "EMLINK", errno.ELOOP))  # what O_NOFOLLOW gives; BSD has the second


def _problem(file: File, error: OSError) -> Problem | None:
    # Git still lists what was deleted since the last commit, and a walk can be overtaken by a deletion.
    gone = isinstance(error, FileNotFoundError | IsADirectoryError) and not file.named
    return None if gone else Problem(file.path, explain(file.path, error))


def _linked(
    file: File, folders: tuple[str, ...], is_wanted: Callable[[bytes], bool]
) -> Problem | tuple[bytes | None, str]:
    """The content of what a symbolic link stands for, and why it is reported but not edited."""
    target, reason = os.path.realpath(file.path), ""
    if not file.named:
        followed = follow(file.path, folders)
        if followed is None:
            return None, ""
        if isinstance(followed, Problem):
            return followed
        target, reason = followed
    try:
        return read(target, is_wanted), reason
    except OSError as error:
        return Problem(file.path, explain(file.path, error))


def migrate(
    path: str,
    options: Options | Callable[[str], Options],
    lines: Mapping[str, Ranges],
    frozen: Container[str] = (),
    verbose: bool = False,
) -> Result | None:
    """Migrate one file. Picklable, for workers; None when there turns out to be nothing to look at.

    `options` are the same for every file, or a function that gives those of one.
    """
    from fsdp_migrate.api import migrate_file

    if not next(_position) % _FILES_PER_COLLECTION:
        gc.collect()
    try:
        result = migrate_file(path, options(path) if callable(options) else options, lines=lines.get(path, ()))
    except Exception as error:
        result = failure(path, f"internal error ({type(error).__name__}: {error}); please report it with this file")
        if verbose:
            result = replace(result, error=f"{result.error}\n{traceback.format_exc()}")
    if result is not None and path in frozen:
        result = replace(result, output=result.source, fixed=())
    return result


_position = count(1)


def failure(path: str, error: str) -> Result:
    """The result for a file that could not be looked at."""
    return Result(path, b"", b"", error=error)


def available_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    paths: Sequence[str], task: Task, *, jobs: int, pool_pays: float = POOL_PAYS, sample: float = _SAMPLE
) -> Iterator[Result | None]:
    """The results of `task`, one for each of `paths`, in their order.

    The first files are done right here. When what is left would take longer than `pool_pays` seconds, workers do it.
    """
    spent = 0.0
    for position, path in enumerate(paths):
        left = len(paths) - position
        if jobs > 1 and left > 1 and spent >= sample and spent / max(position, 1) * left >= pool_pays:
            yield from _in_workers(paths[position:], task, min(jobs, left, _MOST_WORKERS))
            return
        began = time.perf_counter()
        result = task(path)
        spent += time.perf_counter() - began
        yield result


def _in_workers(paths: Sequence[str], task: Task, jobs: int) -> Iterator[Result | None]:
    from concurrent.futures.process import BrokenProcessPool

    waiting = deque(paths)
    while waiting:
        given: deque[tuple[str, Future[Result | None]]] = deque()
        try:
            with _Pool(jobs) as pool:
                try:
                    while waiting or given:
                        while waiting and len(given) < jobs * _AHEAD:
                            given.append((waiting[0], pool.submit(task, waiting[0])))
                            waiting.popleft()
                        result = given[0][1].result()
                        given.popleft()
                        yield result
                    return
                except BrokenProcessPool:
                    pass
        except OSError:
            # No more processes, open files or semaphores are to be had.
            yield from map(task, [*(path for path, _ in given), *waiting])
            return
        # One of these files killed its worker, and the pool does not say which: give each a worker of its own.
        for path, future in given:
            done = future.done() and not future.cancelled() and future.exception() is None
            yield future.result() if done else _alone(path, task)


def _alone(path: str, task: Task) -> Result | None:
    from concurrent.futures.process import BrokenProcessPool

    try:
        with _Pool(1) as pool:
            return pool.submit(task, path).result()
    except OSError as error:
        return failure(path, f"no process could be started for it ({error.strerror or error}): run again with -j 1")
    except BrokenProcessPool:
        return failure(
            path, "the process that migrated it died (a crash of the parser, or no memory left); migrate it by hand"
        )


class _Pool:
    """A process pool of which nothing stays behind, whatever ends the run."""

    def __init__(self, jobs: int) -> None:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import resource_tracker

        self._children = multiprocessing.active_children
        self._strangers = set(self._children())
        # Started first, because it unblocks what `submit` blocks.
        with _safe_path():
            resource_tracker.ensure_running()
        # Not fork: it copies locks of threads that do not exist in the child. Spawn is the same on every system.
        context = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker)

    def submit(self, task: Task, path: str) -> Future[Result | None]:
        # This may start a worker, which inherits what is blocked. Ctrl-C goes to the whole process group; it is for the
        # parent alone, which decides what becomes of the workers.
        with _safe_path():
            if not hasattr(signal, "pthread_sigmask"):
                return self._executor.submit(task, path)
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                return self._executor.submit(task, path)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for child in set(self._children()) - self._strangers:
                child.terminate()
        self._executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that start here do not import from the working directory, as `python -c` would.

    It is the user's tree: a file called `multiprocessing.py` in it would run.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


_SAFE_PATH = "PYTHONSAFEPATH"


def _start_worker() -> None:
    import multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.join,), daemon=True).start()
    gc.disable()


def _end_with(wait: Callable[[], None]) -> None:
    # A killed parent cannot stop its workers, and they would wait for its next file for ever.
    wait()
    os._exit(1)
