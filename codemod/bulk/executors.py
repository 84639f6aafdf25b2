"""Where the work runs: threads here that each wait for one process, or the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed

from fsdp_migrate.bulk import job as jobs
from fsdp_migrate.bulk.rows import FAILED, Row
from fsdp_migrate.bulk.work import Job


class ClusterError(Exception):
    """The scheduler cannot be used; the text says what to do."""


@contextlib.contextmanager
def executor(scheduler: str, count: int) -> Iterator[Executor]:
    """An executor of `concurrent.futures`. On the way out, what has not begun is dropped.

    Raises:
        ClusterError: there is no such scheduler, or `distributed` is not installed.
    """
    if not scheduler:
        pool = ThreadPoolExecutor(count, initializer=jobs.keep_child)
        jobs.go_on()
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            jobs.stop()
            pool.shutdown()
        return
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError("--scheduler needs an extra: pip install 'fsdp-migrate[dask]'") from None
    try:
        client = Client(scheduler, timeout=20, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(f"there is no Dask scheduler at {scheduler} ({error}): start one, or correct it") from None
    # A worker that dies takes its task with it; another worker takes it up once.
    with client, client.get_executor(retries=1, pure=False) as cluster:
        yield cluster


def rows(
    todo: Sequence[Job], pool: Executor, *, fail_fast: bool, begin: Callable[[Job], None] = lambda job: None
) -> Iterator[Row]:
    """The row of every job, as they come. With `fail_fast`, the first failure is the last row."""
    here = isinstance(pool, ThreadPoolExecutor)

    def seen(job: Job) -> Row:
        begin(job)
        return jobs.task(job)

    given = {pool.submit(seen if here else jobs.task, job): job for job in todo}
    for future in as_completed(given):
        job = given.pop(future)
        try:
            row = future.result()
        except Exception as error:
            row = job.row(FAILED, f"its worker was lost ({type(error).__name__}: {error}): run again to try once more")
        yield row
        if fail_fast and row.state == FAILED:
            for other in given:
                other.cancel()
            if here:
                jobs.stop()
            return
