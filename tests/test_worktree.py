"""What git would not bring back."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fsdp_migrate.worktree import changed_since_commit, toplevel, uncommitted


def git(*arguments: str, cwd: Path) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *settings, *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    (folder / "pkg").mkdir(parents=True)
    git("init", "-q", cwd=folder)
    for name in ("clean.py", "edited.py", "staged.py", "pkg/clean.py", "odd [a] *.py"):
        (folder / name).write_text("1\n")
    (folder / ".gitignore").write_text("build/\nignored.py\n")
    git("add", "-A", cwd=folder)
    git("commit", "-qm", "x", cwd=folder)
    monkeypatch.chdir(folder)
    return folder


def test_clean_files_are_clean(repository: Path) -> None:
    assert uncommitted(["clean.py", "pkg/clean.py", str(repository / "clean.py"), "odd [a] *.py"]) == ({}, [])


def test_reasons(repository: Path) -> None:
    (repository / "edited.py").write_text("2\n")
    (repository / "staged.py").write_text("2\n")
    git("add", "staged.py", cwd=repository)
    for name in ("new.py", "new/deep.py", "build/out.py", "ignored.py"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("1\n")
    names = ["edited.py", "staged.py", "new.py", "new/deep.py", "build/out.py", "ignored.py", "clean.py"]
    assert uncommitted(names) == (
        {
            "edited.py": "has uncommitted changes",
            "staged.py": "has uncommitted changes",
            "new.py": "is not committed (git does not track it)",
            "new/deep.py": "is not committed (git does not track it)",
            "build/out.py": "is not committed (git ignores it)",
            "ignored.py": "is not committed (git ignores it)",
        },
        [],
    )


def test_only_the_files_in_question_count(repository: Path) -> None:
    (repository / "edited.py").write_text("2\n")
    assert uncommitted(["clean.py"]) == ({}, [])


def test_a_file_of_no_repository_is_homeless(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text("1\n")
    assert uncommitted(["../alone.py", "clean.py"]) == ({}, ["../alone.py"])


def test_a_symbolic_link_counts_as_the_file_that_it_stands_for(repository: Path, tmp_path: Path) -> None:
    (repository / "edited.py").write_text("2\n")
    (tmp_path / "link.py").symlink_to(repository / "edited.py")
    assert uncommitted(["../link.py"]) == ({"../link.py": "has uncommitted changes"}, [])


def test_a_file_of_a_submodule_belongs_to_the_submodule(repository: Path, tmp_path: Path) -> None:
    git("clone", "-q", str(repository), str(tmp_path / "library"), cwd=tmp_path)
    git("submodule", "-q", "add", "../library", "third", cwd=repository)
    assert uncommitted(["third/clean.py"]) == ({}, [])
    (repository / "third" / "clean.py").write_text("2\n")
    assert uncommitted(["third/clean.py"]) == ({"third/clean.py": "has uncommitted changes"}, [])


def test_a_new_repository_inside_another_is_its_own(repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    git("init", "-q", cwd=inner)
    (inner / "a.py").write_text("1\n")
    assert uncommitted(["inner/a.py"])[0] == {"inner/a.py": "is not committed (git does not track it)"}


def test_without_a_git_program_every_file_is_homeless(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert uncommitted(["clean.py"]) == ({}, ["clean.py"])


def test_when_git_cannot_tell_it_counts_as_uncommitted(repository: Path) -> None:
    (repository / ".git" / "index").write_bytes(b"garbage")
    dirty, homeless = uncommitted(["clean.py"])
    assert homeless == []
    assert "git cannot tell whether it is committed" in dirty["clean.py"]


def test_a_hook_of_another_repository_does_not_mislead_it(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere/.git")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert uncommitted(["clean.py"]) == ({}, [])


def test_many_files_at_once(repository: Path) -> None:
    names = [f"many/{n}.py" for n in range(450)]
    (repository / "many").mkdir()
    for name in names:
        (repository / name).write_text("1\n")
    git("add", "-A", cwd=repository)
    git("commit", "-qm", "x", cwd=repository)
    (repository / names[300]).write_text("2\n")
    assert list(uncommitted(names)[0]) == [names[300]]


def test_toplevel(repository: Path, tmp_path: Path) -> None:
    assert toplevel("pkg") == os.path.realpath(repository)
    assert toplevel(str(tmp_path)) is None


def test_what_differs_from_the_last_commit(repository: Path) -> None:
    assert changed_since_commit(".") == []
    (repository / "edited.py").write_text("2\n")
    (repository / "pkg" / "clean.py").write_text("2\n")
    (repository / "staged.py").unlink()
    top = toplevel(str(repository))
    assert top is not None
    assert changed_since_commit("pkg") == [f"{top}/edited.py", f"{top}/pkg/clean.py"]


def test_nothing_differs_outside_a_repository(tmp_path: Path) -> None:
    assert changed_since_commit(str(tmp_path)) == []
