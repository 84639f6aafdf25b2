"""The same recipe gives the same config twice: time, randomness and names of the machine are fixed in the child.

A run name such as ``f"llama_{datetime.now():%H%M%S}"`` would otherwise differ between the trace before a migration and
the one after it.
"""

from __future__ import annotations

import datetime
import getpass
import os
import random
import socket
import time
import uuid
from typing import Any, Final

EPOCH: Final = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""

_state = {"now": EPOCH, "names": 0}


def fix() -> None:
    """Replace the sources of chance. Called once, before project code is imported."""
    setters: dict[Any, dict[str, Any]] = {
        time: {
            "time": _now,
            "time_ns": lambda: int(_now() * 1e9),
            "sleep": _sleep,
            "localtime": _default_now(time.localtime),
            "gmtime": _default_now(time.gmtime),
            "ctime": _default_now(time.ctime),
            "strftime": _strftime,
        },
        uuid: {"uuid1": _uuid, "uuid4": _uuid},
        os: {"getpid": lambda: 1, "urandom": lambda size: random.randbytes(size)},
        socket: {"gethostname": lambda: "localhost", "getfqdn": lambda name="": name or "localhost"},
        getpass: {"getuser": lambda: "user"},
        datetime: {"datetime": _DateTime, "date": _Date},
    }
    for module, replacements in setters.items():
        for name, value in replacements.items():
            setattr(module, name, value)
    vars(random)["seed"] = _seed
    reset()


def reset() -> None:
    """Start over, before each recipe."""
    _state.update(now=EPOCH, names=0)
    _real_seed(0)


_real_seed = random.seed


def _seed(a: Any = None, version: int = 2) -> None:
    """Any seed is as good as another, also one that is not known."""
    _real_seed(a if isinstance(a, (int, float, str, bytes)) else 0, version)


def _now() -> float:
    """Advances a little each time: a loop that waits for a deadline ends."""
    _state["now"] += 0.001
    return _state["now"]


def _sleep(seconds: float) -> None:
    _state["now"] += max(0.0, float(seconds))


def _default_now(function: Any) -> Any:
    return lambda seconds=None: function(_now() if seconds is None else seconds)


_real_strftime = time.strftime
_real_gmtime = time.gmtime


def _strftime(form: str, moment: Any = None) -> str:
    return _real_strftime(form, _real_gmtime(_now()) if moment is None else moment)


def _uuid(*_: object, **__: object) -> uuid.UUID:
    _state["names"] += 1
    return uuid.UUID(int=int(_state["names"]))


class _Instances(type):
    """Objects made in C are of the real class; they count as instances all the same."""

    real: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.real)


class _DateTime(datetime.datetime, metaclass=_Instances):
    real = datetime.datetime

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return cls.fromtimestamp(_now(), tz or datetime.UTC).replace(tzinfo=tz)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now()

    @classmethod
    def today(cls) -> Any:
        return cls.now()


class _Date(datetime.date, metaclass=_Instances):
    real = datetime.date

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(_now())
