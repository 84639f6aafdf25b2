"""``fsdp-migrate bulk``: one plan, many repositories."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fsdp_migrate.bulk.plan import Plan
    from fsdp_migrate.bulk.rows import Row
    from fsdp_migrate.bulk.state import State

_PLAN = click.argument("plan_file", metavar="PLAN.toml", type=click.Path())


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def bulk() -> None:
    """Upgrade many repositories from one plan.

    Everything is made in a folder beside the plan. The repositories are only read, until --push.
    """


def _running(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("-j", "--jobs", type=click.IntRange(min=1), help="Repositories at a time.  [default: the CPUs]"),
        click.option("--scheduler", default="", metavar="URL", help="Work on a Dask cluster (tcp://...)."),
        click.option("--fail-fast", is_flag=True, help="Stop at the first repository that fails."),
        click.option(
            "--progress", type=click.Choice(["auto", "plain", "json", "none"]), default="auto", show_default=True
        ),
        _PLAN,
    ):
        command = option(command)
    return command


@bulk.command()
@_running
def preview(plan_file: str, **how: Any) -> int:
    """Say what would change in every repository, and what would be left."""
    return _run(plan_file, preview=True, push=False, opens=False, **how)


@bulk.command()
@click.option("--push", is_flag=True, help="Push the branches, never by force, if the plan says so at its end.")
@click.option("--open", "opens", is_flag=True, help="Also run the plan's command that opens pull requests.")
@_running
def apply(plan_file: str, **how: Any) -> int:
    """Migrate, check and commit every repository on a branch of its own, in the work folder."""
    return _run(plan_file, preview=False, **how)


@bulk.command()
@_PLAN
def status(plan_file: str) -> int:
    """Say where every repository of the plan stands."""
    from fsdp_migrate.bulk.report import summary, text

    rows, total = _known(_plan(plan_file))
    click.echo(text(rows), nl=False)
    click.echo(summary(rows, total), err=True)
    return _code(rows)


@bulk.command()
@click.option("--format", "kind", type=click.Choice(["markdown", "json", "html"]), help="[default: by --output-file]")
@click.option("--output-file", metavar="FILE", help="Write to FILE instead of stdout.")
@_PLAN
def report(plan_file: str, kind: str | None, output_file: str | None) -> int:
    """Report the last run: one row a repository, with its diff."""
    from fsdp_migrate.bulk.report import as_json, html, markdown
    from fsdp_migrate.formats.files import save

    rows, total = _known(_plan(plan_file))
    ending = os.path.splitext(output_file or "")[1]
    kind = kind or {".html": "html", ".json": "json"}.get(ending, "markdown")
    made = {"markdown": markdown, "json": as_json, "html": html}[kind](rows, total)
    if output_file:
        save(output_file, [made])
    else:
        click.echo(made, nl=False)
    return 0


def _plan(path: str) -> Plan:
    from fsdp_migrate.bulk.plan import PlanError, read

    try:
        return read(path)
    except PlanError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _state(plan: Plan) -> Iterator[State]:
    from fsdp_migrate.bulk.state import State, StateError

    try:
        os.makedirs(plan.work_folder, exist_ok=True)
        with State(plan.work_folder) as state:
            yield state
    except (StateError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _known(plan: Plan) -> tuple[list[Row], int]:
    """The rows of the last apply, else of the last preview, in the plan's order."""
    keys = [repository.key for repository in plan.repositories]
    if not os.path.isdir(plan.work_folder):
        return [], len(keys)
    with _state(plan) as state:
        rows = state.rows("apply") or state.rows("preview")
    return [rows[key] for key in keys if key in rows], len(keys)


def _code(rows: list[Row]) -> int:
    from fsdp_migrate.bulk.rows import FAILED

    if any(row.state == FAILED for row in rows):
        return 2
    return int(any(row.left for row in rows))


def _run(
    plan_file: str,
    *,
    preview: bool,
    push: bool,
    opens: bool,
    jobs: int | None,
    scheduler: str,
    fail_fast: bool,
    progress: str,
) -> int:
    from fsdp_migrate.bulk.executors import ClusterError
    from fsdp_migrate.bulk.report import summary, text
    from fsdp_migrate.bulk.rows import CHANGED
    from fsdp_migrate.bulk.state import BusyError, lock
    from fsdp_migrate.run import available_cpus

    plan = _plan(plan_file)
    if (push or opens) and plan.at_end == "nothing":
        raise click.UsageError("the plan ends with nothing: set at-end in it, or leave --push and --open out")
    if opens and plan.at_end == "push":
        raise click.UsageError("the plan names no command that opens pull requests: set at-end to one, or use --push")
    rows: list[Row] = []
    try:
        os.makedirs(plan.work_folder, exist_ok=True)
        # The plan may lie in a repository, to which nothing of this belongs.
        with open(os.path.join(plan.work_folder, ".gitignore"), "w", encoding="ascii") as file:
            file.write("*\n")
        with lock(os.path.join(plan.work_folder, "lock")), _state(plan) as state:
            for row in _rows(
                plan, state, preview, push, opens, jobs or available_cpus(), scheduler, fail_fast, progress
            ):
                rows.append(row)
    except BusyError as error:
        raise click.ClickException(f"{error} works on this plan: wait for it to end, or end it") from error
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    order = {repository.key: number for number, repository in enumerate(plan.repositories)}
    rows.sort(key=lambda row: order[row.key])
    click.echo(text(rows), nl=False)
    sys.stdout.flush()
    click.echo(summary(rows, len(plan.repositories)), err=True)
    return max(_code(rows), int(preview and any(row.state == CHANGED for row in rows)))


def _rows(
    plan: Plan,
    state: State,
    preview: bool,
    push: bool,
    opens: bool,
    count: int,
    scheduler: str,
    fail_fast: bool,
    progress: str,
) -> Iterator[Row]:
    from fsdp_migrate.bulk.executors import executor, rows
    from fsdp_migrate.bulk.live import Progress
    from fsdp_migrate.bulk.work import Job

    mode = "preview" if preview else "apply"
    known = state.rows(mode)
    fingerprint = plan.fingerprint(preview=preview)
    shared = (
        *("work_folder", "branch", "message", "author", "base", "options", "isolated", "checks", "at_end"),
        *("check_timeout", "timeout", "max_megabytes"),
    )
    given = {name: getattr(plan, name) for name in shared}
    given |= {"preview": preview, "push": push or opens, "open": opens, "fingerprint": fingerprint}
    todo = [Job(repository, previous=known.get(repository.key), **given) for repository in plan.repositories]
    with executor(scheduler, count) as pool, Progress(progress, len(todo)) as shown:
        begin = lambda job: shown.begin(job.repository.key, job.repository.name)  # noqa: E731
        for row in rows(todo, pool, fail_fast=fail_fast, begin=begin):
            if not row.cached:
                state.save(mode, row)
            shown.end(row)
            yield row
