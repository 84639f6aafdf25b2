"""One rank of a launch: ``python -m fsdp_migrate.traincheck.worker FOLDER``, started by ``torch.distributed.run``.

Jobs run one after the other in the same process, so imports, process groups and CUDA start-up are paid once. A job
that fails ends the process, since the other ranks may wait in a collective: the parent starts the rest afresh.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fsdp_migrate.traincheck import exchange
from fsdp_migrate.traincheck.exchange import Failure, Outcome
from fsdp_migrate.traincheck.job import Job
from fsdp_migrate.traincheck.tether import die_with_parent

FAILED = 3
"""Exit code of a rank whose job failed; its result file says why."""

Report = Callable[[str], None]


def main() -> None:
    """Work through the launch's jobs."""
    die_with_parent()
    folder = Path(sys.argv[1])
    rank = int(os.environ["RANK"])
    exchange.announce(folder, rank)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    backend, jobs = exchange.read_jobs(folder)
    first = next(iter(jobs))
    doing = ["start"]

    def failed(number: int, error: BaseException, outcome: Outcome) -> None:
        failure = Failure(doing[0], type(error).__name__, _first_lines(str(error)), traceback.format_exc())
        traceback.print_exc()
        exchange.write_json(folder / f"result-{number}-{rank}.json", asdict(replace(outcome, failure=failure)))
        os._exit(FAILED)  # no clean-up: it would wait for the other ranks

    try:
        run, versions, close = _backend(backend)
    except Exception as error:
        failed(first, error, Outcome(first, rank))
    if rank == 0:
        exchange.append_event(folder, {"versions": asdict(versions)})
    for number, job in jobs.items():

        def report(what: str, number: int = number) -> None:
            doing[0] = what
            if rank == 0:
                exchange.append_event(folder, {"job": number, "doing": what})

        report("start")
        outcome = Outcome(number, rank)
        started = time.perf_counter()

        def keep(**parts: Any) -> None:
            nonlocal outcome
            outcome = replace(outcome, **parts)

        try:
            run(job, folder / f"checkpoint-{number}", report, keep)
        except Exception as error:
            failed(number, error, replace(outcome, seconds=time.perf_counter() - started))
        keep(seconds=time.perf_counter() - started)
        exchange.write_json(folder / f"result-{number}-{rank}.json", asdict(outcome))
        if rank == 0:
            exchange.append_event(folder, {"job": number, "done": True})
    close()


Run = Callable[[Job, Path, Report, Callable[..., None]], None]


def _backend(name: str) -> tuple[Run, exchange.Versions, Callable[[], None]]:
    if name == "bridge":
        from fsdp_migrate.traincheck import bridge

        return bridge.start()
    if name == "rehearsal":
        from fsdp_migrate.traincheck import rehearsal

        rehearsal.install()
    from fsdp_migrate.traincheck import trial

    return trial.start(on_gpu=name != "rehearsal")


def _first_lines(text: str, limit: int = 600) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + " …"


if __name__ == "__main__":
    main()
