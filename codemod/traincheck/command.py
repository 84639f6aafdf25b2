"""``fsdp-migrate train-check``: from the command line to the verdicts. Never imports torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from fsdp_migrate.traincheck import acceptance, launch, plan, recipes, report
from fsdp_migrate.traincheck.environment import CannotRunError, choose
from fsdp_migrate.traincheck.exchange import Versions
from fsdp_migrate.traincheck.job import Job, Recipe
from fsdp_migrate.traincheck.judge import Verdict, judge, not_checked
from fsdp_migrate.traincheck.progress import shown_progress
from fsdp_migrate.worktree import changed_since_commit

EXIT_FAILED = 1
EXIT_COULD_NOT = 2
PLAIN_WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""


@click.command("train-check")
@click.argument("targets", nargs=-1)
@click.option("--steps", default=8, show_default=True, type=click.IntRange(2), help="Training steps per run.")
@click.option("--gpus", type=click.IntRange(1), help="Processes to start. Default: all visible GPUs, else 2 CPU ranks.")
@click.option(
    "--backend",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "bridge", "mcore", "rehearsal"]),
    help="auto: bridge where megatron.bridge is installed, else mcore; rehearsal without a GPU.",
)
@click.option("--layers", type=click.IntRange(1), help="Layers of the scaled-down model.")
@click.option("--hidden", type=click.IntRange(8), help="Width of the scaled-down model.")
@click.option("--seq-length", type=click.IntRange(2), help="Tokens per sample.")
@click.option(
    "--timeout", default=180.0, show_default=True, type=click.FloatRange(1), help="Seconds without progress to allow."
)
@click.option("--baseline/--no-baseline", default=True, help="Compare the losses with plain DDP.")
@click.option("--checkpoint/--no-checkpoint", default=True, help="Save, load into a fresh model, and go on.")
@click.option(
    "--report",
    "report_files",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a report: FILE.json, FILE.xml (JUnit) or FILE.html.",
)
@click.option("--keep-logs", type=click.Path(file_okay=False, path_type=Path), help="Keep what the ranks printed here.")
@click.option(
    "--settings",
    "settings_files",
    multiple=True,
    hidden=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Recipes as a JSON list of settings, instead of a trace.",
)
def train_check(
    targets: Sequence[str],
    steps: int,
    gpus: int | None,
    backend: str,
    layers: int | None,
    hidden: int | None,
    seq_length: int | None,
    timeout: float,
    baseline: bool,
    checkpoint: bool,
    report_files: Sequence[Path],
    keep_logs: Path | None,
    settings_files: Sequence[Path],
) -> None:
    """Train the recipes of TARGETS for a few steps, scaled down to this machine.

    A target is a file, FILE::FUNCTION or a folder; the default is every file that differs from the last commit, which
    is what a migration just wrote. Every recipe with Megatron FSDP on is trained with FSDP and with plain DDP on the
    same data, saved, loaded and resumed.
    """
    options = plan.Options(
        steps=steps, layers=layers, hidden=hidden, seq_length=seq_length, baseline=baseline, checkpoint=checkpoint
    )
    try:
        for file in report_files:
            report.format_of(file)
        found = _recipes(targets, settings_files)
        machine = choose(backend, gpus)
    except (CannotRunError, recipes.NoRecipesError, ValueError) as error:
        click.echo(f"fsdp-migrate train-check: {error}", err=True)
        raise SystemExit(EXIT_COULD_NOT) from None
    named = any("::" in target for target in targets) or bool(settings_files)
    try:
        checked = check(found, machine, options, timeout=timeout, keep_logs=keep_logs, also_without_fsdp=named)
    except KeyboardInterrupt:
        click.echo("fsdp-migrate train-check: interrupted; nothing was left running", err=True)
        raise SystemExit(130) from None
    for file in report_files:
        file.write_text(report.render(checked, report.format_of(file)), encoding="utf-8")
    report.print_table(checked, Console(file=sys.stdout, width=None if sys.stdout.isatty() else PLAIN_WIDTH))
    if not checked.verdicts:
        raise SystemExit(EXIT_COULD_NOT)
    raise SystemExit(0 if all(verdict.good for verdict in checked.verdicts) else EXIT_FAILED)


def _recipes(targets: Sequence[str], settings_files: Sequence[Path]) -> tuple[Recipe, ...]:
    found = [recipe for file in settings_files for recipe in recipes.from_file(file)]
    if not targets and not settings_files:
        targets = [path for path in changed_since_commit(".") if path.endswith(".py")]
    if targets:
        found += recipes.traced(targets)
    if not found and not settings_files and not targets:
        raise recipes.NoRecipesError(
            "no Python file differs from the last commit; name what to check: FILE, FILE::FUNCTION or a folder"
        )
    return tuple(found)


def check(
    found: Sequence[Recipe],
    machine: plan.Machine,
    options: plan.Options,
    *,
    timeout: float,
    keep_logs: Path | None = None,
    also_without_fsdp: bool = True,
) -> report.Checked:
    """Check recipes on a machine.

    Recipes without Megatron FSDP are counted, or reported as not checked with `also_without_fsdp`.
    """
    jobs: dict[int, Job] = {}
    verdicts: dict[int, Verdict] = {}
    without = 0
    for number, recipe in enumerate(found):
        if recipe.reason:
            if also_without_fsdp:
                verdicts[number] = not_checked(recipe.name, recipe.file, f"could not be traced: {recipe.reason}")
            else:
                without += 1
        elif not acceptance.fsdp_is_on(recipe.settings):
            if also_without_fsdp:
                verdicts[number] = not_checked(recipe.name, recipe.file, "Megatron FSDP is not switched on")
            else:
                without += 1
        else:
            jobs[number] = plan.fit(recipe, machine, options)
    to_run = {number: job for number, job in jobs.items() if not job.refusals}
    launched = launch.Launched(versions=Versions())
    if to_run:
        with shown_progress({number: job.name for number, job in to_run.items()}) as progress:
            launched = launch.run_jobs(
                to_run, machine.backend, machine.ranks, timeout=timeout, progress=progress, keep_logs=keep_logs
            )
    for number, job in jobs.items():
        verdicts[number] = judge(job, launched.outcomes.get(number, ()), machine.backend)
    return report.Checked(
        verdicts=tuple(verdicts[number] for number in sorted(verdicts)),
        backend=machine.backend,
        ranks=machine.ranks,
        versions=launched.versions,
        launches=launched.starts,
        without_fsdp=without,
    )
