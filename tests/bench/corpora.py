"""Texts of 31 large packages and of what is installed: no crash, no edit, no finding, exact round trips.

    python -m tests.bench.corpora [FOLDER...] [--download 30] [--share 1.0] [--workers 2] [--seed 0] [--json]

Without folders, pip downloads wheels (their code is read, never run) and unpacks their texts into the cache. The
engine looks at every file beneath the prefilter with every rule, so that every reader reads every file. Then the flag
is sown at random places of the same files: after a migration, everything but what was sown must stand as it stood, and
Python must parse. Ends with 1 if a file breaks one of these. What is done to a file depends on its name and the seed
only, not on the other files or the workers.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import Pool
from pathlib import Path

from fsdp_migrate.api import Options, _project, migrate_source
from fsdp_migrate.discover import SUFFIXES, kind_of
from fsdp_migrate.engine import Choice, migrate
from fsdp_migrate.languages import UnreadableError
from fsdp_migrate.prefilter import may_matter
from fsdp_migrate.registry import codes
from fsdp_migrate.segments import container, unfold
from fsdp_migrate.upstream import COMPANIONS, FLAG

# Large by their number of texts; each has a wheel that pip takes without compiling anything.
PACKAGES = (
    *("ansible", "ansible-core", "apache-airflow-core", "bokeh", "botocore", "dask", "diffusers", "django", "faker"),
    *("google-cloud-aiplatform", "homeassistant", "kubernetes", "langchain-community", "matplotlib", "moto", "mypy"),
    *("nemo-toolkit", "networkx", "nltk", "pandas", "plotly", "pulumi-aws", "pygments", "scikit-learn", "scipy"),
    *("sphinx", "sqlalchemy", "streamlit", "sympy", "transformers", "twisted"),
)
NAMES = (FLAG, *(path.split(".")[1] for path in COMPANIONS))
LARGEST = 1 << 20  # bytes; larger files are data
PER_TASK = 200  # files; a worker then ends, and with it what it remembers of their projects


def unpacked(cache: Path, count: int) -> Iterator[Path]:
    """The texts of `count` packages, downloaded once."""
    cache.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES[:count]:
        folder = cache / name
        if not folder.is_dir():
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--python-version", "3.13"]
            wheels = cache / "wheels" / name
            done = subprocess.run([*command, "--only-binary=:all:", name, "-d", str(wheels)], check=False)
            if done.returncode:
                print(f"{name}: not to be had here", file=sys.stderr)
                continue
            with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
                wheel.extractall(folder, [m for m in wheel.namelist() if m.endswith(SUFFIXES)])
        yield folder


def installed() -> list[Path]:
    """The standard library with its tests, and what is installed beside this tool."""
    return [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))]


@dataclass
class Counts:
    files: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    lines: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)
    sown: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        for name, value in vars(other).items():
            mine = getattr(self, name)
            mine.extend(value) if isinstance(mine, list) else mine.update(value)

    def fault(self, path: Path, what: str) -> None:
        self.faults.append(f"{path}: {what}")
        print(f"{path}: {what}", file=sys.stderr)


def texts(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix not in SUFFIXES or "__pycache__" in path.parts or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= LARGEST:
            yield path


def look(path: Path, counts: Counts) -> None:
    """Read one file with every reader and migrate it, as if the prefilter had let it through."""
    data = path.read_bytes()
    kind = kind_of(str(path), data)
    counts.files[kind] += 1
    counts.bytes[kind] += len(data)
    counts.lines[kind] += data.count(b"\n")
    known = may_matter(data)
    try:
        read = container(str(path), data)
        assert read is not None
        document = read.decode(data)
        if document.encode(document.text) != data:
            counts.fault(path, "does not come back byte by byte")
        for segment in unfold(read.split(document, str(path))):
            for position in (0, len(segment.text)):
                segment.offset(position)
        choice = Choice(frozenset(codes()))
        result = migrate(data, str(path), choice, _project())
    except UnreadableError:
        counts.unreadable[kind] += 1
        return
    except Exception as error:
        counts.fault(path, f"crashed: {error!r}")
        return
    counts.unreadable[kind] += bool(result.error)
    if "this is a bug" in result.error:
        counts.fault(path, result.error)
    counts.findings[kind] += len(result.findings)
    if not known and (result.changed or result.findings):
        counts.fault(path, f"an edit or a finding without the flag: {[f.code for f in result.findings]}")


# ── Sowing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

STORES = (
    f"cfg.dist.{FLAG} = True",
    f"cfg.dist.{FLAG} = False",
    f"self.cfg.dist.{FLAG} = flag",
    f"recipe.ddp.{FLAG} = recipe.dist.{FLAG}",
    f"setattr(config.dist, '{FLAG}', True)",
    f"run(['train.py', 'dist.{FLAG}=true'])",
    f"if cfg.dist.{FLAG}: print('{FLAG}')",
    f"assert not state.cfg.dist.{FLAG}, 'off'",
    f"cfg.dist.{FLAG} = cfg.ddp.{FLAG} = True",
)


def sow(kind: str, text: str, chance: random.Random) -> str | None:
    """The text with lines that name the flag; without them it is the text again. None: no place for one."""
    lines = text.split("\n")
    end = "\r" if "\r\n" in text else ""
    match kind:
        case "python":
            places = statements(text)
            if not places:
                return None
            for line in sorted(chance.sample(places, min(len(places), 3)), reverse=True):
                indent = re.match(r"[ \t]*", lines[line - 1])
                assert indent is not None
                lines.insert(line - 1, f"{indent[0]}{chance.choice(STORES)}{end}")
        case "shell":
            if lines[-1] != "":
                return None
            lines[-1:] = [f"python train.py dist.{FLAG}=true train.steps=1{end}", ""]
        case "markdown":
            if lines[-1] != "" or text.count("```") % 2 or "<!--" in text or "~~~" in text:
                return None
            lines[-1:] = [f"```python  # {FLAG}{end}", f"cfg.dist.{FLAG} = False{end}", f"```  {FLAG}{end}"]
            return "\n".join(lines[:-1]) + f"\n```{end}\n"
        case _:
            return None
    return "\n".join(lines)


def statements(text: str) -> list[int]:
    """Lines on which a statement begins with nothing before it, so that another can stand above it."""
    tree = ast.parse(text)
    lines = text.split("\n")
    found = []
    for node in ast.walk(tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None), getattr(node, "finalbody", None)):
            for statement in block if isinstance(block, list) else ():
                if not isinstance(statement, ast.stmt) or statement.lineno > len(lines):
                    continue
                first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
                before = lines[first - 1].encode()[: statement.col_offset]
                future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
                is_elif = isinstance(statement, ast.If) and not lines[first - 1].strip().startswith("if")
                if not before.strip() and not future and not is_elif and not is_docstring(statement):
                    found.append(first)
    return sorted(set(found))


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def reap(text: str) -> list[str]:
    """The lines that name neither the flag nor a companion."""
    return [line for line in text.split("\n") if not any(name in line for name in NAMES)]


def check_sown(path: Path, counts: Counts, chance: random.Random) -> None:
    data = path.read_bytes()
    kind = kind_of(str(path), data)
    if kind not in ("python", "shell", "markdown") or any(name.encode() in data for name in NAMES):
        return
    try:
        read = container(str(path), data)
        assert read is not None
        document = read.decode(data)
        text = sow(kind, document.text, chance)
        if text is not None and kind == "python":
            ast.parse(text)
    except (UnreadableError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    if text is None:
        return
    counts.sown[kind] += 1
    try:
        result = migrate_source(document.encode(text), str(path), Options(unsafe=chance.random() < 0.5))
    except Exception as error:
        counts.fault(path, f"crashed with the flag in it: {error!r}")
        return
    if result.error:
        if "this is a bug" in result.error:
            counts.fault(path, f"with the flag in it: {result.error}")
        return
    counts.moved[kind] += result.changed
    if bugs := {finding.why for finding in result.remaining if "this is a bug" in finding.why}:
        counts.fault(path, f"with the flag in it: {'; '.join(sorted(bugs))}")
    after = read.decode(result.output).text
    if reap(after) != reap(text):
        counts.fault(path, "more changed than what was sown")
    if kind == "python":
        try:
            ast.parse(after)
        except SyntaxError as error:
            counts.fault(path, f"does not parse any more: {error}")


def check(paths: Sequence[Path], seed: int) -> Counts:
    counts = Counts()
    for path in paths:
        try:
            begin = time.perf_counter()
            look(path, counts)
            middle = time.perf_counter()
            check_sown(path, counts, random.Random(f"{seed} {path.name}"))
        except OSError as error:
            print(f"{path}: {error}", file=sys.stderr)
            continue
        counts.seconds["reading"] += middle - begin
        counts.seconds["sowing"] += time.perf_counter() - middle
    return counts


def measure(folders: Sequence[Path], seed: int, share: float, workers: int) -> dict[str, object]:
    paths = [path for folder in folders for path in texts(folder)]
    chosen = sorted(random.Random(seed).sample(paths, round(len(paths) * share)))
    counts, start = Counts(), time.perf_counter()
    with Pool(workers, maxtasksperchild=1) as pool:
        for number, one in enumerate(
            pool.imap_unordered(
                partial(check, seed=seed), [chosen[n : n + PER_TASK] for n in range(0, len(chosen), PER_TASK)]
            ),
            1,
        ):
            counts.add(one)
            if not number % 10:
                print(f"{sum(counts.files.values())} of {len(chosen)} files", file=sys.stderr)
    columns = ("files", "bytes", "lines", "unreadable", "findings", "sown", "moved")
    kinds = {kind: {c: getattr(counts, c)[kind] for c in columns} for kind in sorted(counts.files)}
    every = {c: sum(numbers[c] for numbers in kinds.values()) for c in columns}
    seconds = {"wall": time.perf_counter() - start, **counts.seconds}
    rounded = {name: round(number, 1) for name, number in seconds.items()}
    return kinds | {"all": every, "seconds": rounded, "faults": sorted(counts.faults)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "fsdp-migrate-corpora")
    parser.add_argument("--download", type=int, default=0, metavar="N", help="also the first N packages (alone: all)")
    parser.add_argument("--share", type=float, default=1.0, help="the share of the files, drawn at random")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    downloads = asked.download or (0 if asked.folders else len(PACKAGES))
    folders = [*(asked.folders or installed()), *unpacked(asked.cache, downloads)]
    found = measure(folders, asked.seed, asked.share, asked.workers)
    if asked.json:
        print(json.dumps(found, indent=2))
    else:
        for kind, numbers in found.items():
            print(f"{kind:<16} {numbers}")
    sys.exit(1 if found["faults"] else 0)


if __name__ == "__main__":
    main()
