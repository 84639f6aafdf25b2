"""Every diff applies with `git apply` and with `patch`, whatever is in the file and in its name."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsdp_migrate.diff import patch_name, quoted, shown, unified_diff

LINES = "".join(f"line {n}\n" for n in range(30)).encode()


def git(*arguments: str | Path, cwd: Path, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    settings = ["-c", "core.autocrlf=false", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    return subprocess.run(["git", *settings, *arguments], cwd=cwd, input=data, capture_output=True, check=False)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    git("init", "-q", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


CONTENTS = {
    "one line": (b"a\n", b"b\n"),
    "in the middle": (LINES, LINES.replace(b"line 15\n", b"line 15\nnew\n")),
    "two places": (LINES, LINES.replace(b"line 3\n", b"").replace(b"line 25\n", b"changed\n")),
    "first and last": (LINES, b"first\n" + LINES + b"last\n"),
    "crlf": (LINES.replace(b"\n", b"\r\n"), LINES.replace(b"\n", b"\r\n").replace(b"line 15", b"changed")),
    "mixed newlines": (b"a\r\nb\nc\r\n", b"a\r\nB\nc\r\n"),
    "lone carriage returns": (b"a\rb\rc\nd\n", b"a\rB\rc\nd\n"),
    "form feed": (b"a\n\x0c\nb\nc\n", b"a\n\x0c\nB\nc\n"),
    "other line ends of str.splitlines": (
        b"a\x0bb\x1cc\xc2\x85d\xe2\x80\xa8e\nf\n",
        b"a\x0bB\x1cc\xc2\x85d\xe2\x80\xa8e\nf\n",
    ),
    "latin-1": (b"# \xe9\xe8\nx = 1\n", b"# \xe9\xe8\nx = 2\n"),
    "byte order mark": (b"\xef\xbb\xbfx = 1\n", b"\xef\xbb\xbfx = 2\n"),
    "no newline at the end": (b"a\nb", b"a\nc"),
    "no newline at the end, unchanged line": (LINES + b"end", LINES.replace(b"line 28", b"changed") + b"end"),
    "newline at the end added": (b"a\nb", b"a\nb\n"),
    "newline at the end removed": (b"a\nb\n", b"a\nb"),
    "emptied": (b"a\nb\n", b""),
    "filled": (b"", b"a\nb\n"),
    "lines that look like a diff": (b"-- a\n++ b\n@@ -1 +1 @@\n", b"-- a\n@@ -1 +1 @@\n"),
    "a NUL": (b"a\0b\nc\n", b"a\0b\nd\n"),
}


@pytest.mark.parametrize("old, new", CONTENTS.values(), ids=CONTENTS)
def test_applies(repository: Path, old: bytes, new: bytes) -> None:
    file = repository / "recipe.py"
    file.write_bytes(old)
    diff = unified_diff("recipe.py", old, new)
    done = git("apply", "--whitespace=nowarn", "-", cwd=repository, data=diff)
    assert done.returncode == 0, done.stderr
    assert file.read_bytes() == new


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")
@pytest.mark.parametrize("name", ["recipe.py", "my recipe.py"])
def test_applies_with_patch(repository: Path, name: str) -> None:
    file = repository / name
    file.write_bytes(LINES)
    diff = unified_diff(name, LINES, LINES.replace(b"line 7\n", b"changed\n"))
    subprocess.run(["patch", "-p1", "--binary"], cwd=repository, input=diff, capture_output=True, check=True)
    assert b"changed\n" in file.read_bytes()


NAMES = [
    "with space.py",
    " leading and trailing .py",
    'quo"ted.py',
    "back\\slash.py",
    "tab\t.py",
    "new\nline.py",
    "naïve-名前.py",
    os.fsdecode(b"not-utf-8-\xff.py"),
    "escape-\x1b[31m.py",
    "a/b/deep.py",
    "-dash.py",
    "b/a.py",
]


@pytest.mark.parametrize("name", NAMES)
def test_applies_whatever_the_name(repository: Path, name: str) -> None:
    file = repository / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"a\n")
    done = git("apply", "-", cwd=repository, data=unified_diff(name, b"a\n", b"b\n"))
    assert done.returncode == 0, done.stderr
    assert file.read_bytes() == b"b\n"


@pytest.mark.parametrize("name", NAMES)
def test_names_are_quoted_as_git_does(repository: Path, name: str) -> None:
    file = repository / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"a\n")
    git("add", "-A", cwd=repository)
    file.write_bytes(b"b\n")
    expected = git("diff", cwd=repository).stdout.splitlines()
    actual = unified_diff(name, b"a\n", b"b\n").splitlines()
    assert [line for line in expected if not line.startswith(b"index ")] == actual


@pytest.mark.parametrize("folder", [".", "pkg", "pkg/pkg"])
def test_applies_from_any_folder_of_the_repository(
    repository: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    file = repository / folder / "pkg" / "recipe.py"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"a\n")
    monkeypatch.chdir(repository / folder)
    done = git("apply", "-", cwd=repository / folder, data=unified_diff("pkg/recipe.py", b"a\n", b"b\n"))
    assert done.returncode == 0, done.stderr
    assert file.read_bytes() == b"b\n"


def test_applies_outside_of_every_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pkg" / "recipe.py"
    file.parent.mkdir()
    file.write_bytes(b"a\n")
    monkeypatch.chdir(tmp_path)
    git("apply", "-", cwd=tmp_path, data=unified_diff("pkg/recipe.py", b"a\n", b"b\n"))
    assert file.read_bytes() == b"b\n"


def test_a_file_of_another_repository_is_named_from_its_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there/pkg"):
        (tmp_path / name).mkdir(parents=True)
    git("init", "-q", cwd=tmp_path / "here")
    git("init", "-q", cwd=tmp_path / "there")
    monkeypatch.chdir(tmp_path / "here")
    assert patch_name("../there/pkg/recipe.py") == "pkg/recipe.py"


def test_a_symbolic_link_is_named_by_what_it_stands_for(repository: Path) -> None:
    (repository / "recipe.py").write_bytes(b"a\n")
    (repository / "link.py").symlink_to("recipe.py")
    assert patch_name("link.py") == "recipe.py"


def test_equal_contents_have_no_diff() -> None:
    assert unified_diff("recipe.py", LINES, LINES) == b""


@pytest.fixture(scope="module")
def shared_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    git("init", "-q", cwd=folder)
    return folder


CONTENT = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"c\r\n", b"\x0c\n", b"d\r", b"e"]), max_size=30).map(
    b"".join
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=CONTENT, new=CONTENT)
def test_applies_for_any_two_contents(shared_repository: Path, old: bytes, new: bytes) -> None:
    if old == new:
        return
    file = shared_repository / "recipe.py"
    file.write_bytes(old)
    diff = unified_diff(str(file), old, new)
    done = git("apply", "--whitespace=nowarn", "-", cwd=shared_repository, data=diff)
    assert done.returncode == 0, (done.stderr, diff)
    assert file.read_bytes() == new


def test_what_is_shown_cannot_command_the_terminal() -> None:
    diff = unified_diff("recipe.py", b"a\n", b"\x1b]0;owned\x07\xe2\x80\xae\n")
    for colour in (False, True):
        text = shown(diff, colour=colour)
        assert "\x1b]" not in text
        assert "\u202e" not in text
        assert "\\x1b]0;owned\\x07\\u202e" in text
    assert "\x1b[32m" in text


def test_quoted_leaves_plain_names_alone() -> None:
    assert quoted("a/plain name.py") == b"a/plain name.py"
