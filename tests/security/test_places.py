"""Nothing is written but the files below the paths that were given, even when the tree changes meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdp_migrate import write as writing
from fsdp_migrate.run import find
from fsdp_migrate.write import RefusedError, write
from tests.security.conftest import RECIPE, command

NEW = RECIPE.replace(b"dist", b"ddp")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is looked at, with a twin outside that has the same content."""
    for folder in ("given/pkg", "outside"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "recipe.py").write_bytes(RECIPE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exchange(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)


def test_links_that_lead_out_are_reported_only(tree: Path) -> None:
    (tree / "given" / "folder").symlink_to(tree / "outside")
    (tree / "given" / "file.py").symlink_to(tree / "outside" / "recipe.py")
    (tree / "given" / "up").symlink_to("..")
    command("--write", "given", cwd=tree)
    assert (tree / "outside" / "recipe.py").read_bytes() == RECIPE
    assert (tree / "given" / "pkg" / "recipe.py").read_bytes() != RECIPE


def test_a_folder_that_became_a_link_since_it_was_read_is_refused(tree: Path) -> None:
    found = find(["given"])
    assert found.paths == ["given/pkg/recipe.py"]
    exchange(tree / "given" / "pkg", tree / "outside")
    with pytest.raises(RefusedError, match=r"a symbolic link on the way to it changed.*run again"):
        write("given/pkg/recipe.py", RECIPE, NEW, place=found.places["given/pkg/recipe.py"])
    assert (tree / "outside" / "recipe.py").read_bytes() == RECIPE


def test_a_folder_that_becomes_a_link_while_it_is_opened_is_refused(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_folder = writing._open_folder

    def late(path: str) -> int:
        exchange(tree / "given" / "pkg", tree / "outside")
        return open_folder(path)

    monkeypatch.setattr(writing, "_open_folder", late)
    with pytest.raises(RefusedError, match="a symbolic link on the way to it changed"):
        write("given/pkg/recipe.py", RECIPE, NEW)
    assert (tree / "outside" / "recipe.py").read_bytes() == RECIPE


@pytest.mark.parametrize("moment", ["_check", "_fill", "_demand_same"])
def test_a_folder_that_becomes_a_link_later_is_still_the_one_that_is_written(
    tree: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = getattr(writing, moment)

    def late(*arguments: object) -> None:
        exchange(tree / "given" / "pkg", tree / "outside")
        function(*arguments)

    monkeypatch.setattr(writing, moment, late)
    write("given/pkg/recipe.py", RECIPE, NEW)
    assert (tree / "outside" / "recipe.py").read_bytes() == RECIPE
    assert (tree / "given" / "moved" / "recipe.py").read_bytes() == NEW


@pytest.mark.parametrize("moment", ["_check", "_fill"])
def test_a_file_that_becomes_a_link_is_refused(tree: Path, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = getattr(writing, moment)
    recipe = tree / "given" / "pkg" / "recipe.py"

    def late(*arguments: object) -> None:
        recipe.unlink()
        recipe.symlink_to(tree / "outside" / "recipe.py")
        function(*arguments)

    monkeypatch.setattr(writing, moment, late)
    with pytest.raises(RefusedError, match="run again"):
        write(str(recipe), RECIPE, NEW)
    assert (tree / "outside" / "recipe.py").read_bytes() == RECIPE
    assert recipe.is_symlink()
    assert os.listdir(recipe.parent) == ["recipe.py"]


def test_a_hard_link_to_a_file_outside_is_not_written(tree: Path) -> None:
    os.link(tree / "outside" / "recipe.py", tree / "given" / "linked.py")
    done = command("--write", "given", cwd=tree)
    assert done.returncode == 2
    assert b"given/linked.py: error: not written: it has 2 hard links" in done.stderr
    assert (tree / "outside" / "recipe.py").read_bytes() == RECIPE


def test_a_report_replaces_no_device(tree: Path) -> None:
    null = tree / "null"
    os.mkfifo(null)
    reader = os.open(null, os.O_RDONLY | os.O_NONBLOCK)
    done = command("--output-format", "json", "--output-file", null, "given", cwd=tree)
    assert done.returncode == 1
    assert os.read(reader, 1) == b"{"
    os.close(reader)
    assert null.is_fifo()


def test_quickfix_waits_for_no_pipe(tree: Path) -> None:
    os.mkfifo(tree / "pipe.py")
    done = command("quickfix", "pipe.py:1", cwd=tree)
    assert done.returncode == 2
    assert b"pipe.py: is not a regular file" in done.stderr
