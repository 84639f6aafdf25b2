"""Disks that are full or read-only, and files that change or go while the command runs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import NEW, OLD, demand_whole, others, run, start, tree


def mounted(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    try:
        yield from mounted(tmp_path / "small", "size=256k")
    except FileNotFoundError:
        pytest.skip("there is no mount program")


def test_a_full_disk(small: Path) -> None:
    files = tree(small, 40)
    ballast = small / "ballast"
    with ballast.open("wb") as file, pytest.raises(OSError, match="No space"):
        while True:
            os.write(file.fileno(), b"x" * 4096)
    done = run("--write", ".", cwd=small)
    assert done.returncode == 2
    assert b"not written: it cannot be written (No space left on device): repair that and run again" in done.stderr
    assert b"Traceback" not in done.stderr
    assert demand_whole(files) < 40
    assert others(small, files) == ["ballast"]
    ballast.unlink()
    assert run("--write", ".", cwd=small).returncode == 0
    assert demand_whole(files) == 40


def test_a_full_disk_while_a_file_is_written_in_place(small: Path) -> None:
    (file,) = tree(small, 1)
    os.link(file, small / "other.py")
    with (small / "ballast").open("wb") as ballast, pytest.raises(OSError, match="No space"):
        while True:
            os.write(ballast.fileno(), b"x" * 4096)
    done = run("--write", "--allow-hardlinks", "part0", cwd=small)
    assert done.returncode == 2
    assert file.read_bytes() == OLD
    assert others(small, [file]) == ["ballast", "other.py"]


def test_a_file_system_without_writing(small: Path) -> None:
    files = tree(small, 2)
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    done = run("--write", ".", cwd=small)
    assert done.returncode == 2
    assert done.stderr.count(b"not written: it") == 2
    assert b"Traceback" not in done.stderr
    assert demand_whole(files) == 0


def test_files_may_not_grow(tmp_path: Path) -> None:
    files = tree(tmp_path, 3)
    done = run("--write", ".", cwd=tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    assert done.returncode == 2
    assert done.stderr.count(b"not written: it cannot be written (File too large)") == 3
    assert (demand_whole(files), others(tmp_path, files)) == (0, [])


def test_a_file_that_may_not_change(tmp_path: Path) -> None:
    files = tree(tmp_path, 2)
    try:
        done = subprocess.run(["chattr", "+i", files[0]], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no chattr program")
    if done.returncode:
        pytest.skip(f"no file can be made immutable here: {done.stderr.decode().strip()}")
    try:
        done = run("--write", ".", cwd=tmp_path)
    finally:
        subprocess.run(["chattr", "-i", files[0]], check=True)
    assert done.returncode == 2
    assert b"part0/recipe0.py: error: not written: it is read-only" in done.stderr
    assert [file.read_bytes() for file in files] == [OLD, NEW]
    assert others(tmp_path, files) == []


# Does something between reading and writing.
MEANWHILE = """
import os, sys
from fsdp_migrate import cli
written, deed = cli._Run._written, sys.argv.pop(1)
def late(*arguments):
    exec(deed)
    return written(*arguments)
cli._Run._written = late
cli.main()
"""


@pytest.mark.parametrize(
    ("deed", "message"),
    [
        ("open('part0/recipe0.py', 'a').write('# mine')", b"it changed since it was read: run again"),
        ("open('part0/recipe0.py', 'r+').write('# ')", b"it changed since it was read: run again"),
        ("os.unlink('part0/recipe0.py')", b"it is not there any more: run again"),
        ("os.rename('part0', 'gone')", b"it is not there any more: run again"),
        ("os.unlink('part0/recipe0.py'); os.mkfifo('part0/recipe0.py')", b"it is not a regular file any more"),
        ("os.unlink('part0/recipe0.py'); os.mkdir('part0/recipe0.py')", b"it is not a regular file any more"),
        ("os.rename('part0', 'gone'); os.symlink('gone', 'part0')", b"a symbolic link on the way to it changed"),
    ],
)
def test_what_happens_between_reading_and_writing(tmp_path: Path, deed: str, message: bytes) -> None:
    files = tree(tmp_path, 21)
    done = subprocess.run(
        [sys.executable, "-c", MEANWHILE, deed, "--write", "part0/recipe0.py", "part1"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert b"part0/recipe0.py: error: not written: " + message in done.stderr
    assert files[20].read_bytes() == NEW
    assert not [name for name in others(tmp_path, files) if "fsdp" in name]


def test_a_file_from_the_future(tmp_path: Path) -> None:
    files = tree(tmp_path, 2)
    os.utime(files[0], (2**33, 2**33))
    os.utime(files[1], (0, 0))
    assert run("--write", ".", cwd=tmp_path).returncode == 0
    assert demand_whole(files) == 2


def test_a_file_that_is_replaced_by_a_pipe_before_it_is_analysed(tmp_path: Path) -> None:
    files = tree(tmp_path, 1)
    program = (
        "import os, sys\nfrom fsdp_migrate import run\nfrom fsdp_migrate.cli import main\nmigrate = run.migrate\n"
        "def late(path, *a, **k):\n    os.unlink(path)\n    os.mkfifo(path)\n    return migrate(path, *a, **k)\n"
        "run.migrate = late\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "."], cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert b"is not a regular file: exclude it" in done.stderr
    assert not files[0].is_file()


def test_two_runs_at_once(tmp_path: Path) -> None:
    files = tree(tmp_path, 60)
    with start("--write", ".", cwd=tmp_path) as one, start("--write", ".", cwd=tmp_path) as other:
        ends = [one.communicate(timeout=60)[1], other.communicate(timeout=60)[1]]
    assert {one.returncode, other.returncode} <= {0, 2}, ends
    assert demand_whole(files) == 60
    assert others(tmp_path, files) == []
