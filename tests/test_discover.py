"""Which files a run looks at, and what it says about the ones it cannot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fsdp_migrate import discover as discovering
from fsdp_migrate.discover import File, Problem, discover, explain, frozen_reason, language_of_script, read
from fsdp_migrate.run import find

FLAG = b"cfg.dist.use_megatron_fsdp = True\n"


def git(*arguments: str, cwd: Path) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *settings, *arguments], cwd=cwd, check=True, capture_output=True)


def tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FLAG)


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["repository", "no repository", "no git program"])
def root(request: pytest.FixtureRequest, plain: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory; most rules hold whether or not git can be asked."""
    if request.param != "no repository":
        git("init", "-q", cwd=plain)
    if request.param == "no git program":
        monkeypatch.setenv("PATH", "/nowhere")
    return plain


def paths(*given: str, exclude: tuple[str, ...] = (), include: tuple[str, ...] = ()) -> list[str]:
    items = list(discover(given or ["."], exclude=exclude, include=include))
    assert not [item for item in items if isinstance(item, Problem)]
    return sorted(item.path for item in items)


def problems(*given: str) -> list[tuple[str, str]]:
    return [(problem.path, problem.message) for problem in find(given or ["."]).problems]


def test_new_files_are_in_and_ignored_ones_are_out(root: Path) -> None:
    tree(root, "a.py", "pkg/b.py", "pkg/ignored.py", "build/c.py", "pkg/deep/kept.py", "pkg/deep/d_gen.py", "d_gen.py")
    (root / ".gitignore").write_text("build/\nignored.py\n*_gen.py\n")
    (root / "pkg" / "deep" / ".gitignore").write_text("!d_gen.py\n")
    assert paths() == ["a.py", "pkg/b.py", "pkg/deep/d_gen.py", "pkg/deep/kept.py"]


def test_an_ignore_pattern_with_a_slash_is_about_its_own_folder(root: Path) -> None:
    tree(root, "top.py", "sub/top.py", "sub/inner/x.py", "inner/x.py")
    (root / ".gitignore").write_text("/top.py\n")
    (root / "sub" / ".gitignore").write_text("inner/*.py\n")
    assert paths() == ["inner/x.py", "sub/top.py"]


def test_vendored_code_is_out_unless_it_is_named(root: Path) -> None:
    tree(root, "a.py", "venv/lib/site-packages/m/x.py", "web/node_modules/y.py", "site-packages-of-mine/z.py")
    assert paths() == ["a.py", "site-packages-of-mine/z.py"]
    assert paths("venv/lib/site-packages") == ["venv/lib/site-packages/m/x.py"]
    assert paths("web/node_modules/y.py") == ["web/node_modules/y.py"]


def test_explicit_paths_always_count(root: Path) -> None:
    tree(root, "build/a.py", "build/sub/b.py", "c.txt")
    (root / ".gitignore").write_text("build/\n")
    assert paths() == []
    assert paths("build/a.py") == ["build/a.py"]
    assert paths("build") == ["build/a.py", "build/sub/b.py"]
    assert paths("build/sub") == ["build/sub/b.py"]
    assert paths("c.txt") == ["c.txt"]
    assert paths("build/a.py", exclude=("build",)) == ["build/a.py"]


def test_exclude_and_include_have_the_syntax_of_gitignore(root: Path) -> None:
    tree(root, "a.py", "old/a.py", "new/a.py", "new/old/b.py")
    assert paths(exclude=("old/",)) == ["a.py", "new/a.py"]
    assert paths(exclude=("/old/",)) == ["a.py", "new/a.py", "new/old/b.py"]
    assert paths(include=("new/**",)) == ["new/a.py", "new/old/b.py"]
    assert paths(include=("new/**",), exclude=("b.py",)) == ["new/a.py"]
    assert paths(str(root), exclude=("/old/",)) == ["a.py", "new/a.py", "new/old/b.py"]


def test_paths_are_relative_below_the_working_directory_and_as_given_elsewhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(root, "pkg/a.py", "other/b.py")
    monkeypatch.chdir(root / "pkg")
    assert paths() == ["a.py"]
    assert paths(str(root / "pkg")) == ["a.py"]
    assert paths("../other") == ["../other/b.py"]
    assert paths(str(root / "other")) == [str(root / "other" / "b.py")]


def test_overlapping_paths_give_a_file_once(root: Path) -> None:
    tree(root, "pkg/a.py")
    assert find(["pkg/a.py", "pkg", ".", str(root)]).paths == ["pkg/a.py"]


def test_odd_names(root: Path) -> None:
    names = [
        "new\nline.py",
        "with space.py",
        os.fsdecode(b"latin-\xe9.py"),
        "quo'te\".py",
        "-dash.py",
        "*.py",
        ":(top)x.py",
    ]
    tree(root, *names)
    assert paths() == sorted(names)
    assert paths(*(f"./{name}" for name in names)) == sorted(names)


def test_folders_with_odd_names(root: Path) -> None:
    tree(root, "[a]/x.py", "a/y.py", "new\nline/z.py", os.fsdecode(b"\xff") + "/w.py")
    assert paths("[a]", "new\nline", os.fsdecode(b"\xff")) == [
        "[a]/x.py",
        "new\nline/z.py",
        os.fsdecode(b"\xff") + "/w.py",
    ]


def test_deleted_and_conflicting_entries_of_the_index(plain: Path) -> None:
    git("init", "-q", "-b", "main", cwd=plain)
    tree(plain, "gone.py", "both.py")
    git("add", "-A", cwd=plain)
    git("commit", "-qm", "one", cwd=plain)
    git("checkout", "-qb", "other", cwd=plain)
    (plain / "both.py").write_bytes(FLAG + b"1\n")
    git("commit", "-qam", "two", cwd=plain)
    git("checkout", "-q", "main", cwd=plain)
    (plain / "both.py").write_bytes(FLAG + b"2\n")
    git("commit", "-qam", "three", cwd=plain)
    with pytest.raises(subprocess.CalledProcessError):
        git("merge", "other", cwd=plain)
    (plain / "gone.py").unlink()
    found = find(["."])
    assert (found.paths, found.problems) == (["both.py"], [])


def test_submodules_are_out_unless_they_are_named(plain: Path) -> None:
    for name in ("library", "project"):
        (plain / name).mkdir()
        git("init", "-q", cwd=plain / name)
        tree(plain / name, "a.py")
        git("add", "-A", cwd=plain / name)
        git("commit", "-qm", "x", cwd=plain / name)
    git("submodule", "-q", "add", "../library", "third", cwd=plain / "project")
    assert find(["project"]).paths == ["project/a.py"]
    assert paths("project/third") == ["project/third/a.py"]


def test_a_hook_of_another_repository_does_not_mislead_it(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q", cwd=plain)
    tree(plain, "a.py")
    monkeypatch.setenv("GIT_DIR", "/nowhere/.git")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert paths() == ["a.py"]


def test_no_program_of_the_repository_is_run(plain: Path) -> None:
    git("init", "-q", cwd=plain)
    tree(plain, "a.py")
    hook = plain / "hook"
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    git("config", "core.fsmonitor", str(hook), cwd=plain)
    assert paths() == ["a.py", "hook"]
    assert not (plain / "ran").exists()


def test_scripts_are_known_by_their_first_line(root: Path) -> None:
    for name, first in {"tool": "#!/usr/bin/env python3", "run": "#!/usr/bin/perl", "NOTES": "Dear reader"}.items():
        (root / name).write_bytes(first.encode() + b"\n" + FLAG)
    assert find(["."]).paths == ["tool"]


@pytest.mark.parametrize(
    "first_line, language",
    [
        (b"#!/usr/bin/python", "python"),
        (b"#!/usr/bin/env python3.12", "python"),
        (b"#! /opt/conda/bin/python3 -u", "python"),
        (b"#!/usr/bin/env -S python -m x", "python"),
        (b"#!/usr/bin/perl -w", ""),
        (b"#!/usr/bin/pythonista", ""),
        (b"python", ""),
        (b"", ""),
    ],
)
def test_language_of_script(first_line: bytes, language: str) -> None:
    assert language_of_script(first_line + b"\nx\n") == language


def test_a_named_file_of_an_unknown_kind_is_mentioned_if_it_has_the_flag(root: Path) -> None:
    (root / "flag.rs").write_bytes(FLAG)
    (root / "none.rs").write_bytes(b"fn main() {}\n")
    found = find(["flag.rs", "none.rs"])
    assert found.paths == []
    assert [problem.path for problem in found.skipped] == ["flag.rs"]


def test_broken_links_and_loops_are_problems_and_the_rest_goes_on(root: Path) -> None:
    tree(root, "a.py")
    (root / "broken.py").symlink_to("nowhere.py")
    (root / "loop.py").symlink_to("loop.py")
    (root / "circle").symlink_to(".")
    assert problems() == [
        ("broken.py", "is a broken symbolic link: repair or exclude it"),
        ("loop.py", "is a broken symbolic link: repair or exclude it"),
    ]
    assert find(["."]).paths == ["a.py"]
    assert [path for path, _ in problems("broken.py", "loop.py", "missing.py")] == [
        "broken.py",
        "loop.py",
        "missing.py",
    ]
    assert problems("missing.py")[0][1] == "does not exist: check the spelling"


def test_a_link_is_the_file_that_it_stands_for(root: Path) -> None:
    tree(root, "pkg/a.py", "outside/b.py")
    (root / "pkg" / "link.py").symlink_to("a.py")
    (root / "pkg" / "out.py").symlink_to("../outside/b.py")
    assert find(["pkg/link.py"]).frozen == {"pkg/link.py": ""}
    found = find(["pkg"]).frozen
    assert list(found) == ["pkg/a.py", "pkg/out.py"]
    assert "outside of the given paths; name it to migrate it" in found["pkg/out.py"]


def test_what_is_not_a_regular_file_is_a_problem(plain: Path) -> None:
    os.mkfifo(plain / "pipe.py")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock.py")
        assert problems() == [
            ("pipe.py", "is not a regular file: exclude it"),
            ("sock.py", "is not a regular file: exclude it"),
        ]
        assert problems("pipe.py") == [("pipe.py", "is not a regular file: leave it out")]
    (plain / "folder.py").mkdir()
    assert paths("folder.py") == []


def test_a_tracked_file_that_became_a_pipe_does_not_block(plain: Path) -> None:
    git("init", "-q", cwd=plain)
    tree(plain, "a.py")
    git("add", "-A", cwd=plain)
    (plain / "a.py").unlink()
    os.mkfifo(plain / "a.py")
    assert problems() == [("a.py", "is not a regular file: exclude it")]


PROGRAM = """
import os, sys
from fsdp_migrate.run import find
from fsdp_migrate import worktree
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
os.chdir(sys.argv[1])
found = find(["."])
print(found.paths)
for problem in found.problems:
    print(problem.path, problem.message)
"""


@pytest.mark.parametrize("is_repository", [True, False])
def test_what_may_not_be_read_is_a_problem_and_the_rest_goes_on(plain: Path, is_repository: bool) -> None:
    folder = plain
    while folder != folder.parent and folder.stat().st_uid == os.geteuid():
        folder.chmod(folder.stat().st_mode | 0o755)
        folder = folder.parent
    tree(plain, "a.py", "secret.py", "closed/b.py")
    environment = dict(os.environ)
    if is_repository:
        git("init", "-q", cwd=plain)
        # The tree belongs to root, not to who looks at it.
        environment |= {"GIT_CONFIG_GLOBAL": str(plain / "config")}
        (plain / "config").write_text("[safe]\n\tdirectory = *\n")
    (plain / "secret.py").chmod(0)
    (plain / "closed").chmod(0)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, plain], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    (plain / "closed").chmod(0o755)
    first, *rest = done.stdout.splitlines()
    assert first == "['a.py']"
    said = "cannot be read (permission denied): change its permissions or exclude it"
    assert rest == [f"closed {said}", f"secret.py {said}"]


def test_large_files_are_read_whole_and_huge_ones_reported(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plain / "large.py").write_bytes(b"#\n" * 100_000 + FLAG)
    assert find(["."]).paths == ["large.py"]
    monkeypatch.setattr(discovering, "SIZE_LIMIT", 1 << 17)
    assert find(["."]).paths == []
    assert problems() == [("large.py", "is larger than 0 MiB: split it, or migrate it by hand")]
    (plain / "large.py").write_bytes(b"#\n" * 100_000)
    assert problems() == []


def test_the_flag_is_found_across_the_pieces_of_a_huge_file(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovering, "SIZE_LIMIT", 1 << 17)
    for start in ((1 << 16) - 20, (1 << 16) + (1 << 20) - 20):
        (plain / "huge.py").write_bytes(b"#" * start + FLAG + b"#" * (1 << 20))
        assert [path for path, _ in problems()] == ["huge.py"]


def test_read_gives_what_is_wanted(plain: Path) -> None:
    (plain / "a.py").write_bytes(FLAG)
    (plain / "empty.py").write_bytes(b"")
    assert read("a.py", lambda data: b"dist" in data) == FLAG
    assert read("a.py", lambda data: b"ddp" in data) is None
    assert read("empty.py", lambda data: True) is None


@pytest.mark.parametrize(
    "path, data, is_frozen",
    [
        ("CHANGELOG.md", b"", True),
        ("docs/changelog-0.5.rst", b"", True),
        ("docs/versions/0.4.2/guide.py", b"", True),
        ("versions/v1.0/guide.py", b"", True),
        ("src/versions/latest/recipe.py", b"", False),
        ("alembic/versions/3a1b_add.py", b"", False),
        ("src/changelog/recipe.py", b"", False),
        ("src/recipe.py", b"# @generated by tool\n", True),
        ("src/recipe.py", b"\n" * 5000 + b"# @generated", False),
    ],
)
def test_history_and_generated_files_are_frozen(path: str, data: bytes, is_frozen: bool) -> None:
    assert bool(frozen_reason(path, data)) is is_frozen


def test_other_failures_to_read_are_explained() -> None:
    assert (
        explain("a.py", OSError(5, "Input/output error")) == "cannot be read (Input/output error): repair or exclude it"
    )


def test_memory_does_not_grow_with_the_tree(root: Path) -> None:
    tree(root, *(f"d{n % 7}/f{n}.py" for n in range(300)))
    stream = discover(["."])
    assert isinstance(next(stream), File)  # a stream: nothing was collected first
    assert len(list(stream)) == 299


def test_what_is_left_out_is_said_on_request(root: Path) -> None:
    tree(root, "a.py", "out.py", "build/x/c.py", "lib/site-packages/m/d.py", "data/e.py")
    (root / ".gitignore").write_text("build/\n")
    if (root / ".git").exists() and os.environ["PATH"] != "/nowhere":
        git("init", "-q", "data", cwd=root)
        git("add", "-A", cwd=root / "data")
        git("commit", "-qm", "x", cwd=root / "data")
        git("add", "-A", cwd=root)
        expected = {"data/": "it is a submodule: name it to migrate it", "build/": "git ignores it"}
    else:
        expected = {"build/": "a .gitignore file says so"}
    found = find(["."], exclude=["out.py"], explains=True)
    left_out = {path: why for path, why in found.left_out.items() if not path.startswith(".git")}
    others = {path: why for path, why in left_out.items() if "site-packages" in path}
    assert [why.partition(":")[0] for why in others.values()] == ["others own what is in it, or a tool wrote it"]
    assert {k: v for k, v in left_out.items() if k not in others} == {
        **expected,
        "out.py": "--exclude or --include leaves it out",
    }
    assert find(["."], exclude=["out.py"]).left_out == {}
