"""``python -m fsdp_migrate.traincheck.tether PARENT MODULE ARGUMENTS...``: run a module that dies with its parent.

The launcher puts every worker into a session of its own, so killing a process group does not reach them. Each process
of a check asks Linux for a signal at its parent's death instead (``prctl(PR_SET_PDEATHSIG)``).
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent: int | None = None) -> None:
    """Be killed when the parent ends. `parent` is its process id, in case it has ended already."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Tether this process, then become ``python -m MODULE ARGUMENTS...``."""
    die_with_parent(int(sys.argv[1]))
    module = sys.argv[2]
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
