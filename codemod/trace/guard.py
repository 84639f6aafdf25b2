"""What the child process may not do: limits, and refusals through an audit hook.

Both protect against recipes that do more than build a config. They are not a sandbox against code that sets out to
break out of one (`ctypes` can undo anything in the same process).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

MEMORY_BYTES: Final = 1 << 30
FILE_BYTES: Final = 16 << 20

_WHY: Final = "recipes are traced without side effects"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_PROCESSES: Final = frozenset(
    {
        "_posixsubprocess.fork_exec",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.startfile/2",
        "os.system",
        "pty.spawn",
        "subprocess.Popen",
    }
)
_NETWORK: Final = frozenset(
    {
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyaddr",
        "socket.gethostbyname",
        "socket.getnameinfo",
        "socket.sendmsg",
        "socket.sendto",
    }
)
_SIGNALS: Final = frozenset({"os.kill", "os.killpg", "signal.pthread_kill"})

# Events that change a path: the positions of the path and of the open folder it is relative to, if the event has one.
_CHANGED_PATHS: Final[dict[str, tuple[tuple[int, int | None], ...]]] = {
    "os.chflags": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.lchmod": ((0, None),),
    "os.link": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.removexattr": ((0, None),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.setxattr": ((0, None),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.utime": ((0, 3),),
    "sqlite3.connect": ((0, None),),
}
_LINKS_THEMSELVES: Final = frozenset({"os.remove", "os.rename", "os.rmdir", "os.symlink"})
"""Here a link itself changes, elsewhere what it points to."""


class RefusedError(PermissionError):
    """A recipe tried what only building a config never needs."""


def limit(*, cpu_seconds: int, memory: bool) -> None:
    """Set hard resource limits where the platform has them. `memory` off for frameworks that reserve address space."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = {"RLIMIT_CORE": 0, "RLIMIT_CPU": cpu_seconds, "RLIMIT_FSIZE": FILE_BYTES}
    if memory:
        limits["RLIMIT_AS"] = MEMORY_BYTES
    for name, value in limits.items():
        with contextlib.suppress(ValueError, OSError, AttributeError):
            number = getattr(resource, name)
            _, hard = resource.getrlimit(number)
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)
            resource.setrlimit(number, (value, value))


def end_with_parent() -> None:
    """Let the kernel end this process when the one that started it is gone, however it went."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(Exception):
        import ctypes

        set_parent_death_signal = 1  # PR_SET_PDEATHSIG, linux/prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL))


def guard(folder: str) -> None:
    """Refuse, until the process ends, processes, network, signals and every write outside `folder`."""
    sys.addaudithook(_hook(os.path.realpath(folder)))


def _hook(folder: str) -> Callable[[str, tuple[Any, ...]], None]:
    # Bound here, so that a recipe that patches `os.path` does not change what the hook sees.
    realpath, join, dirname, basename, fsdecode, readlink = (
        os.path.realpath,
        os.path.join,
        os.path.dirname,
        os.path.basename,
        os.fsdecode,
        os.readlink,
    )
    prefix = folder + os.sep
    unix = getattr(socket, "AF_UNIX", None)

    def inside(path: Any, *, link: bool = False, folder_descriptor: Any = None) -> bool:
        if isinstance(path, int):
            try:
                path = readlink(f"/proc/self/fd/{path}")
            except OSError:
                return False
        path = fsdecode(path)
        if path in (os.devnull, ":memory:"):
            return True
        if isinstance(folder_descriptor, int) and folder_descriptor >= 0:
            try:
                path = join(readlink(f"/proc/self/fd/{folder_descriptor}"), path)
            except OSError:
                return False
        if link and basename(path) not in ("", ".", ".."):
            real = join(realpath(dirname(path)), basename(path))
        else:
            real = realpath(path)
        return bool(real == folder or real.startswith(prefix))

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            # A mode comes from open(), flags alone from os.open(). A file descriptor was opened, and checked, before.
            writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(flags & _WRITING)
            if writes and not isinstance(path, int) and not inside(path):
                raise RefusedError(f"writing {fsdecode(path)} is refused: {_WHY}")
        elif event in _NETWORK or (event == "socket.__new__" and arguments[1] != unix):
            raise RefusedError("network access is refused: recipes are traced offline")
        elif event in _PROCESSES:
            raise RefusedError("starting a process is refused: recipes are traced in one process")
        elif event == "sys.addaudithook":
            raise RefusedError("watching the interpreter is refused")
        elif event in _SIGNALS:
            raise RefusedError("sending a signal is refused")
        elif event in _CHANGED_PATHS:
            for position, descriptor in _CHANGED_PATHS[event]:
                relative_to = arguments[descriptor] if descriptor is not None and descriptor < len(arguments) else None
                path = arguments[position]
                if not inside(path, link=event in _LINKS_THEMSELVES, folder_descriptor=relative_to):
                    raise RefusedError(
                        f"changing {path if isinstance(path, int) else fsdecode(path)} is refused: {_WHY}"
                    )

    return check
