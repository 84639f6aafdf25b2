"""Writing one file: what is kept, what is refused, and that every moment leaves the old or the new file."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fsdp_migrate import write as writing
from fsdp_migrate.write import BACKUP, RefusedError, write

OLD, NEW = b"old\r\n", b"newer\r\nand longer\r\n"
NOBODY = 65534


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.py"
    path.write_bytes(OLD)
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_replaces_the_content_and_leaves_nothing_beside_it(file: Path) -> None:
    write(str(file), OLD, NEW)
    assert file.read_bytes() == NEW
    assert names(file.parent) == ["recipe.py"]


def test_equal_content_is_not_written(file: Path) -> None:
    before = file.stat()
    write(str(file), OLD, OLD)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4755])
def test_keeps_the_mode(file: Path, mode: int) -> None:
    file.chmod(mode)
    write(str(file), OLD, NEW)
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_keeps_the_owner(file: Path) -> None:
    os.chown(file, NOBODY, NOBODY)
    write(str(file), OLD, NEW)
    assert (file.stat().st_uid, file.stat().st_gid) == (NOBODY, NOBODY)


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_keeps_extended_attributes(file: Path) -> None:
    try:
        os.setxattr(file, "user.note", b"mine")
    except OSError:
        pytest.skip("the file system has no extended attributes")
    write(str(file), OLD, NEW)
    assert os.getxattr(file, "user.note") == b"mine"


def test_a_symbolic_link_stays_one(file: Path) -> None:
    (file.parent / "links").mkdir()
    link = file.parent / "links" / "link.py"
    link.symlink_to("../recipe.py")
    write(str(link), OLD, NEW)
    assert link.is_symlink()
    assert file.read_bytes() == NEW
    assert names(link.parent) == ["link.py"]


@pytest.mark.parametrize("other", [b"else\n", b"old\n", b""])
def test_a_file_that_changed_since_it_was_read_is_refused(file: Path, other: bytes) -> None:
    file.write_bytes(other)
    with pytest.raises(RefusedError, match="changed since it was read: run again"):
        write(str(file), OLD, NEW)
    assert file.read_bytes() == other


def test_a_change_while_writing_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(descriptor: int, data: bytes) -> None:
        file.write_bytes(b"mine!")
        os.write(descriptor, data)

    monkeypatch.setattr(writing, "_fill", meanwhile)
    with pytest.raises(RefusedError, match="changed since"):
        write(str(file), OLD, NEW)
    assert file.read_bytes() == b"mine!"
    assert names(file.parent) == ["recipe.py"]


def test_hard_links_are_refused(file: Path) -> None:
    other = file.with_name("other.py")
    os.link(file, other)
    with pytest.raises(RefusedError, match=r"2 hard links.*--allow-hardlinks"):
        write(str(file), OLD, NEW)
    assert file.read_bytes() == OLD


def test_hard_links_are_written_in_place_on_request(file: Path) -> None:
    other = file.with_name("other.py")
    os.link(file, other)
    write(str(file), OLD, NEW, allow_hardlinks=True)
    assert other.read_bytes() == NEW
    assert names(file.parent) == ["other.py", "recipe.py"]
    write(str(file), NEW, OLD, allow_hardlinks=True)  # a shorter content leaves no rest of the longer one
    assert other.read_bytes() == OLD


def test_a_failure_in_place_restores_the_old_content(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.link(file, file.with_name("other.py"))
    sync, synced = os.fsync, iter([None, None, OSError(28, "No space left on device")])

    def fails_later(descriptor: int) -> None:
        if isinstance(error := next(synced, None), OSError):
            raise error
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fails_later)
    with pytest.raises(RefusedError, match="No space left"):
        write(str(file), OLD, NEW, allow_hardlinks=True)
    assert file.read_bytes() == OLD
    assert names(file.parent) == ["other.py", "recipe.py"]


def test_the_backup_of_an_interrupted_run_is_never_overwritten(file: Path) -> None:
    os.link(file, file.with_name("other.py"))
    backup = file.with_name(file.name + BACKUP)
    backup.write_bytes(b"the only good copy")
    with pytest.raises(RefusedError, match="an interrupted run left"):
        write(str(file), OLD, NEW, allow_hardlinks=True)
    assert (file.read_bytes(), backup.read_bytes()) == (OLD, b"the only good copy")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    file: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fails)
    with pytest.raises(RefusedError, match="No space left"):
        write(str(file), OLD, NEW)
    assert file.read_bytes() == OLD
    assert names(file.parent) == ["recipe.py"]


def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Write without root's rights, which would ignore every permission."""
    # The import comes first: the checkout may be closed to others.
    program = (
        "import os, sys; from fsdp_migrate.write import RefusedError, write\n"
        "if os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: write(sys.argv[1], b'old\\r\\n', b'new')\n"
        "except RefusedError as error: print(error)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def open_file(file: Path) -> Path:
    """A file that nobody may reach and, unless a test says otherwise, replace."""
    folder = file.parent
    while folder != folder.parent and folder.stat().st_uid == os.geteuid():
        folder.chmod(folder.stat().st_mode | 0o711)
        folder = folder.parent
    file.chmod(0o666)
    file.parent.chmod(0o777)
    return file


def test_a_file_in_a_read_only_folder_is_refused(open_file: Path) -> None:
    open_file.parent.chmod(0o555)
    assert "it or its folder cannot be written to" in as_nobody(str(open_file)).stdout
    assert open_file.read_bytes() == OLD


def test_a_read_only_file_is_refused_though_its_folder_is_not(open_file: Path) -> None:
    open_file.chmod(0o444)
    assert "it is read-only: make it writable" in as_nobody(str(open_file)).stdout
    assert open_file.read_bytes() == OLD


def test_a_file_of_somebody_else_is_replaced_where_that_is_allowed(open_file: Path) -> None:
    assert as_nobody(str(open_file)).stdout == ""
    assert open_file.read_bytes() == b"new"
    assert stat.S_IMODE(open_file.stat().st_mode) == 0o666


WRITER = """
import signal, sys
from fsdp_migrate.write import write
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with it ignored
path, a, b = sys.argv[1], b"a" * 300_000, b"b" * 200_000
print("ready", flush=True)
while True:
    write(path, a, b, allow_hardlinks=True)
    write(path, b, a, allow_hardlinks=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whenever_it_is_ended_the_file_is_the_old_or_the_new_one(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "recipe.py"
    moments = random.Random(number)
    for _ in range(8):
        path.write_bytes(b"a" * 300_000)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            try:
                child.wait(moments.uniform(0, 0.05))
            except subprocess.TimeoutExpired:
                child.send_signal(number)
            assert child.wait() != 0
        assert path.read_bytes() in (b"a" * 300_000, b"b" * 200_000)
        if number is not signal.SIGKILL:
            assert names(tmp_path) == ["recipe.py"]


def test_ctrl_c_in_the_middle_comes_after_the_file_is_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill = writing._fill

    def interrupted(descriptor: int, data: bytes) -> None:
        fill(descriptor, data[:1])
        signal.raise_signal(signal.SIGINT)
        fill(descriptor, data[1:])

    monkeypatch.setattr(writing, "_fill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(str(file), OLD, NEW)
    assert file.read_bytes() == NEW
    assert names(file.parent) == ["recipe.py"]
