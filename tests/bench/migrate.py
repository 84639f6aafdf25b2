"""Seconds to migrate, against ast-grep with one rename rule and against libcst's own codemod tool.

    python tests/bench/migrate.py path/to/unpacked/wheel [--ast-grep PROGRAM] [--repetitions 5] [--libcst all] [--json]

Works on the unpacked megatron-bridge 0.6.2 wheel, and on the wheel together with the largest other package of
site-packages. ast-grep comes from the package ast-grep-cli. Targets on two cores: on the wheel at most 1.0 of its
time and 1/200 of libcst's; 20 unaffected files in 0.2 s without importing libcst. Nothing is written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

RULE = """\
id: moved-flag
language: python
rule:
  pattern: $ROOT.dist.use_megatron_fsdp
fix: $ROOT.ddp.use_megatron_fsdp
"""
TOOL = (sys.executable, "-m", "fsdp_migrate")
LIBCST = (
    *(sys.executable, "-m", "libcst.tool", "codemod", "libcst.codemod.commands.rename.RenameCommand", "-x"),
    *("--old_name", "a.dist.use_megatron_fsdp", "--new_name", "a.ddp.use_megatron_fsdp"),
    *("--no-format", "--hide-progress", "--unified-diff=3"),
)


def seconds(command: Sequence[str], folder: Path, repetitions: int, codes: tuple[int, ...] = (0, 1)) -> float:
    """The median time of a command, its output thrown away.

    Raises:
        RuntimeError: it failed, so that its time means nothing.
    """
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        times.append(time.perf_counter() - start)
        if done.returncode not in codes:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return statistics.median(times)


def largest_package() -> Path:
    """The package with the most Python files."""
    installed = Path(sysconfig.get_path("purelib"))
    packages = [folder for folder in installed.iterdir() if (folder / "__init__.py").exists()]
    return max(packages, key=lambda folder: (sum(1 for _ in folder.rglob("*.py")), folder.name))


def measure(
    paths: Sequence[Path], folder: Path, ast_grep: str, repetitions: int, *, with_libcst: bool
) -> dict[str, float]:
    names = [str(path) for path in paths]
    rule = folder / "rule.yml"
    rule.write_text(RULE)
    result = {"files": float(sum(1 for path in paths for _ in path.rglob("*.py")))}
    # What was installed without a repository around it may hold files that nobody can parse: that is exit code 2.
    result["fsdp-migrate"] = seconds((*TOOL, "--diff", *names), folder, repetitions, (0, 1, 2))
    result["ast-grep"] = seconds((ast_grep, "scan", "--rule", str(rule), *names), folder, repetitions)
    result["of ast-grep"] = result["fsdp-migrate"] / result["ast-grep"]
    if with_libcst:
        result["libcst.tool"] = seconds((*LIBCST, *names), folder, 1)
        result["times faster than libcst.tool"] = result["libcst.tool"] / result["fsdp-migrate"]
    return result


def unaffected(wheel: Path, folder: Path, repetitions: int) -> dict[str, float]:
    """A commit of 20 files that have nothing to do with the flag."""
    files = [path for path in sorted(wheel.rglob("*.py")) if b"use_megatron_fsdp" not in path.read_bytes()][:20]
    names = [str(path) for path in files]
    command = (sys.executable, "-X", "importtime", *TOOL[1:], *names)
    imports = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stderr.splitlines()
    return {
        "files": float(len(files)),
        "fsdp-migrate": seconds((*TOOL, *names), folder, repetitions, (0,)),
        "bare interpreter": seconds((sys.executable, "-c", "pass"), folder, repetitions, (0,)),
        "modules of libcst": float(sum(line.rpartition("|")[2].strip().startswith("libcst") for line in imports)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="the folder of the unpacked wheel")
    parser.add_argument("--ast-grep", default=shutil.which("ast-grep"), help="default: the one on PATH")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument(
        "--libcst", choices=("none", "wheel", "all"), default="wheel", help="one run, minutes for `all`"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if not asked.ast_grep:
        parser.error("ast-grep is not on PATH: pip install ast-grep-cli, or name it with --ast-grep")
    wheel, other = asked.wheel.resolve(), largest_package()
    with tempfile.TemporaryDirectory() as name:
        folder, n = Path(name), asked.repetitions
        results = {
            "wheel": measure([wheel], folder, asked.ast_grep, n, with_libcst=asked.libcst != "none"),
            f"wheel and {other.name}": measure(
                [wheel, other], folder, asked.ast_grep, n, with_libcst=asked.libcst == "all"
            ),
            "20 unaffected files": unaffected(wheel, folder, n),
        }
    if asked.json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
        return
    for corpus, numbers in results.items():
        sys.stdout.write(f"{corpus}\n")
        for what, number in numbers.items():
            sys.stdout.write(f"  {what:<30} {number:10.3f}\n")


if __name__ == "__main__":
    main()
