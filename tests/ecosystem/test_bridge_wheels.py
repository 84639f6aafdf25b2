"""The command on every public release of Megatron-Bridge with the old flag, and on what is installed beside it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fsdp_migrate.api import migrate_file

pytestmark = pytest.mark.ecosystem

RELEASES = ("0.6.2", "0.5.1", "0.4.2", "0.3.1", "0.3.0")
NAMES = (
    "use_megatron_fsdp",
    "data_parallel_sharding_strategy",
    "average_in_collective",
    "ckpt_format",
    "DistributedInitConfig",
)
OLD_STORE = re.compile(r"\bdist\.use_megatron_fsdp = ")
NEW_STORE = re.compile(r"\bddp\.use_megatron_fsdp = ")
CONFIG = "megatron/bridge/training/config.py"


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def migrate(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    done = run(sys.executable, "-m", "fsdp_migrate", str(folder), *options, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    return done


@dataclass(frozen=True)
class Migrated:
    """A release before and after, with the diff that leads from one to the other."""

    before: Path
    after: Path
    diff: str

    def changed(self) -> list[str]:
        return run("git", "diff", "--name-only", cwd=self.after).stdout.splitlines()

    def texts(self, file: str) -> tuple[str, str]:
        return (self.before / file).read_text(), (self.after / file).read_text()


@pytest.fixture(scope="module", params=RELEASES)
def release(
    request: pytest.FixtureRequest, wheel: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Migrated:
    return migrated(wheel(request.param), tmp_path_factory.mktemp("release") / "repository")


@pytest.fixture(scope="module")
def newest(wheel: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Migrated:
    return migrated(wheel("0.6.2"), tmp_path_factory.mktemp("newest") / "repository")


def migrated(before: Path, after: Path) -> Migrated:
    shutil.copytree(before, after, ignore=shutil.ignore_patterns("__pycache__"))
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b.c -c commit.gpgsign=false commit -qm wheel"):
        done = run("git", *command.split(), cwd=after)
        assert done.returncode == 0, done.stderr
    diff = migrate(after, "--diff").stdout
    assert not run("git", "status", "--porcelain", cwd=after).stdout, "--diff writes nothing"
    (after.parent / "migration.diff").write_text(diff)
    for option in ("--check", "--whitespace=nowarn"):
        applied = run("git", "apply", option, str(after.parent / "migration.diff"), cwd=after)
        assert applied.returncode == 0, applied.stderr
    return Migrated(before, after, diff)


def test_every_changed_file_compiles(release: Migrated) -> None:
    files = release.changed()
    assert files
    for file in files:
        compile((release.after / file).read_bytes(), file, "exec")


def test_a_second_run_edits_nothing(release: Migrated) -> None:
    again = migrate(release.after, "--diff")
    assert again.stdout == ""
    assert again.returncode == 0


def test_writing_gives_what_the_diff_says(release: Migrated, tmp_path: Path) -> None:
    written = tmp_path / "written"
    shutil.copytree(release.before, written, ignore=shutil.ignore_patterns("__pycache__"))
    migrate(written, "--write")
    for file in release.changed():
        assert (written / file).read_bytes() == (release.after / file).read_bytes()


def test_no_line_changes_that_names_neither_the_flag_nor_a_companion(release: Migrated) -> None:
    lines = [line for line in release.diff.splitlines() if re.match(r"[-+](?!--|\+\+)", line)]
    assert lines
    assert not [line for line in lines if not any(name in line for name in NAMES)]


def test_no_old_store_is_left_in_a_recipe(release: Migrated) -> None:
    recipes = (release.after / "megatron/bridge").rglob("*recipes/**/*.py")
    assert not [file for file in recipes if OLD_STORE.search(file.read_text())]


def test_library_code_gets_the_move_only(release: Migrated) -> None:
    before, after = release.texts(CONFIG)
    assert len(after.splitlines()) <= len(before.splitlines())
    for name in ("data_parallel_sharding_strategy", "average_in_collective", "ckpt_format"):
        assert after.count(name) == before.count(name)
    common = "megatron/bridge/recipes/common.py"
    if (release.before / common).exists():
        old, new = release.texts(common)
        assert old == new


def test_the_recipe_stores_of_the_newest_release_lose_one_line_each(newest: Migrated) -> None:
    recipes = [file for file in newest.changed() if "recipes/" in file]
    texts = [newest.texts(file) for file in recipes]
    assert sum(len(OLD_STORE.findall(before)) for before, _ in texts) == 3
    assert sum(len(OLD_STORE.findall(after)) for _, after in texts) == 0
    assert [len(NEW_STORE.findall(before)) for before, _ in texts] == [
        len(NEW_STORE.findall(after)) for _, after in texts
    ]


def test_every_recipe_that_is_on_has_its_checkpoint_format_or_a_reason(newest: Migrated) -> None:
    completed, explained, unexplained = [], [], []
    for file in sorted((newest.after / "megatron/bridge").rglob("*recipes/**/*.py")):
        name = str(file.relative_to(newest.after))
        before = newest.before / name
        if not NEW_STORE.search(before.read_text()) and not OLD_STORE.search(before.read_text()):
            continue
        result = migrate_file(str(file))
        spoken = [f.place.line for f in result.remaining if f.code in ("FSDP012", "FSDP020")] if result else []
        for old, new in zip(functions(before), functions(file), strict=True):
            if not switches_on(new) or stores(old, "ckpt_format"):
                continue
            label = f"{name}::{new.name}"
            if stores(new, "ckpt_format"):
                completed.append(label)
            elif any(new.lineno <= line <= (new.end_lineno or 0) for line in spoken):
                explained.append(label)
            else:
                unexplained.append(label)
    assert not unexplained
    assert completed


def functions(file: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)]


def stores(function: ast.FunctionDef, attribute: str) -> bool:
    return any(target.attr == attribute for target, _ in assignments(function))


def switches_on(function: ast.FunctionDef) -> bool:
    return any(
        target.attr == "use_megatron_fsdp" and isinstance(value, ast.Constant) and value.value is True
        for target, value in assignments(function)
    )


def assignments(function: ast.FunctionDef) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets if isinstance(target, ast.Attribute))


def test_nothing_that_is_installed_is_edited(tmp_path: Path) -> None:
    installed = Path(sysconfig.get_path("purelib"))
    done = run(
        sys.executable, "-m", "fsdp_migrate", str(installed), "--diff", "--exclude", "fsdp_migrate/", cwd=tmp_path
    )
    assert done.stdout == ""
    assert done.returncode in (0, 2)
