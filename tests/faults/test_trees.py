"""Trees with everything in them that is no ordinary file, and names and contents that nobody expects."""

from __future__ import annotations

import os
import resource
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from tests.faults.conftest import NEW, OLD, demand_whole, run, tree

DEEP = 5_000
FLAG = "cfg.dist.use_megatron_fsdp = True\n"
YAML = "dist:\n  use_megatron_fsdp: true\n"
JSON = '{"dist": {"use_megatron_fsdp": true}, "x": '
SHELL = "python train.py dist.use_megatron_fsdp=true\n"


@pytest.fixture(params=["repository", "no repository"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "repository":
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def test_what_is_no_file_is_not_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tree(root, 1)
    for name in ("pipe.py", "pipe", ".gitignore" if not (root / ".git").exists() else "other"):
        os.mkfifo(root / name)
    (root / "loop.py").symlink_to("loop.py")
    (root / "round").symlink_to("..")
    (root / "pipe_link.py").symlink_to("pipe.py")
    (root / "zero.py").symlink_to("/dev/zero")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.py")
        done = run("--write", "--allow-dirty", ".", cwd=root)
    assert done.returncode == 2
    assert b"loop.py: error: is a broken symbolic link: repair or exclude it" in done.stderr
    assert demand_whole(files) == 1
    assert stat.S_ISFIFO(os.lstat(root / "pipe.py").st_mode)


def test_devices(root: Path) -> None:
    files = tree(root, 1)
    try:
        for name, kind, device in (("zero.py", stat.S_IFCHR, (1, 5)), ("disk.py", stat.S_IFBLK, (7, 99))):
            os.mknod(root / name, kind | 0o600, os.makedev(*device))
    except PermissionError:
        pytest.skip("only root can make devices")
    done = run("--write", "--allow-dirty", ".", "zero.py", cwd=root)
    assert done.returncode == 2
    assert b"zero.py: error: is not a regular file" in done.stderr
    assert demand_whole(files) == 1


NAMES = [
    b"a\nb.py",
    b"\xff\xfe.py",
    b"a b.py",
    b"'\".py",
    b"-rf.py",
    b"a\x1b[31m.py",
    "é\u202e.py".encode(),
    b"*.py",
    b"\\.py",
]


def test_odd_names(root: Path) -> None:
    for name in NAMES:
        (root / os.fsdecode(name)).write_bytes(OLD)
    shown = run("--color", "always", ".", cwd=root)
    assert shown.returncode == 1
    assert b"\x1b[31m.py" not in shown.stdout
    assert "\u202e".encode() not in shown.stdout
    done = run("--write", "--allow-dirty", ".", cwd=root)
    assert done.returncode == 0, done.stderr
    assert {(root / os.fsdecode(name)).read_bytes() for name in NAMES} == {NEW}
    assert done.stdout.count(b"\n") == len(NAMES)  # one line each: none in a name
    # The names themselves, as a shell's pattern hands them over.
    for name in NAMES:
        (root / os.fsdecode(name)).write_bytes(OLD)
    done = run("--write", "--allow-dirty", "--", *map(os.fsdecode, NAMES), cwd=root)
    assert done.returncode == 0, done.stderr


def test_two_names_that_differ_in_case_only(root: Path) -> None:
    (root / "recipe.py").write_bytes(OLD)
    (root / "Recipe.py").write_bytes(OLD.replace(b"True", b"False"))
    assert run("--write", "--allow-dirty", ".", cwd=root).returncode == 0
    assert (root / "recipe.py").read_bytes() == NEW
    assert b"ddp.use_megatron_fsdp" in (root / "Recipe.py").read_bytes()


def test_few_open_files(root: Path) -> None:
    files = tree(root, 2_000 if os.environ.get("FSDP_MIGRATE_FAULTS") == "all" else 200)
    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))}
    assert run("--write", "--allow-dirty", ".", cwd=root, **few).returncode == 0
    assert demand_whole(files) == len(files)


def test_huge_files_of_holes(tmp_path: Path) -> None:
    root = tmp_path
    files = tree(root, 1)
    with (root / "huge.py").open("wb") as file:
        file.truncate(1 << 30)
    with (root / "named.py").open("wb") as file:
        file.write(OLD)
        file.truncate(1 << 30)
    done = run("--write", ".", cwd=root)
    assert done.returncode == 2
    assert done.stderr.count(b"error:") == 1
    assert b"named.py: error: is larger than 16 MiB: split it, or migrate it by hand" in done.stderr
    assert demand_whole(files) == 1


CONTENTS = {
    "long_line.py": f"{FLAG}x = '{'y' * 10_000_000}'\n",
    "parentheses.py": f"{FLAG}x = {'(' * DEEP}1{')' * DEEP}\n",
    "signs.py": f"{FLAG}x = {'-' * DEEP}1\n",
    "attributes.py": f"{FLAG}x = a{'.b' * DEEP}\n",
    "sums.py": f"{FLAG}x = 1{'+1' * DEEP}\n",
    "conditions.py": f"{FLAG}x = {'1 if a else ' * DEEP}1\n",
    "lambdas.py": f"{FLAG}x = {'lambda: ' * DEEP}1\n",
    "blocks.py": FLAG + "".join(f"{' ' * n}if a:\n" for n in range(99)) + " " * 99 + "pass\n",
    "branches.py": f"{FLAG}if a:\n    pass\n" + "elif a:\n    pass\n" * DEEP,
    "zero.py": f"{FLAG}x = '\0'\n",
    "number.py": f"{FLAG}x = {'9' * DEEP}\n",
    "lists.yaml": f"{YAML}x: {'[' * DEEP}{']' * DEEP}\n",
    "maps.yaml": f"{YAML}x: {'{a: ' * DEEP}1{'}' * DEEP}\n",
    "bullets.yaml": f"{YAML}x:\n {'- ' * DEEP}1\n",
    "zero.yaml": f"{YAML}x: \0\n",
    "number.yaml": f"{YAML}x: {'9' * DEEP}\n",
    "objects.yaml": f"{YAML}x: !!python/object/apply:os.getpid []\n",
    "own.yaml": f"a: &a [*a]\n{YAML}",
    "lists.json": f"{JSON}{'[' * DEEP}{']' * DEEP}}}\n",
    "maps.json": JSON + '{"a":' * DEEP + "1" + "}" * DEEP + "}\n",
    "number.json": f"{JSON}{'9' * DEEP}}}\n",
    "zero.json": f'{JSON}"\0"}}\n',
    "lists.toml": f"[dist]\nuse_megatron_fsdp = true\nx = {'[' * DEEP}{']' * DEEP}\n",
    "number.toml": f"[dist]\nuse_megatron_fsdp = true\nx = {'9' * DEEP}\n",
    "keys.toml": f"[dist]\nuse_megatron_fsdp = true\nx{'.a' * DEEP} = 1\n",
    "groups.sh": f"{SHELL}{'(' * DEEP}a{')' * DEEP}\n",
    "commands.sh": f"{SHELL}x={'$(' * DEEP}a{')' * DEEP}\n",
    "zero.sh": f"{SHELL}\0\n",
    "quotes.md": f"{'>' * DEEP} ```python\n{'>' * DEEP} {FLAG}{'>' * DEEP} ```\n",
    "bullets.md": "".join(f"{' ' * n}- a\n" for n in range(1_000)) + f"{' ' * 1_000}```python\n{' ' * 1_000}{FLAG}",
    "zero.md": f"```python\n{FLAG}\0\n```\n",
    "blocks.rst": "".join(f"{' ' * n}b::\n\n" for n in range(1_000)) + " " * 1_001 + FLAG,
    "outputs.ipynb": '{"cells": [{"cell_type": "code", "source": ["cfg.dist.use_megatron_fsdp = True"], "outputs": '
    + "[" * DEEP
    + "]" * DEEP
    + "}]}",
    "zero.ipynb": '{"cells": [{"cell_type": "code", "source": ["cfg.dist.use_megatron_fsdp = True\\u0000"]}]}',
}


def test_odd_contents(tmp_path: Path) -> None:
    for name, text in CONTENTS.items():
        (tmp_path / name).write_text(text)
    before = {name: (tmp_path / name).read_bytes() for name in CONTENTS}
    done = run("--write", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr
    assert b"this is a bug" not in done.stdout + done.stderr
    failed = {line.split(b":")[0].decode() for line in done.stderr.splitlines() if b": error: " in line}
    for name, old in before.items():
        new = (tmp_path / name).read_bytes()
        # Written, reported as failed, or something is said about it.
        assert new != old or name in failed or name.encode() + b":" in done.stdout, name
        assert name not in failed or new == old
    assert failed < set(CONTENTS)


def test_the_stack_is_not_overrun(tmp_path: Path) -> None:
    """The parser in C is given what `ast` just lets pass."""
    for depth in (150, 180, 190, 199):
        (tmp_path / f"lists{depth}.py").write_text(f"{FLAG}x = {'[' * depth}{']' * depth}\n")
    for depth in (300, 600, 900, 990):
        (tmp_path / f"sums{depth}.py").write_text(f"{FLAG}x = 1{'+1' * depth}\n")
        (tmp_path / f"calls{depth}.py").write_text(f"{FLAG}x = a{'.b()' * (depth // 2)}\n")
    assert run("--write", ".", cwd=tmp_path, env=os.environ | {"PYTHONHASHSEED": "0"}).returncode in (0, 2)
