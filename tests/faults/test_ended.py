"""The command is ended at any moment: every file is the old or the new one, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.conftest import MANY, chance, demand_whole, others, run, start, tree


def duration(folder: Path) -> float:
    """Seconds that a whole run takes here."""
    tree(folder, MANY)
    began = time.monotonic()
    run("--write", ".", cwd=folder)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> float:
    return duration(tmp_path_factory.mktemp("usual"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_at_any_moment(tmp_path: Path, number: signal.Signals, usual: float) -> None:
    moments = chance(number)
    for attempt in range(6 if MANY > 100 else 3):
        folder = tmp_path / str(attempt)
        files = tree(folder, MANY)
        # A background job of a shell starts with Ctrl-C ignored, which pytest may be.
        restore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
        with start("--write", ".", cwd=folder, **restore) as child:
            try:
                child.wait(moments.uniform(0.3, 1) * usual)
            except subprocess.TimeoutExpired:
                child.send_signal(number)
            _, said = child.communicate(timeout=60)
        assert child.returncode in (0, -number, 128 + number), said
        if number is signal.SIGINT and b"fsdp_migrate" in said:
            assert b"Traceback" not in said
        demand_whole(files)
        if number is not signal.SIGKILL:
            assert others(folder, files) == []
        again = run("--write", ".", cwd=folder)
        assert (again.returncode, demand_whole(files), others(folder, files)) == (0, MANY, [])


# Stops in the middle of the n-th file.
STOPPING = """
import os, signal, sys
from fsdp_migrate import write
from fsdp_migrate.cli import main
fill, left = write._fill, [int(sys.argv.pop(1))]
def filled(descriptor, data):
    left[0] -= 1
    if left[0]:
        return fill(descriptor, data)
    fill(descriptor, data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
write._fill = filled
main()
"""


def test_what_a_killed_run_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    files = tree(tmp_path, 30)
    subprocess.run([sys.executable, "-c", STOPPING, "25", "--write", "."], cwd=tmp_path, check=False)
    assert demand_whole(files) == 24
    left = others(tmp_path, files)
    assert [Path(name).name.startswith(".fsdp-migrate-") for name in left] == [True]
    assert run("--check", ".", cwd=tmp_path).returncode == 1
    assert others(tmp_path, files) == left  # looking changes nothing
    assert run("--write", ".", cwd=tmp_path).returncode == 0
    assert (demand_whole(files), others(tmp_path, files)) == (30, [])


def test_what_a_run_that_still_lives_writes_stays(tmp_path: Path) -> None:
    import fcntl

    files = tree(tmp_path, 1)
    theirs = files[0].with_name(".fsdp-migrate-0123456789abcdef")
    mine = files[0].with_name(".fsdp-migrate-notes")
    mine.write_bytes(b"")
    with theirs.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert run("--write", ".", cwd=tmp_path).returncode == 0
    assert theirs.exists()
    assert mine.exists()


def test_a_run_killed_while_it_writes_in_place_is_not_forgotten(tmp_path: Path) -> None:
    files = tree(tmp_path, 1)
    os.link(files[0], tmp_path / "other.py")
    # The first piece is the copy, the second the file itself.
    arguments = ["2", "--write", "--allow-hardlinks", "part0"]
    subprocess.run([sys.executable, "-c", STOPPING, *arguments], cwd=tmp_path, check=False)
    done = run("part0", cwd=tmp_path)
    assert done.returncode == 2
    assert b"recipe0.py.fsdp-migrate-backup: error: holds what a file was before a run" in done.stderr


# Workers start on the first file.
POOLED = """
import sys
from fsdp_migrate import run
run.run.__kwdefaults__.update(pool_pays=0, sample=0)
from fsdp_migrate.cli import main
if __name__ == "__main__":
    main()
"""


def descendants(pid: int) -> set[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}
    found: set[int] = set()
    for child in parents:
        above = child
        while above in parents and above != pid:
            above = parents[above]
        if above == pid and child != pid:
            found.add(child)
    return found


def pooled(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    program = folder.parent / "pooled"
    program.write_text(POOLED)
    return subprocess.Popen(
        [sys.executable, program, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def working(child: subprocess.Popen[bytes]) -> set[int]:
    """The workers, once there are some."""
    while child.poll() is None:
        found = descendants(child.pid)
        names = {pid: Path(f"/proc/{pid}/cmdline") for pid in found}
        workers = {pid for pid, name in names.items() if name.exists() and b"spawn_main" in name.read_bytes()}
        if len(workers) == 2:
            return workers
        time.sleep(0.01)
    return set()


needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc to find the workers in")


@needs_proc
def test_a_killed_worker_costs_at_most_the_file_that_it_had(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    files = tree(folder, MANY)
    with pooled(folder, "--write", "-j2", ".") as child:
        for worker in working(child):
            os.kill(worker, signal.SIGKILL)
            break
        _, said = child.communicate(timeout=120)
    failed = said.count(b"the process that migrated it died")
    assert demand_whole(files) == MANY - failed
    assert failed <= 1
    assert child.returncode == (2 if failed else 0), said
    assert others(folder, files) == []


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_no_worker_outlives_the_command(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "tree"
    tree(folder, MANY)
    with pooled(folder, "--diff", "-j2", ".") as child:
        everyone = working(child) | descendants(child.pid)
        assert everyone
        child.send_signal(number)
        child.communicate(timeout=60)  # whoever lives on would keep the pipe open
    for _ in range(500):
        if not any(Path(f"/proc/{pid}").exists() for pid in everyone):
            return
        time.sleep(0.02)
    pytest.fail("a worker outlived the command")
