"""Standard output and error, whatever state they are in: closed, full, or read by somebody who has left."""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO

import click


def prepare() -> None:
    """Give closed streams something to be.

    The system gives the number of a closed stream to the next file that is opened, and what is meant for the stream
    would end up in that file.

    Raises:
        click.ClickException: nobody could ever see the result.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        raise click.ClickException(
            f"standard output is closed, so nothing was done: redirect it to a file or to {os.devnull}"
        )


def say(text: str, *, end: str = "\n") -> None:
    """Write to standard error. Whoever closed it, left it or let its disk fill up does not want to know."""
    try:
        click.echo(text + end, err=True, nl=False, color=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Let a stream that cannot be written to swallow everything from now on, also what is flushed at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError:
        return


def output_fails(error: BaseException | None = None) -> bool:
    """Whether standard output could not take what was written to it, then or now. Then it is discarded."""
    # Without a buffer (PYTHONUNBUFFERED) only the error tells. Files have names.
    failed = isinstance(error, OSError) and error.filename is None and error.errno in _FULL
    try:
        if not sys.stdout.closed:  # The language server's library closes it when it ends.
            sys.stdout.flush()
    except OSError:
        failed = True
    if failed:
        discard(sys.stdout)
    return failed


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
