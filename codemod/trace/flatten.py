"""From a config object to its settings. Runs in the child process only."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any, Final

from fsdp_migrate.trace.standins import (
    HISTORY,
    INTERNAL,
    MADE,
    MARK,
    NOWHERE,
    RECORDER,
    Place,
    Recorded,
    StandIn,
    plain,
    put,
    stand_in,
    text_of,
)

Row = tuple[str, Any, str, int, list[Any]]
"""Path, JSON value, file, line, the overridden ones as (value, file, line)."""

_MAX_DEPTH = 12
_MAX_ITEMS = 2000
_MAX_TEXT = 100_000
_PLAIN: Final = frozenset({bool, int, type(None)})

_side_histories: dict[int, tuple[object, dict[str, list[tuple[object, Place]]]]] = {}
"""Histories of dataclass instances, whose own dictionary must stay as the project expects it. Keeps them alive."""


def reset() -> None:
    _side_histories.clear()


def record_dataclasses() -> None:
    """From now on, dataclasses note where their fields are set, and those over an absent base accept its fields."""
    real_dataclass = dataclasses.dataclass
    real_replace = dataclasses.replace
    real_fields = dataclasses.fields
    real_asdict = dataclasses.asdict

    def dataclass(cls: Any = None, /, **options: Any) -> Any:
        def wrap(cls: Any) -> Any:
            made = real_dataclass(cls, **options)
            if issubclass(made, Recorded):
                made.__init__ = _accepting_inherited(made.__init__, made)
            elif options.get("frozen"):
                return made
            elif made.__setattr__ is object.__setattr__ and not options.get("slots"):
                made.__setattr__ = _recording_setattr
            return made

        return wrap if cls is None else wrap(cls)

    def replace(instance: Any, /, **changes: Any) -> Any:
        if not isinstance(instance, StandIn):
            return real_replace(instance, **changes)
        new: StandIn = object.__new__(StandIn)
        new.__dict__.update(instance.__dict__)
        new.__dict__[HISTORY] = {name: list(past) for name, past in instance.__dict__.get(HISTORY, {}).items()}
        for name, value in changes.items():
            setattr(new, name, value)
        return new

    def fields(class_or_instance: Any) -> Any:
        if not isinstance(class_or_instance, StandIn):
            return real_fields(class_or_instance)
        RECORDER.assume(f"the fields of {text_of(class_or_instance)} taken as none")
        return ()

    def asdict(instance: Any, **options: Any) -> Any:
        if not isinstance(instance, StandIn):
            return real_asdict(instance, **options)
        return stand_in(f"asdict({text_of(instance)})")

    vars(dataclasses).update(dataclass=dataclass, replace=replace, fields=fields, asdict=asdict)


def _recording_setattr(self: Any, name: str, value: Any) -> None:
    object.__setattr__(self, name, value)
    _, history = _side_histories.setdefault(id(self), (self, {}))
    history.setdefault(name, []).append((value, RECORDER.place()))


def _accepting_inherited(init: Callable[..., None], cls: Any) -> Callable[..., None]:
    own = {field.name for field in dataclasses.fields(cls) if field.init}

    def accepting_init(self: Any, *args: Any, **kwargs: Any) -> None:
        inherited = {name: kwargs.pop(name) for name in list(kwargs) if name not in own}
        place = RECORDER.place()
        for name, value in inherited.items():
            put(self, name, value, place)
        init(self, *args, **kwargs)

    return accepting_init


def settings_of(config: object, default: Place, home: str) -> tuple[list[Row], list[str]]:
    """The rows of a config and the paths of the objects that were built by calling a class.

    Args:
        default: the place of what no assignment was seen for.
        home: the temporary working directory; it reads as ``.`` in values.
    """
    walk = _Walk(default, home)
    walk.nested_dicts = isinstance(config, dict)
    walk.enter("", config, {}, 0)
    return list(walk.rows.values()), walk.made


class _Walk:
    def __init__(self, default: Place, home: str) -> None:
        self.default = default
        self.home = home
        self.rows: dict[str, Row] = {}
        self.made: list[str] = []
        self.open: set[int] = set()
        self.nested_dicts = False

    def enter(self, path: str, owner: object, past: dict[str, list[Any]], depth: int) -> None:
        """Add the rows below `path`. `past` has what earlier objects at the same path held, by relative path."""
        if id(owner) in self.open or depth > _MAX_DEPTH:
            return
        self.open.add(id(owner))
        if _is_made(owner):
            self.made.append(path)
        for name, value, history in _fields(owner):
            self.add(f"{path}.{name}" if path else name, value, history, past, name, depth)
        self.open.discard(id(owner))

    def add(
        self, path: str, value: object, history: list[Any], past: dict[str, list[Any]], name: str, depth: int
    ) -> None:
        place = history[-1][1] if history else NOWHERE
        if type(value) in _PLAIN and len(history) < 2 and not past:  # nearly every setting
            self.row(path, value, place, [])
            return
        explicit = bool(history) or not isinstance(value, StandIn)
        earlier = list(past.get(name, ()))
        below: dict[str, list[Any]] = {}
        for key, entries in past.items():
            if key.startswith(f"{name}."):
                below[key.removeprefix(f"{name}.")] = entries
        for old, (file, line) in history[:-1]:
            if self.is_section(old):
                for inner, entry in self.leaves(old, 0):
                    below.setdefault(inner, []).append(entry)
            else:
                earlier.append([self.json(old), file, line])
        if self.is_section(value):
            if explicit and isinstance(value, StandIn) and not value.__dict__.get(MADE):
                self.row(path, self.json(value), place, earlier)
            self.enter(path, value, below, depth + 1)
        elif explicit:
            self.row(path, self.json(value), place, earlier)

    def is_section(self, value: object) -> bool:
        return _is_section(value) or (self.nested_dicts and isinstance(value, dict) and bool(value))

    def row(self, path: str, value: Any, place: Place, earlier: list[Any]) -> None:
        file, line = place if place[0] else self.default
        self.rows[path] = (path, value, file, line, earlier)

    def leaves(self, owner: object, depth: int) -> Iterator[tuple[str, list[Any]]]:
        """The settings of an object that was replaced as a whole."""
        if depth > _MAX_DEPTH or id(owner) in self.open:
            return
        self.open.add(id(owner))
        for name, value, history in _fields(owner):
            if self.is_section(value):
                for inner, entry in self.leaves(value, depth + 1):
                    yield f"{name}.{inner}", entry
            else:
                file, line = history[-1][1] if history else self.default
                yield name, [self.json(value), file, line]
        self.open.discard(id(owner))

    def json(self, value: object, depth: int = 0) -> Any:
        """JSON of a value; what has no faithful form is unknown, with a spelling that is the same in every run."""
        if value is None or value is True or value is False or type(value) is int:
            return value
        if isinstance(value, enum.Enum):
            return f"{type(value).__name__}.{value.name}"
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"unknown": f"float({str(value)!r})"}
        if isinstance(value, PurePath):
            value = str(value)
        if isinstance(value, str):
            if len(value) > _MAX_TEXT:
                return {"unknown": f"a text of {len(value)} characters"}
            text = value.replace(self.home, ".") if self.home in value else str(value)
            if not text.isascii():
                text = text.encode("utf-8", "backslashreplace").decode()  # no lone surrogates
            return {"unknown": plain(text)} if MARK in text else text
        if depth < _MAX_DEPTH and isinstance(value, (list, tuple, dict, set, frozenset)) and len(value) <= _MAX_ITEMS:
            if isinstance(value, dict):
                return {plain(str(key)): self.json(item, depth + 1) for key, item in value.items()}
            items = [self.json(item, depth + 1) for item in value]
            return sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items
        return {"unknown": plain(text_of(value))}


def _fields(owner: object) -> Iterator[tuple[str, object, list[Any]]]:
    """Name, present value and history of every public attribute (or key, for a dictionary)."""
    if isinstance(owner, dict):
        for key, value in owner.items():
            if isinstance(key, str):
                yield key, value, []
        return
    state = getattr(owner, "__dict__", {})
    if isinstance(owner, Recorded):
        history = state.get(HISTORY, {})
    else:
        history = _side_histories.get(id(owner), (None, {}))[1]
    for name, past in history.items():
        if name in state and name[:1] != "_":
            yield name, state[name], past
    for name, value in state.items():
        if name not in history and name not in INTERNAL and name[:1] != "_":
            yield name, value, []


def _is_made(owner: object) -> bool:
    return bool(owner.__dict__.get(MADE)) if isinstance(owner, StandIn) else not isinstance(owner, dict)


def _is_section(value: object) -> bool:
    """Whether a value is shown as the settings in it, rather than as one value."""
    if isinstance(value, Recorded):
        return True
    if value is None or isinstance(value, (str, int, float, complex, bytes, list, tuple, set, frozenset, dict)):
        return False
    if isinstance(value, (type, enum.Enum, PurePath, types.FunctionType, types.MethodType, types.ModuleType)):
        return False
    if dataclasses.is_dataclass(value) or isinstance(value, types.SimpleNamespace):
        return True
    module = sys.modules.get(type(value).__module__)
    return getattr(module, "__file__", None) in RECORDER.sources and hasattr(value, "__dict__")
