"""``fsdp-migrate quickfix FILE:LINE``: the fix for one place, for editors that can run a program."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fsdp_migrate.editing import Analysis, Positions, analyse, encoded, file_uri, fixes_of
from fsdp_migrate.findings import Edit, Finding

NOTHING, FAILED = 1, 2


if TYPE_CHECKING:
    _Converted = click.ParamType[tuple[str, int, int]]
else:
    # Old click, which the project allows, has no generic types.
    _Converted = click.ParamType


class _Place(_Converted):
    name = "FILE:LINE[:COLUMN]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int, int]:
        head, _, last = str(value).rpartition(":")
        file, _, line = head.rpartition(":")
        if file and line.isdecimal() and last.isdecimal():
            numbers = int(line), int(last)
        elif head and last.isdecimal():
            file, numbers = head, (int(last), 0)
        else:
            self.fail(f"{value!r} is not FILE:LINE: write for example recipes/llama.py:12", param, ctx)
        if numbers[0] < 1:
            self.fail(f"{value!r}: lines count from 1", param, ctx)
        return file, *numbers


@click.command()
@click.argument("place", type=_Place(), metavar="FILE:LINE[:COLUMN]")
@click.option("--stdin", "from_stdin", is_flag=True, help="Take the text of FILE from stdin, as it is in the editor.")
@click.option("--write", is_flag=True, help="Apply the fix to FILE; with --stdin print the whole new text.")
@click.option("--unsafe-fixes", is_flag=True, help="Also fixes that may change what the code does.")
@click.option("--target", type=click.Choice(["0.4", "0.5", "0.6", "main"]), help="The Megatron-Bridge release.")
@click.pass_context
def quickfix(
    ctx: click.Context, place: tuple[str, int, int], from_stdin: bool, write: bool, unsafe_fixes: bool, target: str
) -> None:
    """Print what fixes the findings on one line, as a WorkspaceEdit of the Language Server Protocol.

    A fix is whole: it also changes other lines of the same scope, where they belong to it. COLUMN counts characters
    from 1; in what is printed, lines and columns count from 0, columns in UTF-16 units.

    Exit code 1 when nothing on that line can be fixed; the reasons go to stderr.
    """
    path, line, column = place
    source = sys.stdin.buffer.read() if from_stdin else _read(ctx, path)
    analysis = _analysis(ctx, source, path, target)
    if line > len(analysis.lines.starts):
        _fail(ctx, f"{path} has no line {line}")
    findings = analysis.on_line(line, column)
    fixes = fixes_of(findings, unsafe=unsafe_fixes)
    edits = tuple(dict.fromkeys(edit for fix in fixes for edit in fix.edits))
    if not edits:
        _explain(path, line, findings)
        ctx.exit(NOTHING)
    if write:
        _write(ctx, analysis, edits, to_stdout=from_stdin)
        return
    changes = {file_uri(path): Positions(analysis.text).text_edits(edits)}
    click.echo(json.dumps({"changes": changes}))


def _read(ctx: click.Context, path: str) -> bytes:
    from fsdp_migrate.discover import explain, read

    try:
        return read(os.path.realpath(path), bool) or b""
    except OSError as error:
        _fail(ctx, f"{path}: {explain(path, error)}")


def _analysis(ctx: click.Context, source: bytes, path: str, target: str) -> Analysis:
    from fsdp_migrate.settings import Chosen, Settings, SettingsError

    given = Settings({"target": target}, {"target": "--target"}) if target else Settings()
    try:
        analysis = analyse(source, path, Chosen(given).options(path))
    except SettingsError as error:
        _fail(ctx, str(error))
    if analysis.result.error:
        _fail(ctx, f"{path}: {analysis.result.error.splitlines()[0]}")
    return analysis


def _write(ctx: click.Context, analysis: Analysis, edits: tuple[Edit, ...], *, to_stdout: bool) -> None:
    from fsdp_migrate.write import RefusedError, write

    result = analysis.result
    new = encoded(result.path, result.source, analysis.applied(edits))
    if to_stdout:
        sys.stdout.buffer.write(new)
        return
    try:
        write(result.path, result.source, new)
    except RefusedError as error:
        _fail(ctx, f"{result.path}: not written: {error}")


def _explain(path: str, line: int, findings: list[Finding]) -> None:
    from fsdp_migrate.render import neutral

    if not findings:
        click.echo(f"nothing was found on line {line} of {neutral(path)}: `fsdp-migrate FILE` lists what is", err=True)
    for finding in findings:
        hidden = finding.fix is not None and finding.fix.edits
        why = "--unsafe-fixes applies its fix, which may change what the code does" if hidden else finding.why
        click.echo(f"{finding.code}: {neutral(finding.message)}: {neutral(why or 'there is no fix')}", err=True)


def _fail(ctx: click.Context, message: str) -> NoReturn:
    from fsdp_migrate.render import neutral

    click.echo(f"error: {neutral(message)}", err=True)
    ctx.exit(FAILED)


__all__ = ["quickfix"]
