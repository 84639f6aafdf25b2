"""Seconds and peak memory of the migration against other programs that read the same files, in one run.

    python -m tests.bench [--wheel FOLDER] [--only WORD] [--repetitions 5] [--quick] [--json]

The programs take turns, forwards and backwards, and each number is a median; those that take minutes run once, and with
`--quick` not at all. A program that is not on PATH or beside Python is left out with a note: `pip install ast-grep-cli
bump-pydantic`, and ripgrep from the system. The wheel is that of $FSDP_MIGRATE_WHEELS/0.6.2, or pip downloads it.
Nothing that is measured writes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import generate

FLAG = generate.FLAG
TOOL = (sys.executable, "-m", "fsdp_migrate", "--isolated", "--diff")
RULE = """\
id: moved-flag
language: python
rule:
  pattern: $ROOT.dist.use_megatron_fsdp
fix: $ROOT.ddp.use_megatron_fsdp
"""
LIBCST = (
    *(sys.executable, "-m", "libcst.tool", "codemod", "libcst.codemod.commands.rename.RenameCommand", "-x"),
    *("--old_name", "a.dist.use_megatron_fsdp", "--new_name", "a.ddp.use_megatron_fsdp"),
    *("--no-format", "--hide-progress", "--unified-diff=3", "."),
)
OURS = "fsdp-migrate"


@dataclass(frozen=True)
class Program:
    """A command, and the exit codes that are no failure. `once`: it takes minutes."""

    name: str
    command: tuple[str, ...]
    codes: tuple[int, ...] = (0, 1)
    once: bool = False


@dataclass
class Measured:
    seconds: list[float] = field(default_factory=list)
    peak: int = 0  # KiB, of the largest process; never less than what this one had when it started it


@dataclass(frozen=True)
class Row:
    """One program on one subject. `ratio` is the time of the migration to that of the program."""

    subject: str
    program: str
    seconds: float
    peak_mib: float
    ratio: float
    runs: int


def run(program: Program, folder: Path, into: Measured) -> None:
    """Run once, output thrown away.

    Raises:
        RuntimeError: it failed, so that its time means nothing.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(
        program.command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    into.seconds.append(time.perf_counter() - start)
    process.returncode = os.waitstatus_to_exitcode(status)
    into.peak = max(into.peak, usage.ru_maxrss)
    if process.returncode not in program.codes:
        raise RuntimeError(f"{' '.join(program.command)} ended with {process.returncode} in {folder}")


def measure(subject: str, folder: Path, programs: Sequence[Program], repetitions: int) -> list[Row]:
    found = {program.name: Measured() for program in programs}
    often = [program for program in programs if not program.once]
    for program in often:
        # What the first run finds cold, the others have warm: files, byte code.
        run(program, folder, Measured())
    for turn in range(repetitions):
        for program in often[:: -1 if turn % 2 else 1]:
            run(program, folder, found[program.name])
    for program in programs:
        if program.once:
            run(program, folder, found[program.name])
    ours = statistics.median(found[OURS].seconds)
    return [
        Row(subject, name, (s := statistics.median(m.seconds)), m.peak / 1024, ours / s, len(m.seconds))
        for name, m in found.items()
    ]


def program_of(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def rivals(rule: Path, *, git: bool, slow: bool) -> Iterator[Program]:
    """Who else reads the files below the working directory."""
    if rg := program_of("rg"):
        yield Program("rg -l", (rg, "-l", FLAG, "."))
    else:
        print("rg is not here: grep -rl stands alone", file=sys.stderr)
    yield Program("grep -rl", ("grep", "-rl", FLAG, "."))
    if git:
        yield Program("git grep -l", ("git", "grep", "-l", FLAG))
    if ast_grep := program_of("ast-grep"):
        yield Program("ast-grep scan", (ast_grep, "scan", "--rule", str(rule), "."))
    else:
        print("ast-grep is not here: pip install ast-grep-cli", file=sys.stderr)
    if slow:
        yield Program("libcst.tool codemod", LIBCST, once=True)
        if bump := program_of("bump-pydantic"):
            yield Program("bump-pydantic --diff", (bump, "--diff", "."), once=True)
        else:
            print("bump-pydantic is not here: pip install bump-pydantic", file=sys.stderr)


def unpacked_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--python-version", "3.12"]
    command += ["--only-binary=:all:", "megatron-bridge==0.6.2", "-d", str(folder)]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(folder / "wheel")
    return folder / "wheel"


def subjects(asked: argparse.Namespace, folder: Path) -> Iterator[list[Row]]:
    rule = folder / "rule.yml"
    rule.write_text(RULE)
    bare = Program("python -c pass", (sys.executable, "-c", "pass"))
    n = asked.repetitions

    def wanted(subject: str) -> bool:
        return asked.only in subject

    if wanted("cold start"):
        version = Program(OURS, (*TOOL[:3], "--version"))
        yield measure("cold start: --version", folder, [version, bare], n)
    if wanted("20 unaffected files"):
        (files := folder / "unaffected").mkdir()
        for number in range(20):
            (files / f"file_{number}.py").write_text(generate.python(random.Random(number), 300))
        names = tuple(sorted(path.name for path in files.iterdir()))
        yield measure("20 unaffected files", files, [Program(OURS, (*TOOL, *names), (0,)), bare], n)
    ours = Program(OURS, (*TOOL, "."), (0, 1, 2))
    if wanted("wheel 0.6.2"):
        kept = os.environ.get("FSDP_MIGRATE_WHEELS")
        given = asked.wheel or (Path(kept, "0.6.2") if kept else None)
        wheel = given.resolve() if given else unpacked_wheel(folder)
        yield measure("wheel 0.6.2", wheel, [ours, *rivals(rule, git=False, slow=not asked.quick)], n)
    if wanted("1,700 files"):
        generate.repository(made := folder / "repository")
        yield measure("1,700 files", made, [ours, *rivals(rule, git=True, slow=not asked.quick)], n)
    if wanted("100,000 files"):
        generate.tree(made := folder / "tree")
        yield measure("100,000 files", made, [ours, *rivals(rule, git=False, slow=False)], n)
        generate.commit(made)
        yield measure("100,000 files in git", made, [ours, *rivals(rule, git=True, slow=False)], n)


def show(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("subject", "program", title="medians; ratio: time of fsdp-migrate to that of the program")
    for name in ("seconds", "peak MiB", "ratio", "runs"):
        table.add_column(name, justify="right")
    last = ""
    for row in rows:
        if row.subject != last and last:
            table.add_section()
        shown = "" if row.subject == last else row.subject
        last = row.subject
        table.add_row(
            shown, row.program, f"{row.seconds:.3f}", f"{row.peak_mib:.0f}", f"{row.ratio:.2f}", str(row.runs)
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="the unpacked megatron-bridge 0.6.2 wheel")
    parser.add_argument("--only", default="", help="subjects whose name has this word")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="without the programs that take minutes")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        for found in subjects(asked, Path(name)):
            rows += found
            print(f"{found[0].subject}: done", file=sys.stderr)
    if asked.json:
        fields = ("subject", "program", "seconds", "peak_mib", "ratio", "runs")
        print(json.dumps([{f: getattr(row, f) for f in fields} for row in rows], indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
