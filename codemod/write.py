"""Writes one file so that at every moment, whatever happens, it is either the old one or the new one.

Functions of `os` rather than `Path`: one descriptor is followed from the first check to the replacement.
"""

from __future__ import annotations

import os
import secrets
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TEMPORARY = ".fsdp-migrate-"
BACKUP = ".fsdp-migrate-backup"


class RefusedError(Exception):
    """The file was left as it was; the text says why and what to do."""


def write(path: str, old: bytes, new: bytes, *, allow_hardlinks: bool = False) -> None:
    """Replace the content `old` of a file by `new`, keeping mode, owner, extended attributes and symbolic links.

    Raises:
        RefusedError: the file is not what was read, has several hard links, or cannot be replaced. It is unchanged.
    """
    if old == new:
        return
    target = os.path.realpath(path)
    try:
        with _uninterrupted():
            descriptor = os.open(target, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
            try:
                status = os.fstat(descriptor)
                _check(target, descriptor, status, old)
                if status.st_nlink == 1:
                    _replace(target, descriptor, status, new)
                elif allow_hardlinks:
                    _overwrite(target, old, new)
                else:
                    raise RefusedError(
                        f"it has {status.st_nlink} hard links, and replacing it would leave the others behind: "
                        "pass --allow-hardlinks to write it in place"
                    )
            finally:
                os.close(descriptor)
    except PermissionError as error:
        raise RefusedError("it or its folder cannot be written to: change the permissions") from error
    except OSError as error:
        raise RefusedError(f"it cannot be written ({error.strerror or error})") from error


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


def _check(target: str, descriptor: int, status: os.stat_result, old: bytes) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError("it is not a regular file any more: run again")
    # A rename needs no permission on the file itself; whoever made it read-only meant it.
    if not os.access(target, os.W_OK):
        raise RefusedError("it is read-only: make it writable (chmod u+w) and run again")
    if status.st_size != len(old) or _content(descriptor) != old:
        raise RefusedError("it changed since it was read: run again")


def _content(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _replace(target: str, descriptor: int, status: os.stat_result, new: bytes) -> None:
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, TEMPORARY + secrets.token_hex(8))
    try:
        copy = _create(temporary)
        try:
            _fill(copy, new)
            _keep_attributes(descriptor, copy, status)
            os.fsync(copy)
        finally:
            os.close(copy)
        now = os.stat(target)
        if (now.st_ino, now.st_dev, now.st_mtime_ns, now.st_size) != (
            status.st_ino,
            status.st_dev,
            status.st_mtime_ns,
            status.st_size,
        ):
            raise RefusedError("it changed since it was read: run again")
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _create(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)


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


def _sync_folder(folder: str) -> None:
    # The file is replaced already; a file system that cannot sync a folder has nothing to sync.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _overwrite(target: str, old: bytes, new: bytes) -> None:
    """Write in place, with a synced copy of the old content beside the file until the new one is on the disk."""
    backup = target + BACKUP
    try:
        copy = _create(backup)
    except FileExistsError:
        raise RefusedError(
            f"an interrupted run left {backup}: keep the right content in the file, delete the copy, and run again"
        ) from None
    try:
        _fill(copy, old)
        os.fsync(copy)
    finally:
        os.close(copy)
    _sync_folder(os.path.dirname(target))
    original = os.open(target, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        try:
            _fill_in_place(original, new)
        except OSError as error:
            try:
                _fill_in_place(original, old)
            except OSError:
                raise RefusedError(f"it is damaged ({error.strerror}); its old content is in {backup}") from error
            os.unlink(backup)
            raise
    finally:
        os.close(original)
    os.unlink(backup)
    _sync_folder(os.path.dirname(target))


def _fill_in_place(descriptor: int, data: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    _fill(descriptor, data)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)
