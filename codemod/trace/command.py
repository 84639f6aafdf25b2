"""``fsdp-migrate trace``: print the settings that recipes really end up with."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fsdp_migrate.findings import Finding
    from fsdp_migrate.trace.values import Setting, TracedRecipe

_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}
_SCRIPT_ARGUMENTS = "fsdp_migrate.trace.script_arguments"


class _Command(click.Command):
    """Keeps what follows ``--`` for the script, instead of taking it for more targets."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            split = args.index("--")
            ctx.meta[_SCRIPT_ARGUMENTS] = args[split + 1 :]
            args = args[:split]
        return super().parse_args(ctx, args)


@click.command(cls=_Command, options_metavar="[OPTIONS]")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET... [KEY=VALUE]... [-- SCRIPT_ARGUMENTS]")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "flat"]),
    default="text",
    show_default=True,
    help="A table, a list of recipes as JSON, or one 'a.b = value' line per setting.",
)
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument for the recipe functions that take it; VALUE is a Python literal, else text.",
)
@click.option(
    "--overrides",
    "override_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML file laid over each recipe, before the KEY=VALUE words.",
)
@click.option("--section", "sections", multiple=True, metavar="NAME", help="Show only this section, such as ddp.")
@click.option("--real", is_flag=True, help="Use the installed Megatron-Bridge and torch instead of stand-ins.")
@click.option(
    "--target",
    "release",
    metavar="RELEASE",
    help="The Megatron-Bridge release of base recipes that are not in the project: 0.4, 0.5.1, main. "
    "Default: the installed one, else the newest known.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="Seconds for one recipe."
)
@click.option("--verbose", "-v", is_flag=True, help="Also show overridden settings and what was assumed.")
@click.pass_context
def trace(
    ctx: click.Context,
    targets: tuple[str, ...],
    output_format: str,
    arguments: tuple[str, ...],
    override_files: tuple[Path, ...],
    sections: tuple[str, ...],
    real: bool,
    release: str | None,
    timeout: float,
    verbose: bool,
) -> None:
    """Run recipes and print the settings they end up with.

    TARGET is a file, file.py::function or a folder. In a file these are its public *_config functions, its config
    objects and, for a script, the configs that it hands to pretrain() or finetune(). KEY=VALUE words are overrides
    laid over each recipe, as on a Megatron-Bridge command line. Below the settings stands what conflicts among them.

    The recipes' own code is executed: in a child process, with a time and a memory limit, without network and without
    writing anywhere but to a temporary folder. Exit code 1 when some recipe could not be evaluated, 2 when there is
    nothing to evaluate.
    """
    from fsdp_migrate.trace.run import TraceError, trace_targets

    words = [word for word in targets if _is_override(word)]
    try:
        recipes = trace_targets(
            [target for target in targets if target not in words],
            arguments=dict(map(_argument, arguments)),
            overrides=words,
            override_files=override_files,
            script_arguments=ctx.meta.get(_SCRIPT_ARGUMENTS, ()),
            timeout=timeout,
            real=real,
            release=release,
        )
    except TraceError as error:
        click.echo(f"error: {error}", err=True)
        ctx.exit(2)
    if not recipes:
        click.echo(
            "error: no recipe found: give a file with a *_config function, a config object or a script that calls "
            "pretrain(), or name a function as file.py::function",
            err=True,
        )
        ctx.exit(2)
    if output_format == "json":
        found = [_as_json(recipe, sections, verbose) | _judged(recipe, release) for recipe in recipes]
        click.echo(json.dumps(found, indent=2))
    elif output_format == "flat":
        for line in _flat(recipes, sections, verbose):
            click.echo(line)
    else:
        _table(recipes, sections, verbose, release)
    failed = sum(bool(recipe.reason) for recipe in recipes)
    noun = "recipe" if len(recipes) == 1 else "recipes"
    click.echo(f"{len(recipes) - failed} of {len(recipes)} {noun} evaluated", err=True)
    ctx.exit(1 if failed else 0)


def _is_override(word: str) -> bool:
    return not Path(word.partition("::")[0]).exists() and ("=" in word or word.startswith("~"))


def _argument(text: str) -> tuple[str, object]:
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise click.BadParameter(f"{text!r}: write NAME=VALUE", param_hint="--arg")
    try:
        literal = ast.literal_eval(value)
        json.dumps(literal)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return name, {"true": True, "false": False, "null": None}.get(value, value)
    return name, literal


def _chosen(recipe: TracedRecipe, sections: Sequence[str]) -> Iterable[Setting]:
    for setting in recipe.settings:
        if not sections or any(setting.path == s or setting.path.startswith(f"{s}.") for s in sections):
            yield setting


def _as_json(recipe: TracedRecipe, sections: Sequence[str], verbose: bool) -> dict[str, Any]:
    from fsdp_migrate.trace.values import to_json

    def entry(setting: Setting) -> dict[str, Any]:
        found = {"path": setting.path, "value": to_json(setting.value), "file": setting.file, "line": setting.line}
        if verbose and setting.overridden:
            found["overridden"] = [{k: v for k, v in entry(old).items() if k != "path"} for old in setting.overridden]
        return found

    found: dict[str, Any] = {"name": recipe.name, "file": recipe.file, "line": recipe.line}
    if recipe.reason:
        return found | {"reason": recipe.reason}
    found["settings"] = [entry(setting) for setting in _chosen(recipe, sections)]
    if verbose:
        found["assumptions"] = [{"text": a.text, "file": a.file, "line": a.line} for a in recipe.assumptions]
    return found


def _conflicts(recipe: TracedRecipe, release: str | None) -> Iterable[Finding]:
    """What the rules about conflicts conclude. Nothing of it counts for the exit code: that is `--trace`'s to say."""
    from fsdp_migrate.judging import conflicts_of

    return () if recipe.reason else conflicts_of(recipe, release or "")


def _judged(recipe: TracedRecipe, release: str | None) -> dict[str, Any]:
    found = [
        {"code": f.code, "severity": f.severity.value, "message": f.message, "why": f.why, "line": f.place.line}
        for f in _conflicts(recipe, release)
    ]
    return {} if recipe.reason else {"findings": found}


def _flat(recipes: Iterable[TracedRecipe], sections: Sequence[str], verbose: bool) -> Iterable[str]:
    for recipe in recipes:
        yield f"# {recipe.name} ({recipe.file}:{recipe.line})"
        if recipe.reason:
            yield f"# not evaluated: {recipe.reason}"
        for setting in _chosen(recipe, sections):
            for old in setting.overridden if verbose else ():
                yield f"# {old.path} = {_value(old.value)}  overridden, {old.place}"
            yield f"{setting.path} = {_value(setting.value)}" + (f"  # {setting.place}" if verbose else "")
        for assumption in recipe.assumptions if verbose else ():
            yield f"# assumed: {assumption.text} ({assumption.file}:{assumption.line})"


def _value(value: object) -> str:
    from fsdp_migrate.trace.values import Unknown, to_json

    if isinstance(value, Unknown):
        return str(value)
    return json.dumps(to_json(value), ensure_ascii=False)


def _table(recipes: Iterable[TracedRecipe], sections: Sequence[str], verbose: bool, release: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Not a terminal: as wide as it takes, so that nothing is cut in a pipe.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 1000, highlight=False, soft_wrap=False)
    for recipe in recipes:
        console.print(Text(f"{recipe.name}  {recipe.file}:{recipe.line}", style="bold"))
        if recipe.reason:
            console.print(Text(f"  not evaluated: {recipe.reason}", style="red"))
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("setting", no_wrap=True)
        table.add_column("value", overflow="fold", min_width=12)
        table.add_column("set at", style="dim", overflow="fold")
        for setting in _chosen(recipe, sections):
            for old in setting.overridden if verbose else ():
                table.add_row(
                    *(Text(cell, style="strike dim") for cell in _row(old)), Text(f"{old.place} (overridden)")
                )
            table.add_row(*map(Text, _row(setting)), Text(setting.place))
        if table.row_count:
            with console.capture() as captured:
                console.print(table)
            click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
        for assumption in recipe.assumptions if verbose else ():
            console.print(Text(f"  assumed: {assumption.text} ({assumption.file}:{assumption.line})", style="yellow"))
        for finding in _conflicts(recipe, release):
            style = _STYLES[finding.severity.value]
            console.print(Text(f"  {finding.code} {finding.message} (line {finding.place.line})", style=style))
        console.print()


def _row(setting: Setting) -> tuple[str, str]:
    return f"  {setting.path}", _value(setting.value)
