"""Writes one file so that at every moment, whatever happens, it is either the old one or the new one.

Functions of `os` rather than `Path`: one descriptor is followed from the first check to the replacement, and another
holds the folder, so that nobody can exchange what lies on the way to the file.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import signal
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from fsdp_migrate.discover import BACKUP

TEMPORARY = ".fsdp-migrate-"


class RefusedError(Exception):
    """The file was left as it was; the text says why and what to do."""


def write(path: str, old: bytes, new: bytes, *, place: str = "", allow_hardlinks: bool = False) -> None:
    """Replace the content `old` of a file by `new`, keeping mode, owner, extended attributes and symbolic links.

    `place` is the real path at which the file was found: if `path` leads elsewhere now, it is refused.

    Raises:
        RefusedError: the file is not what was read, has several hard links, or cannot be replaced. It is unchanged.
    """
    if old == new:
        return
    target = os.path.realpath(path)
    if place and target != place:
        raise RefusedError("a symbolic link on the way to it changed since it was found: run again")
    try:
        with _uninterrupted(), _opened(target) as file:
            descriptor = file.open(os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            try:
                status = os.fstat(descriptor)
                _check(file, descriptor, status, old)
                if status.st_nlink == 1:
                    _replace(file, descriptor, status, new)
                elif allow_hardlinks:
                    _overwrite(file, old, new)
                else:
                    raise RefusedError(
                        f"it has {status.st_nlink} hard links, and replacing it would leave the others behind: "
                        "pass --allow-hardlinks to write it in place"
                    )
            finally:
                os.close(descriptor)
    except OSError as error:
        raise RefusedError(_explained(error)) from error


_ADVICE = {
    errno.ENOENT: "it is not there any more: run again",
    errno.EROFS: "its file system is read-only: make it writable (mount -o remount,rw) and run again",
}


def _explained(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "it or its folder cannot be written to: change the permissions and run again"
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a symbolic link on the way to it changed since it was found: run again"
    said = f"it cannot be written ({error.strerror or error}): repair that and run again"
    return _ADVICE.get(error.errno or 0, said)


class _File(NamedTuple):
    """A file by its name in an open folder; where the system has no such thing, by its whole path."""

    folder: int | None
    name: str

    def open(self, flags: int, mode: int = 0o600) -> int:
        return os.open(self.name, flags | _FLAGS, mode, dir_fd=self.folder)

    def beside(self, name: str) -> _File:
        return _File(self.folder, name if self.folder is not None else os.path.join(os.path.dirname(self.name), name))

    def create(self) -> int:
        return self.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def unlink(self) -> None:
        os.unlink(self.name, dir_fd=self.folder)

    def sync_folder(self) -> None:
        # The file is replaced already; a file system that cannot sync a folder has nothing to sync.
        with suppress(OSError):
            descriptor = os.open(
                "." if self.folder is not None else os.path.dirname(self.name), os.O_RDONLY, dir_fd=self.folder
            )
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def _opened(path: str) -> Iterator[_File]:
    """The file of a real path, with its folder held open."""
    if os.open not in os.supports_dir_fd:
        yield _File(None, path)
        return
    folder = _open_folder(os.path.dirname(path))
    try:
        yield _File(folder, os.path.basename(path))
    finally:
        os.close(folder)


def _open_folder(path: str) -> int:
    """A descriptor of the folder of a real path. Every part is opened in the one before, so that none can be a link."""
    # A folder that may be searched but not listed will do.
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open("/", flags)
    try:
        for part in filter(None, path.split("/")):
            inner = os.open(part, flags, dir_fd=folder)
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder


def remove_leftovers(folders: Iterable[str]) -> None:
    """Remove what runs that were killed left in these folders (real paths). A run that still lives holds a lock."""
    for path in folders:
        with suppress(OSError), _opened(os.path.join(path, "")) as folder:
            for name in os.listdir(path):
                if _LEFTOVER.fullmatch(name):
                    with suppress(OSError):
                        _remove_unlocked(folder.beside(name))


_LEFTOVER = re.compile(re.escape(TEMPORARY) + "[0-9a-f]{16}")


def _remove_unlocked(file: _File) -> None:
    descriptor = file.open(os.O_RDWR | getattr(os, "O_NONBLOCK", 0))
    try:
        if _lock(descriptor):
            file.unlink()
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Whether nobody else holds the file. The lock goes with the process, however that ends."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back what would end the process until the file is whole again (a few milliseconds).

    The signals are blocked, not handled: a handler that is put back while a signal arrives would swallow it. Where the
    system cannot block them (Windows), the replacement is atomic all the same.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def _check(file: _File, descriptor: int, status: os.stat_result, old: bytes) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError("it is not a regular file any more: run again")
    # A rename needs no permission on the file itself; whoever made it read-only meant it.
    if not os.access(file.name, os.W_OK, dir_fd=file.folder):
        raise RefusedError("it is read-only: make it writable (chmod u+w) and run again")
    if status.st_size != len(old) or _content(descriptor) != old:
        raise RefusedError("it changed since it was read: run again")


def _content(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _replace(file: _File, descriptor: int, status: os.stat_result, new: bytes) -> None:
    temporary = file.beside(TEMPORARY + secrets.token_hex(8))
    try:
        copy = temporary.create()
        try:
            _lock(copy)
            _fill(copy, new)
            _keep_attributes(descriptor, copy, status)
            os.fsync(copy)
        finally:
            os.close(copy)
        _demand_same(file, status)
        os.replace(temporary.name, file.name, src_dir_fd=file.folder, dst_dir_fd=file.folder)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    file.sync_folder()


def _demand_same(file: _File, status: os.stat_result) -> None:
    now = os.stat(file.name, dir_fd=file.folder, follow_symlinks=False)
    if (now.st_ino, now.st_dev, now.st_mtime_ns, now.st_size) != (
        status.st_ino,
        status.st_dev,
        status.st_mtime_ns,
        status.st_size,
    ):
        raise RefusedError("it changed since it was read: run again")


def _fill(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _keep_attributes(source: int, copy: int, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if hasattr(os, "fchown"):
        made = os.fstat(copy)
        if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
            try:
                os.fchown(copy, status.st_uid, status.st_gid)
            except PermissionError:
                with suppress(PermissionError):
                    os.fchown(copy, -1, status.st_gid)
                # These bits would lend the rights of another owner than before.
                mode &= ~(stat.S_ISUID | stat.S_ISGID)
        os.fchmod(copy, mode)
    if hasattr(os, "listxattr"):
        # Access control lists are among them. A file system without any says so.
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(copy, name, os.getxattr(source, name))


def _overwrite(file: _File, old: bytes, new: bytes) -> None:
    """Write in place, with a synced copy of the old content beside the file until the new one is on the disk."""
    backup = file.beside(os.path.basename(file.name) + BACKUP)
    try:
        copy = backup.create()
    except FileExistsError:
        raise RefusedError(
            f"an interrupted run left {backup.name} beside it: keep the right content in the file, delete the copy, "
            "and run again"
        ) from None
    try:
        _fill(copy, old)
        os.fsync(copy)
        original = file.open(os.O_RDWR)
    except BaseException:
        backup.unlink()
        raise
    finally:
        os.close(copy)
    file.sync_folder()
    try:
        try:
            _fill_in_place(original, new)
        except OSError as error:
            try:
                _fill_in_place(original, old)
            except OSError:
                raise RefusedError(
                    f"it is damaged ({error.strerror}); its old content is in {backup.name} beside it: put it back"
                ) from error
            backup.unlink()
            raise
    finally:
        os.close(original)
    backup.unlink()
    file.sync_folder()


def _fill_in_place(descriptor: int, data: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    _fill(descriptor, data)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)
