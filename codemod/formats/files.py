"""Reports in files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence

from click import ClickException

from fsdp_migrate.render import Totals
from fsdp_migrate.run import Outcome


def save(path: str, pieces: Iterable[str]) -> None:
    """Write a file whole or not at all; a device or a pipe is written to.

    Characters that UTF-8 does not have are spelled out.

    Raises:
        ClickException: it cannot be written; says why.
    """
    try:
        if _is_stream(path):
            # To replace it would take /dev/null or /dev/stdout from everybody, if the user is root.
            with open(path, "a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                file.writelines(pieces)
            return
        path = os.path.realpath(path)  # a symbolic link stays one
        descriptor, temporary = tempfile.mkstemp(prefix=".fsdp-migrate-", dir=os.path.dirname(path))
        try:
            with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                file.writelines(pieces)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise ClickException(f"{path} cannot be written: {error.strerror or error}; name another file") from error


def _is_stream(path: str) -> bool:
    # /dev/stdout may lead to an ordinary file, which whoever opened it goes on to write to.
    is_named = os.path.abspath(path).startswith(("/dev/", "/proc/"))
    return os.path.exists(path) and (is_named or not os.path.isfile(path))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def report(path: str) -> Callable[[Sequence[Outcome], Totals], Iterator[str]]:
    """The function that writes the readable report that the file's name asks for."""
    if path.endswith(".html"):
        from fsdp_migrate.formats.html import render
    else:
        from fsdp_migrate.formats.markdown import render
    return render
