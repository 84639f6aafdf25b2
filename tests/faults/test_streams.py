"""Standard streams that are closed, full or left, and a process without the usual surroundings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.conftest import PROGRAM, demand_whole, run, tree

FULL = Path("/dev/full")


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PROGRAM": PROGRAM}
    return subprocess.run(["sh", "-c", line], cwd=cwd, env=environment, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("options", ["", "--diff", "--check", "--write"])
def test_closed_standard_output(tmp_path: Path, options: str) -> None:
    files = tree(tmp_path, 2)
    done = shell(f'"$PROGRAM" {options} . >&-', tmp_path)
    assert done.returncode == 2
    assert b"standard output is closed, so nothing was done: redirect it to a file or to /dev/null" in done.stderr
    assert demand_whole(files) == 0


def test_closed_streams_are_no_files(tmp_path: Path) -> None:
    """What is printed must not end up in the file that got the number of a closed stream."""
    files = tree(tmp_path, 2)
    assert shell('"$PROGRAM" --write . 2>&- <&-', tmp_path).returncode == 0
    assert demand_whole(files) == 2
    assert shell('"$PROGRAM" --write . >&- 2>&- <&-', tmp_path).returncode == 2


def test_closed_standard_input(tmp_path: Path) -> None:
    done = shell('"$PROGRAM" - <&-', tmp_path)
    assert done.returncode == 2
    assert b"standard input is closed: give '-' something to read" in done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="there is no full device")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["tree", "--diff tree", "--statistics tree", "explain FSDP001", "rules"])
def test_full_standard_output(tmp_path: Path, words: str, unbuffered: str) -> None:
    files = tree(tmp_path / "tree", 2)
    with FULL.open("wb") as full:
        done = run(*words.split(), cwd=tmp_path, stdout=full, env=os.environ | {"PYTHONUNBUFFERED": unbuffered})
    assert done.returncode == 2
    assert done.stderr.endswith(b"standard output cannot be written (is its disk full?): repair that and run again\n")
    assert b"Traceback" not in done.stderr
    assert demand_whole(files) == 0


@pytest.mark.skipif(not FULL.exists(), reason="there is no full device")
def test_full_standard_error_changes_nothing(tmp_path: Path) -> None:
    files = tree(tmp_path, 2)
    (tmp_path / "broken.py").symlink_to("nowhere")
    with FULL.open("wb") as full:
        assert run("--write", ".", cwd=tmp_path, stderr=full).returncode == 2
        assert demand_whole(files) == 2
        (tmp_path / "broken.py").unlink()
        assert run(".", cwd=tmp_path, stderr=full).returncode == 0


def test_whoever_reads_has_seen_enough(tmp_path: Path) -> None:
    files = tree(tmp_path, 100)
    reading, writing = os.pipe()
    os.close(reading)
    done = run("--write", ".", cwd=tmp_path, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (
        141,
        b"warning: no git repository holds part0/recipe0.py and 99 more: keep a copy if you may want to undo this\n",
    )
    assert demand_whole(files) == 100  # complete, though nobody wanted to know


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    done = shell('mkdir gone; cd gone; rmdir ../gone; "$PROGRAM" .', tmp_path)
    assert done.returncode == 2
    assert done.stderr == b"Error: the working directory does not exist any more: cd into one that does\n"


def test_no_environment(tmp_path: Path) -> None:
    files = tree(tmp_path, 2)
    assert run("--write", ".", cwd=tmp_path, env={}).returncode == 0
    assert demand_whole(files) == 2


def test_no_place_for_temporary_files(tmp_path: Path) -> None:
    files = tree(tmp_path, 2)
    assert run("--write", ".", cwd=tmp_path, env=os.environ | {"TMPDIR": "/nowhere"}).returncode == 0
    assert demand_whole(files) == 2


# No process can be started, from the first file on.
ALONE = """
import sys
from fsdp_migrate import run
def fails(*_, **__):
    raise OSError(11, "Resource temporarily unavailable")
run.run.__kwdefaults__.update(pool_pays=0, sample=0)
if sys.argv.pop(1) == "pool":
    run._Pool.__init__ = fails
else:
    run._Pool.submit = fails
from fsdp_migrate.cli import main
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("what", ["pool", "worker"])
def test_no_further_process(tmp_path: Path, what: str) -> None:
    files = tree(tmp_path / "tree", 20)
    program = tmp_path / "alone"
    program.write_text(ALONE)
    done = subprocess.run(
        [sys.executable, program, what, "--write", "-j2", "tree"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, demand_whole(files)) == (0, 20), done.stderr
