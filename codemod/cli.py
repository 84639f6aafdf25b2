"""The command line. It parses, calls the steps in order, and turns what they say into output and an exit code."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click
from click.shell_completion import CompletionItem

from fsdp_migrate import __version__, streams

if TYPE_CHECKING:
    from fsdp_migrate.findings import Result
    from fsdp_migrate.progress import Progress
    from fsdp_migrate.render import Totals
    from fsdp_migrate.run import Found, Outcome, Ranges
    from fsdp_migrate.settings import Chosen

PROGRAM = "fsdp-migrate"
TARGETS = ("0.4", "0.5", "0.6", "main")
STDIN_NAME = "stdin.py"

# name -> ("module:attribute", what it does). The module is imported when the subcommand is used.
SUBCOMMANDS = {
    "rules": ("fsdp_migrate.explain:rules", "List the rules."),
    "explain": ("fsdp_migrate.explain:explain", "Say what a rule does, why, and show examples."),
    "quickfix": ("fsdp_migrate.quickfix:quickfix", "Print or apply the fix for one line, for editors."),
    "lsp": ("fsdp_migrate.server.command:lsp", "Serve an editor over stdin and stdout (Language Server Protocol)."),
    "completion": ("fsdp_migrate.completion:completion", "Print the completion script for bash, zsh or fish."),
    "schema": ("fsdp_migrate.formats.command:schema", "Print the JSON schema of --output-format json."),
    "trace": ("fsdp_migrate.trace.command:trace", "Print the settings that a recipe really ends up with."),
    "train-check": ("fsdp_migrate.traincheck.command:train_check", "Train recipes for a few steps and judge them."),
    "bulk": ("fsdp_migrate.bulk.command:bulk", "Upgrade many repositories from one plan."),
}
_MIGRATION = "migrate"  # what runs when no subcommand is named; not a word of the command line


class _Entry(click.Group):
    """The migration with its PATHS, unless the first word is a subcommand's name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in SUBCOMMANDS:
            args = [_MIGRATION, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in SUBCOMMANDS:
            return super().get_command(ctx, name)
        module, _, attribute = SUBCOMMANDS[name][0].partition(":")
        try:
            command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise click.ClickException(
                f"'{name}' needs the Python package {error.name!r}, which is not installed: install it and try again"
            ) from error
        assert isinstance(command, click.Command)
        return command


class _MigrationContext(click.Context):
    @property
    def command_path(self) -> str:
        return self.parent.command_path if self.parent else PROGRAM


class _Migration(click.Command):
    context_class = _MigrationContext

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in SUBCOMMANDS.items()])
        super().format_epilog(ctx, formatter)


if TYPE_CHECKING:
    _Converted = click.ParamType[tuple[str, int, int]]
else:
    # Old click, which the project allows, has no generic types.
    _Converted = click.ParamType


class _LineRange(_Converted):
    name = "FILE:A-B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int, int]:
        file, _, span = str(value).rpartition(":")
        first, dash, last = span.partition("-")
        if not file or not first.isdecimal() or not (last.isdecimal() if dash else True):
            self.fail(f"{value!r} is not FILE:A-B: write for example recipes/llama.py:10-20", param, ctx)
        start, end = int(first), int(last or first)
        if not 1 <= start <= end:
            self.fail(f"{value!r}: lines count from 1, and the first is not after the last", param, ctx)
        return file, start, end


def _split(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for words in value for word in words.replace(",", " ").split())


def _first_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    # A subcommand can only be the first word.
    names = [] if ctx.params.get("paths") else [name for name in SUBCOMMANDS if name.startswith(incomplete)]
    return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]


def _codes_like(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from fsdp_migrate.registry import rules

    return [CompletionItem(r.code, help=r.summary) for r in rules() if r.code.startswith(incomplete.upper())]


def _known_codes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    prefixes = tuple(word.upper() for word in _split(ctx, param, value))
    if prefixes:
        from fsdp_migrate.registry import codes

        known = sorted(codes())
        for prefix in prefixes:
            if not any(code.startswith(prefix) for code in known):
                from difflib import get_close_matches

                near = get_close_matches(prefix, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]}?" if near else f"'{PROGRAM} rules' lists them all"
                raise click.BadParameter(f"no rule code begins with {prefix}: {hint}", ctx, param)
    return prefixes


_CODES: dict[str, Any] = {
    "multiple": True,
    "callback": _known_codes,
    "shell_complete": _codes_like,
    "metavar": "CODES",
}


@click.group(cls=_Entry, name=PROGRAM, add_help_option=False)
def cli() -> None:
    """Entry point: the migration, or a subcommand."""


@cli.command(
    _MIGRATION,
    cls=_Migration,
    hidden=True,
    short_help="move use_megatron_fsdp from cfg.dist to cfg.ddp, safely",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 nothing is left to do, 1 something is, 2 something could not be done.",
)
@click.argument("paths", nargs=-1, type=click.Path(), shell_complete=_first_words)
@click.option("--diff", is_flag=True, help="Print a unified diff, write nothing; exit 1 if and only if there is one.")
@click.option("--write", is_flag=True, help="Apply the safe fixes.")
@click.option("--add-ignores", is_flag=True, help="Write comments that exempt what is left, instead of fixing it.")
@click.option("--verify", is_flag=True, help="With --diff or --write: run the recipes and keep only what changes none.")
@click.option("--trace", is_flag=True, help="Also run the recipes and judge what they end up with.")
@click.option("--train-check", is_flag=True, help="After --write: train the rewritten recipes for a few steps.")
@click.option("--check", is_flag=True, help="One line per file that something is left to do in; for CI.")
@click.option("--unsafe-fixes", is_flag=True, help="Also apply fixes that may change what the code does.")
@click.option(
    "--select",
    multiple=True,
    callback=_known_codes,
    shell_complete=_codes_like,
    metavar="CODES",
    help="Only these rules (FSDP0,FSDP101).",
)
@click.option(
    "--extend-select",
    multiple=True,
    callback=_known_codes,
    shell_complete=_codes_like,
    metavar="CODES",
    help="These rules as well.",
)
@click.option(
    "--ignore",
    multiple=True,
    callback=_known_codes,
    shell_complete=_codes_like,
    metavar="CODES",
    help="Not these rules.",
)
@click.option("--lines", multiple=True, type=_LineRange(), help="Only findings in these lines of FILE, only that file.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave out what matches, in .gitignore's syntax.")
@click.option("--include", multiple=True, metavar="PATTERN", help="Below folders, look only at what matches.")
@click.option("--force-exclude", is_flag=True, help="Leave out what is excluded although it was named; for hooks.")
@click.option("--config", multiple=True, metavar="FILE|KEY=VALUE", help="A settings file to use alone, or a setting.")
@click.option("--isolated", is_flag=True, help="Read no settings files.")
@click.option("--show-settings", is_flag=True, help="Print what holds for PATHS and where it comes from, and stop.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Most worker processes.  [default: the CPUs]")
@click.option("--target", type=click.Choice(TARGETS), help="The Megatron-Bridge release to migrate to.")
@click.option("--stdin-filename", metavar="NAME", help="With PATHS '-': the name of the file that stdin holds.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "sarif", "github", "gitlab", "junit"]),
    default="text",
    show_default=True,
    help="How findings are written.",
)
@click.option("--output-file", metavar="FILE", help="Write the findings to FILE instead of stdout.")
@click.option("--report", multiple=True, metavar="FILE", help="Also write a readable report: FILE.html or FILE.md.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule.")
@click.option("--allow-dirty", is_flag=True, help="Write files although they have uncommitted changes.")
@click.option("--allow-hardlinks", is_flag=True, help="Write files that have several hard links, in place.")
@click.option("-q", "--quiet", is_flag=True, help="No notes and no summary on stderr; errors stay.")
@click.option("-v", "--verbose", is_flag=True, help="Tracebacks, and what was left out and why, on stderr.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def migrate(**arguments: Any) -> int:
    """Move use_megatron_fsdp from cfg.dist to cfg.ddp in Megatron-Bridge recipes, safely.

    Without an option it reports what it finds in PATHS (default: the working directory) and changes nothing.
    A PATHS of '-' reads one file from stdin and writes the result, or with --diff the diff, to stdout.
    """
    from fsdp_migrate.settings import SettingsError

    try:
        status = _Run(arguments).main()
        sys.stdout.flush()
    except SettingsError as error:
        raise click.ClickException(str(error)) from error
    except BrokenPipeError:
        # Whoever read our output has seen enough. Nothing may be flushed to it at exit.
        streams.discard(sys.stdout)
        return _BROKEN_PIPE
    return status


_OWN_REPORT = "this run writes it"
_BROKEN_PIPE = 128 + 13  # as if SIGPIPE had ended it, which is what shells expect of a filter


class _Run:
    """One run of the migration. Holds the arguments; every method is one step."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.paths: list[str] = list(arguments["paths"])
        self.diff: bool = arguments["diff"]
        self.add_ignores: bool = arguments["add_ignores"]
        self.write: bool = arguments["write"]
        self.check: bool = arguments["check"]
        self.verify: bool = arguments["verify"]
        self.trace: bool = arguments["trace"]
        self.train: bool = arguments["train_check"]
        self.written: list[str] = []
        self.settled: frozenset[int] = frozenset()  # ids of findings that are about what will be written
        self.differs = False
        self.chosen = _chosen(arguments)
        self.exclude: tuple[str, ...] = arguments["exclude"]
        self.include: tuple[str, ...] = arguments["include"]
        self.stdin_filename: str | None = arguments["stdin_filename"]
        self.statistics: bool = arguments["statistics"]
        self.allow_dirty: bool = arguments["allow_dirty"]
        self.allow_hardlinks: bool = arguments["allow_hardlinks"]
        self.output_format: str = arguments["output_format"]
        self.output_file: str | None = arguments["output_file"]
        self.report: tuple[str, ...] = arguments["report"]
        self.quiet: bool = arguments["quiet"]
        self.verbose: bool = arguments["verbose"]
        self.jobs: int | None = arguments["jobs"]
        self.force_exclude: bool = arguments["force_exclude"]
        self.show_settings: bool = arguments["show_settings"]
        self.lines: tuple[tuple[str, int, int], ...] = arguments["lines"]
        self.colour = _wants_colour(arguments["color"], sys.stdout)
        self.error_colour = _wants_colour(arguments["color"], sys.stderr)
        self._check_usage()
        self.write = self.write or (self.add_ignores and not self.diff and self.paths != ["-"])

    def _check_usage(self) -> None:
        if self.write and (self.diff or self.check):
            raise click.UsageError("--write changes files, --diff and --check do not: leave one of them out")
        if self.add_ignores and (self.write or self.check or self.verify):
            raise click.UsageError("--add-ignores fixes nothing: leave --write, --check and --verify out")
        if self.verify and not (self.write or self.diff):
            raise click.UsageError("--verify looks at a change: add --diff or --write")
        if self.train and not self.write:
            raise click.UsageError("--train-check trains what was written: add --write, or use 'train-check' by itself")
        if self.output_format != "text" and not self.output_file and (self.diff or self._is_filter):
            raise click.UsageError(f"stdout is taken: add --output-file for the {self.output_format} report")
        for path in self.report:
            if not path.endswith((".html", ".md")):
                raise click.UsageError(f"--report {path}: name a file that ends in .html or .md")
        if "-" in self.paths:
            if self.verify or self.trace:
                raise click.UsageError("--verify and --trace need files: leave them or '-' out")
            if len(self.paths) > 1:
                raise click.UsageError("'-' (stdin) stands alone: leave the other PATHS out")
            if self.write:
                raise click.UsageError("the result for '-' goes to stdout: leave --write out")
        elif self.stdin_filename is not None:
            raise click.UsageError("--stdin-filename goes with a PATHS of '-': add it")

    @property
    def _is_filter(self) -> bool:
        return self.paths == ["-"] and not (self.diff or self.check)

    def main(self) -> int:
        if self.show_settings:
            return self._settings()
        if self.paths == ["-"]:
            return self._stdin()
        from fsdp_migrate.progress import Progress

        with Progress(enabled=not self.quiet) as progress:
            found = self._find(progress)
            outcomes = self._outcomes(found, progress)
            if self.verify:
                outcomes = iter(self._verified(list(outcomes), progress))
            totals = self._totals(found.looked_at)
            if self.trace:
                outcomes = iter(self._traced(list(outcomes), progress))
            if self.write:
                outcomes = iter(self._written(list(outcomes)))
            self._output(totals.counted(self._complaining(outcomes, progress)), totals, progress)
        self._finish(totals)
        status = totals.exit_code()
        return max(status, self._trained()) if self.train else status

    def _settings(self) -> int:
        from fsdp_migrate.settings import listing

        paths = [self.stdin_filename or STDIN_NAME] if self.paths == ["-"] else self.paths or ["."]
        for position, path in enumerate(paths):
            _print("\n" * bool(position) + f"# {path}\n" + "".join(listing(self.chosen.settings(path))))
        return 0

    def _trained(self) -> int:
        """Train the recipes in the files that were written."""
        from fsdp_migrate.traincheck.command import train_check

        targets = [path for path in self.written if path.endswith(".py")]
        if not targets:
            self._note("--train-check: no recipe was written, so none is trained")
            return 0
        return int(train_check.main(args=targets, prog_name=f"{PROGRAM} train-check", standalone_mode=False) or 0)

    def _traced(self, outcomes: list[Outcome], progress: Progress) -> list[Outcome]:
        """Add what the recipes end up with. This runs them."""
        from fsdp_migrate.judging import with_conflicts
        from fsdp_migrate.registry import enabled
        from fsdp_migrate.trace import TraceError

        def codes(path: str) -> frozenset[str]:
            options = self.chosen.options(path)
            return enabled(options.select, options.ignore)

        progress.update("Tracing", 0)
        target = self.chosen.settings(".").get("target")
        after = self.write or self.diff
        try:
            judged, missed = with_conflicts(outcomes, self.paths or ["."], target, codes, after=after)
        except TraceError as error:
            raise click.ClickException(f"--trace could not be done: {error}") from error
        progress.hide()
        if after:
            before = {id(finding) for outcome in outcomes for finding in outcome.result.findings}
            self.settled = frozenset(id(f) for outcome in judged for f in outcome.result.findings) - before
        for recipe in missed:
            self._note(f"{recipe.file}:{recipe.line}: {recipe.name} was not evaluated: {recipe.reason}")
        return judged

    def _verified(self, outcomes: list[Outcome], progress: Progress) -> list[Outcome]:
        """Take back what would make a recipe different, and show the verdicts. This runs the recipes."""
        from rich.console import Console

        from fsdp_migrate.trace import Status, TraceError
        from fsdp_migrate.verifying import table, verified

        progress.update("Verifying", 0)
        try:
            # Recipes of one run are for one release: the one that the working directory's settings name.
            kept, verdicts = verified(outcomes, self.chosen.settings(".").get("target"))
        except TraceError as error:
            raise click.ClickException(f"--verify could not be done: {error}") from error
        progress.hide()
        self.differs = any(verdict.status is Status.DIFFERENT for verdict in verdicts)
        if verdicts and not self.quiet:
            terminal = sys.stderr.isatty()
            table(verdicts, Console(stderr=True, no_color=not self.error_colour, width=None if terminal else 160))
        return kept

    def _find(self, progress: Progress) -> Found:
        from fsdp_migrate.run import find

        paths = self.paths or [file for file, _, _ in self.lines] or ["."]
        found = find(
            paths,
            exclude=self.exclude,
            include=self.include,
            left_out=self._left_out(),
            left_out_if_named=self.force_exclude,
            explains=self.verbose,
            report=progress.update,
            is_wanted=self._is_wanted(paths),
        )
        if self.lines:
            found.keep(self._ranges(found.paths))
        for skipped in found.skipped:
            self._note(f"{skipped.path}: {skipped.message}")
        if found.excluded and not found.looked_at:
            for why, count in found.excluded.items():
                if why == _OWN_REPORT:
                    continue
                self._note(f"every file is left out: {count} by {why}; --isolated looks at them")
        for path, why in sorted(found.left_out.items()) if self.verbose else ():
            self._note(f"{path}: left out: {why}")
        return found

    def _is_wanted(self, paths: Sequence[str]) -> Callable[[bytes], bool]:
        """What a file must have to be looked at. Only a selection of the command line or above `paths` widens it."""
        from fsdp_migrate.prefilter import NEIGHBOURS, may_matter, may_select_neighbours, names_any

        settings = [self.chosen.settings(path) for path in paths]
        prefixes = {code for s in settings for key in ("select", "extend-select") for code in s.get(key)}
        if not may_select_neighbours(prefixes):
            return may_matter
        from fsdp_migrate.registry import enabled, needles

        return partial(names_any, needles=needles(enabled((NEIGHBOURS,), ())))

    def _left_out(self) -> Callable[[str], str]:
        """Why a file does not count: a setting says so, or an earlier run wrote it where this one writes its report."""
        chosen = self.chosen.left_out()
        written = [path for path in (*self.report, self.output_file) if path]
        if not written:
            return chosen
        reports = set(map(os.path.realpath, written))
        names = {os.path.basename(path) for path in (*written, *reports)}

        def why(path: str) -> str:
            is_report = os.path.basename(path) in names and os.path.realpath(path) in reports
            return _OWN_REPORT if is_report else chosen(path)

        return why

    def _ranges(self, paths: Iterable[str]) -> dict[str, Ranges]:
        """The ranges of --lines for those of `paths` that it names, however it spells them."""
        ranges: dict[str, Ranges] = {}
        for file, start, end in self.lines:
            real = os.path.realpath(file)
            ranges[real] = (*ranges.get(real, ()), (start, end))
        return {path: ranges[real] for path in paths if (real := os.path.realpath(path)) in ranges}

    def _outcomes(self, found: Found, progress: Progress) -> Iterator[Outcome]:
        from fsdp_migrate.run import Outcome, available_cpus, failure, migrate, run

        for problem in found.problems:
            yield Outcome(failure(problem.path, problem.message))
        paths = found.paths
        if not paths:
            return
        task = partial(
            migrate,
            options=self.chosen.options,
            lines=self._ranges(paths),
            frozen=frozenset(path for path, reason in found.frozen.items() if reason),
            verbose=self.verbose,
        )
        for done, result in enumerate(run(paths, task, jobs=self.jobs or available_cpus()), start=1):
            progress.update("Migrating", done, len(paths))
            if result is not None:
                yield Outcome(result, found.frozen[result.path], place=found.places[result.path])

    def _written(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Write what changed. Only now: every file was analysed as it was before this run."""
        from fsdp_migrate.write import RefusedError, remove_leftovers, write

        changed = [outcome.result.path for outcome in outcomes if outcome.result.changed]
        dirty = self._dirty(changed) if changed and not self.allow_dirty else {}
        remove_leftovers({os.path.dirname(outcome.place) for outcome in outcomes if outcome.result.changed})
        for position, outcome in enumerate(outcomes):
            result = outcome.result
            if not result.changed:
                continue
            if reason := dirty.get(result.path):
                failed = result.failed(f"not written: it {reason}. Commit it first, or pass --allow-dirty")
                outcomes[position] = replace(outcome, result=failed)
                continue
            try:
                write(
                    result.path,
                    result.source,
                    result.output,
                    place=outcome.place,
                    allow_hardlinks=self.allow_hardlinks,
                )
            except RefusedError as error:
                outcomes[position] = replace(outcome, result=result.failed(f"not written: {error}"))
            else:
                from fsdp_migrate.following import followed

                outcomes[position] = replace(outcome, result=followed(result, self.settled), written=True)
                self.written.append(result.path)
        return outcomes

    def _dirty(self, paths: list[str]) -> dict[str, str]:
        from fsdp_migrate.worktree import uncommitted

        dirty, homeless = uncommitted(paths)
        if homeless:
            more = f" and {len(homeless) - 1} more" if len(homeless) > 1 else ""
            self._note(
                f"warning: no git repository holds {homeless[0]}{more}: keep a copy if you may want to undo this"
            )
        return dirty

    # What it says.

    def _totals(self, looked_at: int) -> Totals:
        from fsdp_migrate.render import Totals

        return Totals(
            looked_at,
            self.add_ignores,
            only_changes=self.diff and not self.check,
            differs=self.differs,
            target=self.chosen.settings(".").get("target") if self.output_format == "json" else "",
        )

    def _output(self, outcomes: Iterator[Outcome], totals: Totals, progress: Progress) -> None:
        """Print, and write the files that were asked for."""
        if self.output_file and not (self.report or self.diff):
            self._save(outcomes, totals)
            return
        if self.report or self.output_file:
            every = list(outcomes)
            self._save(every, totals)
            outcomes = iter(every)
            if self.output_file and not self.diff:
                return
        shows = sys.stdout.isatty()
        for piece in self._rendered(outcomes, totals):
            if shows:
                progress.hide()
            _print(piece)

    def _save(self, outcomes: Iterable[Outcome], totals: Totals) -> None:
        """Write the files; with more than one of them, `outcomes` is a sequence."""
        if not (self.report or self.output_file):
            return
        from fsdp_migrate.formats.files import report, save

        for path in self.report:
            save(path, report(path)(list(outcomes), totals))
        if self.output_file:
            save(self.output_file, self._listed(iter(outcomes), totals, colour=False))

    def _rendered(self, outcomes: Iterator[Outcome], totals: Totals) -> Iterator[str | bytes]:
        return self._diffs(outcomes) if self.diff else self._listed(outcomes, totals, colour=self.colour)

    def _listed(self, outcomes: Iterator[Outcome], totals: Totals, *, colour: bool) -> Iterator[str]:
        if self.output_format != "text":
            from fsdp_migrate.formats import renderer as machine

            return machine(self.output_format)(outcomes, totals)
        from fsdp_migrate.render import renderer

        kind = "check" if self.check else self._kind if self.write else "text"
        return renderer(kind)(outcomes, colour=colour)

    @property
    def _kind(self) -> str:
        return "exempted" if self.add_ignores else "written"

    def _diffs(self, outcomes: Iterator[Outcome]) -> Iterator[str | bytes]:
        from fsdp_migrate.render import renderer

        is_read_by_people = self.colour or sys.stdout.isatty()
        for outcome in outcomes:
            result = outcome.result
            if result.changed:
                from fsdp_migrate.diff import shown, unified_diff

                diff = unified_diff(result.path, result.source, result.output)
                yield shown(diff, colour=self.colour) if is_read_by_people else diff
            if self.check:
                for line in renderer("check")([outcome], colour=self.error_colour):
                    streams.say(line, end="")

    def _complaining(self, outcomes: Iterator[Outcome], progress: Progress) -> Iterator[Outcome]:
        """The same outcomes; what failed is said on stderr when it passes."""
        for outcome in outcomes:
            if outcome.result.error:
                progress.hide()
                self._complain(outcome.result)
            yield outcome

    def _complain(self, result: Result) -> None:
        from fsdp_migrate.render import error_line

        line = error_line(result.path, result.error, colour=self.error_colour, verbose=self.verbose)
        streams.say(line, end="")

    def _note(self, text: str) -> None:
        from fsdp_migrate.render import neutral

        if not self.quiet:
            streams.say(neutral(text))

    def _finish(self, totals: Totals) -> None:
        if self.statistics and totals.found:
            # After a diff or a file, the table would spoil what is on stdout.
            is_payload = self.diff or self.paths == ["-"]
            for line in totals.statistics():
                click.echo(line, err=is_payload, nl=False)
        if not self.quiet:
            sys.stdout.flush()
            for sentence in totals.summary():
                streams.say(sentence)

    def _stdin(self) -> int:
        from fsdp_migrate.api import migrate_source
        from fsdp_migrate.discover import frozen_reason
        from fsdp_migrate.render import renderer
        from fsdp_migrate.run import Outcome

        name = self.stdin_filename or STDIN_NAME
        if sys.stdin is None:
            raise click.UsageError("standard input is closed: give '-' something to read")
        source = sys.stdin.buffer.read()
        if self.force_exclude and (why := self.chosen.left_out()(name)):
            if not (self.diff or self.check):
                _print(source)
            self._note(f"{name}: left out: {why}")
            return 0
        result = migrate_source(source, name, self.chosen.options(name), lines=self._ranges([name]).get(name, ()))
        if frozen := frozen_reason(name, source):
            result = replace(result, output=source, fixed=())
        is_filter = self._is_filter
        if is_filter and result.changed:
            from fsdp_migrate.following import followed

            result = followed(result)
        outcome = Outcome(result, frozen, written=is_filter and result.changed)
        totals = self._totals(1)
        totals.add(outcome)
        if result.error:
            self._complain(result)
        self._save([outcome], totals)
        if result.error:
            pass
        elif is_filter:
            _print(result.output)
            for line in renderer(self._kind)([outcome], colour=self.error_colour) if not self.quiet else ():
                streams.say(line, end="")
        elif self.diff or not self.output_file:
            for piece in self._rendered(iter([outcome]), totals):
                _print(piece)
        self._finish(totals)
        return totals.exit_code()


def _chosen(arguments: dict[str, Any]) -> Chosen:
    """What the command line says about settings."""
    from fsdp_migrate.settings import Chosen, Settings, inline

    names = ("select", "extend_select", "ignore", "exclude", "include", "target", "unsafe_fixes")
    given = {name.replace("_", "-"): arguments[name] for name in names if arguments[name]}
    settings = Settings(given, {key: f"--{key}" for key in given})
    file = ""
    for text in arguments["config"]:
        if "=" in text and not os.path.exists(text):
            settings = settings.over(inline(text))
        elif file:
            raise click.UsageError("--config names two files: leave one of them out")
        else:
            file = text
    if file and arguments["isolated"]:
        raise click.UsageError("--isolated reads no settings files: leave it or --config FILE out")
    return Chosen(settings, os.path.abspath(file) if file else "", arguments["isolated"], arguments["add_ignores"])


def _wants_colour(choice: str, stream: TextIO) -> bool:
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _print(piece: str | bytes) -> None:
    if isinstance(piece, str):
        piece = piece.encode(sys.stdout.encoding or "utf-8", "backslashreplace")
    sys.stdout.buffer.write(piece)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    gc.disable()  # `run` says why.
    sys.exit(_status(sys.argv[1:] if arguments is None else list(arguments)))


def _status(arguments: list[str]) -> int:
    try:
        streams.prepare()
        _demand_folder()
        status = cli.main(args=arguments, prog_name=PROGRAM, standalone_mode=False)
        if streams.output_fails():
            return _unprinted()
    except click.ClickException as error:
        _show(error)
        return 2
    except (KeyboardInterrupt, click.Abort):
        streams.say("Interrupted. Every file is either as it was or completely rewritten; run again to go on.")
        return 128 + signal.SIGINT
    except Exception as error:
        if streams.output_fails(error):
            return _unprinted()
        if "-v" in arguments or "--verbose" in arguments:
            import traceback

            traceback.print_exc()
        from fsdp_migrate.render import neutral

        said = neutral(f"{type(error).__name__}: {error}")
        streams.say(f"{PROGRAM} failed ({said}); --verbose shows where. Please report it.")
        return 2
    return status if isinstance(status, int) else 0


def _demand_folder() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise click.ClickException("the working directory does not exist any more: cd into one that does") from error


def _show(error: click.ClickException) -> None:
    """Say what is wrong with the call. A file's name may be part of it: `fsdp-migrate *`."""
    from fsdp_migrate.render import neutral

    text = neutral(error.format_message(), keep="\n")
    plain = click.UsageError(text, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(text)
    try:
        plain.show()
    except OSError:
        streams.discard(sys.stderr)


def _unprinted() -> int:
    streams.say(f"{PROGRAM}: standard output cannot be written (is its disk full?): repair that and run again")
    return 2
