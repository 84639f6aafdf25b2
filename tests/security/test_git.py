"""Git is asked about a repository whose own configuration would run programs, or point elsewhere."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
from pathlib import Path

import pytest

from fsdp_migrate.worktree import changed_since_commit, uncommitted
from tests.security.conftest import RECIPE, Trap, command, git

CALLS = [["--diff", "."], ["--write", "."], ["--write", "--allow-dirty", "."]]

CONFIGURATIONS = {
    "fsmonitor": "[core]\n fsmonitor = {program}\n",
    "hooks": "[core]\n hooksPath = {folder}/hooks\n",
    "pager": "[core]\n pager = {program}\n[pager]\n status = {program}\n ls-files = {program}\n",
    "clean filter": '[filter "x"]\n clean = {program}\n smudge = {program}\n required = true\n',
    "process filter": '[filter "x"]\n process = {program}\n',
    "filter in another case": '[FILTER "x"]\n CLEAN = {program}\n',
    "filter in an included file": "[include]\n path = {folder}/included\n",
    "filter with an odd name": '[filter "x=y"]\n clean = {program}\n',
    "external diff": '[diff]\n external = {program}\n[diff "x"]\n command = {program}\n textconv = {program}\n',
    "alias": "[alias]\n status = !{program}\n ls-files = !{program}\n diff = !{program}\n config = !{program}\n",
    "askpass and editor": "[core]\n askPass = {program}\n editor = {program}\n[sequence]\n editor = {program}\n",
    "gpg": "[gpg]\n program = {program}\n[log]\n showSignature = true\n[status]\n submoduleSummary = true\n",
}


def configured(repository: Path, trap: Trap, text: str) -> None:
    (trap.folder / "included").write_text(f'[filter "x"]\n clean = {trap.program}\n')
    hooks = trap.folder / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman", "reference-transaction"):
        for folder in (hooks, repository / ".git" / "hooks"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(trap.program.read_bytes())
            (folder / name).chmod(0o755)
    name = "x=y" if "x=y" in text else "x"
    (repository / ".git" / "info" / "attributes").write_text(f"*.py filter={name} diff={name} text eol=lf ident\n")
    with (repository / ".git" / "config").open("a") as config:
        config.write(text.format(program=trap.program, folder=trap.folder))
    # What is newer than the index has to be compared.
    for path in (repository / "recipe.py", repository / "pkg" / "other.py"):
        os.utime(path, (1, 1))


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_no_program_of_the_repository_runs(repository: Path, trap: Trap, text: str) -> None:
    configured(repository, trap, text)
    for call in CALLS:
        assert command(*call, cwd=repository).returncode in (0, 1, 2)
    uncommitted([str(repository / "recipe.py"), str(repository / "pkg" / "other.py")])
    changed_since_commit(str(repository))
    assert trap.sprung == ""


def test_the_trap_springs(repository: Path, trap: Trap) -> None:
    configured(repository, trap, CONFIGURATIONS["clean filter"])
    git("status", "--porcelain", cwd=repository)
    assert "program" in trap.sprung


def test_a_filter_that_is_not_run_makes_no_clean_file_dirty(repository: Path, trap: Trap) -> None:
    (repository / ".git" / "info" / "attributes").write_text("*.py filter=x\n")
    git("config", "filter.x.clean", "tr a-z A-Z", cwd=repository)
    os.utime(repository / "recipe.py", (1, 1))
    git("add", "--renormalize", ".", cwd=repository)
    git("commit", "-qm", "y", cwd=repository)
    git("status", cwd=repository)  # which notes that the file is what the filter makes the commit of
    assert uncommitted([str(repository / "recipe.py")]) == ({}, [])


def test_a_missing_object_is_not_fetched(repository: Path, trap: Trap) -> None:
    git("config", "core.repositoryFormatVersion", "1", cwd=repository)
    git("config", "extensions.partialClone", "origin", cwd=repository)
    git("config", "remote.origin.promisor", "true", cwd=repository)
    git("config", "protocol.ext.allow", "always", cwd=repository)
    git("config", "core.sshCommand", str(trap.program), cwd=repository)
    for url in (f"ext::{trap.program}", "ssh://host/path"):
        git("config", "remote.origin.url", url, cwd=repository)
        for folder in (repository / ".git" / "objects").iterdir():
            for loose in folder.iterdir() if len(folder.name) == 2 else ():
                loose.unlink()
        for call in CALLS:
            command(*call, cwd=repository)
        assert trap.sprung == ""


def test_a_submodule_runs_nothing_either(repository: Path, tmp_path: Path, trap: Trap) -> None:
    git("clone", "-q", str(repository), str(tmp_path / "library"), cwd=tmp_path)
    git("submodule", "-q", "add", "../library", "third", cwd=repository)
    git("commit", "-qm", "y", cwd=repository)
    with (repository / ".git" / "modules" / "third" / "config").open("a") as config:
        config.write(f'[core]\n fsmonitor = {trap.program}\n[filter "x"]\n clean = {trap.program}\n')
    (repository / ".git" / "modules" / "third" / "info" / "attributes").write_text("*.py filter=x\n")
    for name in ("recipe.py", "pkg/other.py"):
        os.utime(repository / "third" / name, (1, 1))
        os.utime(repository / name, (1, 1))
    for call in CALLS:
        command(*call, cwd=repository)
    command("--write", "third", cwd=repository)
    assert trap.sprung == ""


def test_a_folder_that_looks_like_a_repository_is_none(tmp_path: Path, trap: Trap) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    git("init", "-q", "--bare", cwd=folder)
    (folder / "config").write_text(f"[core]\n bare = false\n worktree = {folder}\n fsmonitor = {trap.program}\n")
    (folder / ".git").mkdir()
    (folder / "recipe.py").write_bytes(RECIPE)
    for call in CALLS:
        command(*call, cwd=folder)
    assert trap.sprung == ""
    assert b"cfg.ddp.use_megatron_fsdp" in (folder / "recipe.py").read_bytes()


def entry(name: bytes) -> bytes:
    """A file in git's index, which git itself would refuse to add under such a name."""
    fixed = struct.pack(">10I20sH", 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 0, b"\1" * 20, len(name))
    return (fixed + name).ljust((len(fixed + name) // 8 + 1) * 8, b"\0")


@pytest.mark.parametrize("name", ["../outside/recipe.py", "pkg/../../outside/recipe.py", "{outside}/recipe.py"])
def test_an_index_that_points_outside_leads_nowhere(repository: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "recipe.py").write_bytes(RECIPE)
    body = struct.pack(">4sII", b"DIRC", 2, 1) + entry(name.format(outside=outside).encode())
    (repository / ".git" / "index").write_bytes(body + hashlib.sha1(body).digest())
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=False).stdout
    assert b"outside/recipe.py" in listed
    command("--write", "--allow-dirty", ".", cwd=repository)
    command("--write", "--allow-dirty", "pkg", cwd=repository)
    assert (outside / "recipe.py").read_bytes() == RECIPE


def test_a_git_file_that_points_elsewhere_leads_nowhere(repository: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    git("clone", "-q", str(repository), str(outside), cwd=tmp_path)
    git("config", "core.worktree", str(outside), cwd=outside)
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / ".git").write_text(f"gitdir: {outside / '.git'}\n")
    (hostile / "recipe.py").write_bytes(RECIPE)
    command("--write", "--allow-dirty", ".", cwd=hostile)
    assert (outside / "recipe.py").read_bytes() == RECIPE
    assert (outside / "pkg" / "other.py").read_bytes() == RECIPE


def test_a_tracked_folder_that_became_a_link_is_not_written_through(repository: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (repository / "pkg").rename(outside)
    (repository / "pkg").symlink_to(outside)
    done = command("--write", "--allow-dirty", ".", cwd=repository)
    assert (outside / "other.py").read_bytes() == RECIPE
    assert b"outside of the given paths; name it to migrate it" in done.stdout
