"""Recording stand-ins for what cannot be imported. Runs in the child process only.

A `StandIn` answers every use that Python code can make of a value and remembers, for each attribute, what was stored
and from where. What depends on its unknown value stays visible: arithmetic and comparisons give further stand-ins,
strings built from one carry a mark, and where Python insists on a decision (``if``, ``len``, ``range``) the decision is
taken the empty way and written down as an assumption.

State is kept in the instance dictionary under keys that no attribute can have, so that copying, pickling and
subclassing work as for any object.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
import types
import typing
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from fsdp_migrate.trace.upstream import CLASS_DEFAULTS, ENTRY_POINTS, SECTION_CLASSES, TELLING_SECTIONS

Place = tuple[str, int]
NOWHERE: Final[Place] = ("", 0)

TEXT: Final = "\0text"
MADE: Final = "\0made"
ITEMS: Final = "\0items"
HISTORY: Final = "\0history"
BASE: Final = "\0base"
INTERNAL: Final = frozenset({TEXT, MADE, ITEMS, HISTORY, BASE})

MARK, END_MARK = "\ue000", "\ue001"
"""Around the text of an unknown value inside a string. Private-use characters: no source has them."""

_MAX_TEXT = 240
_EXCEPTIONS = ("Error", "Exception", "Warning", "Interrupt")


class Recorder:
    """What the running recipe did that is not in its config. One object, reset for each recipe."""

    def __init__(self) -> None:
        self.sources: set[str] = set()
        """Absolute file names of the project code that was loaded: only those are places."""
        self.assumptions: dict[tuple[str, str, int], None] = {}
        self.on_entry: Callable[[str, tuple[Any, ...], dict[str, Any]], None] = lambda *_: None
        self.known_call: Callable[[str, str, tuple[Any, ...], dict[str, Any]], Any] = lambda *_: NotImplemented

    def place(self) -> Place:
        """The innermost running line of project code."""
        sources = self.sources
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if file in sources:
                return file, frame.f_lineno
            frame = frame.f_back
        return NOWHERE

    def assume(self, text: str) -> None:
        if sys._getframe(2).f_code.co_filename == typing.__file__:
            return  # an annotation, compared by the typing module while it builds one: no decision of the recipe
        file, line = self.place()
        if len(self.assumptions) < 100:
            self.assumptions[(text, file, line)] = None


RECORDER: Final = Recorder()


def text_of(value: object, depth: int = 0) -> str:
    """A short, repeatable spelling of a value: no addresses, no contents of large or deep containers."""
    if isinstance(value, Recorded):
        state: dict[str, Any] = value.__dict__
        return str(state.get(TEXT) or f"{type(value).__name__}()")
    if isinstance(value, str):
        text = repr(plain(value))
    elif value is None or isinstance(value, (bool, int, float, complex, bytes, range)):
        text = repr(value)
    elif isinstance(value, (list, tuple, dict)) and depth > 3:
        text = "..."
    elif isinstance(value, (list, tuple)):
        text = ", ".join(text_of(item, depth + 1) for item in value[:8]) + (", ..." if len(value) > 8 else "")
        text = f"[{text}]" if isinstance(value, list) else f"({text})"
    elif isinstance(value, dict):
        pairs = list(value.items())[:8]
        text = ", ".join(f"{text_of(key, depth + 1)}: {text_of(item, depth + 1)}" for key, item in pairs)
        text = "{" + text + (", ..." if len(value) > 8 else "") + "}"
    elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        text = value.__qualname__
    elif isinstance(value, functools.partial):
        text = f"partial({text_of(value.func)})"
    elif isinstance(value, types.ModuleType):
        text = value.__name__
    elif type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        text = str(value)
    else:
        text = f"{type(value).__name__}()"
    return shortened(text)


def shortened(text: str) -> str:
    """At most `_MAX_TEXT` characters, and different for different texts."""
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[: _MAX_TEXT - 14]} ...#{zlib.crc32(text.encode(errors='replace')):08x}"


def plain(text: str) -> str:
    """A string without the marks of unknown parts."""
    return text.replace(MARK, "<").replace(END_MARK, ">")


def stand_in(text: str, *, made: bool = False) -> StandIn:
    new: StandIn = object.__new__(StandIn)
    state = new.__dict__
    state[TEXT] = shortened(text)
    if made:
        state[MADE] = True
    return new


def record(owner: Any, name: str, value: object, place: Place) -> None:
    """Remember that ``owner.name`` was set to `value` at `place`."""
    state = owner.__dict__
    if HISTORY not in state:
        state[HISTORY] = {}
    history = state[HISTORY]
    if name in history:
        history[name].append((value, place))
    else:
        history[name] = [(value, place)]


def put(owner: Any, name: str, value: object, place: Place) -> None:
    """Set an attribute on behalf of `place`."""
    record(owner, name, value, place)
    owner.__dict__[name] = value


class Recorded:
    """Base of the project's own classes whose declared base cannot be imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)

    def __post_init__(self, *_: Any) -> None:
        """What the absent base would check stays unchecked."""

    def __init_subclass__(cls, **_: Any) -> None:
        """Accept the class keywords of a base that is not there."""

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if not name.startswith(("__", "\0")):
            record(self, name, value, RECORDER.place())

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        if name.startswith("__") and name.endswith("__"):
            last = _last_name(state.get(TEXT, ""))
            if last and name in ("__name__", "__qualname__"):
                return last
            raise AttributeError(name)
        owner = text_of(self)
        defaults = _defaults_of(state, type(self))
        if name in defaults:
            return defaults[name]
        child = stand_in(f"{owner}.{name}")
        # The default section of a config that was built here is the class's own, not an unknown one.
        if name in SECTION_CLASSES and _is_made(self):
            child.__dict__[MADE] = True
        state[name] = child
        return child


def _is_made(value: Recorded) -> bool:
    return type(value) is not StandIn or bool(value.__dict__.get(MADE))


def _defaults_of(state: dict[str, Any], cls: type) -> dict[str, object]:
    text = state.get(TEXT, "")
    if cls is StandIn:
        if not state.get(MADE):
            return {}
        name = text.removesuffix("()").rpartition(".")[2].split("(")[0]
        return CLASS_DEFAULTS.get(SECTION_CLASSES.get(name, name), {})
    return next((CLASS_DEFAULTS[c.__name__] for c in cls.__mro__ if c.__name__ in CLASS_DEFAULTS), {})


def _binary(symbol: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    def forward(self: Any, other: Any) -> StandIn:
        return stand_in(f"({text_of(self)} {symbol} {text_of(other)})")

    def backward(self: Any, other: Any) -> StandIn:
        return stand_in(f"({text_of(other)} {symbol} {text_of(self)})")

    return forward, backward


def _unary(form: str) -> Callable[..., Any]:
    def apply(self: Any, *args: Any) -> StandIn:
        return stand_in(form.format(", ".join(map(text_of, (self, *args)))))

    return apply


class StandIn(Recorded):
    """A value of which only the spelling is known. Made by `stand_in`; calling the class makes a nameless one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.__dict__.setdefault(TEXT, "object()")
        super().__init__(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value
        if name[:1] != "\0":
            record(self, name, value, RECORDER.place())

    # --- calling, decorating, subclassing ---

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        text = text_of(self)
        leaf = _last_name(text)
        if leaf in ENTRY_POINTS:
            RECORDER.on_entry(leaf, args, kwargs)
            return stand_in(f"{text}(...)")
        answer = RECORDER.known_call(text, leaf, args, kwargs)
        if answer is not NotImplemented:
            return answer
        if len(args) == 1 and not kwargs and _may_be_decorated(args[0], leaf):
            return args[0]  # a decorator, bare or from a factory: the decorated thing keeps doing what it says
        if _names_a_class(leaf):
            spelled = f"{text}({', '.join(map(text_of, args))})"
            new = stand_in(spelled, made=not args)
            place = RECORDER.place() if kwargs else NOWHERE
            for name, value in kwargs.items():
                put(new, name, value, place)
            return new
        for value in (*args, *kwargs.values()):
            if isinstance(value, Recorded) and (HISTORY in value.__dict__ or looks_like_config(value)):
                RECORDER.assume(f"{text}() was given {text_of(value)} and is not run: taken not to change it")
        words = [*map(text_of, args), *(f"{name}={text_of(value)}" for name, value in kwargs.items())]
        return stand_in(f"{text}({', '.join(words)})")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        text = text_of(self)
        if text.endswith(_EXCEPTIONS):
            return (Exception,)
        state = self.__dict__
        if BASE not in state:
            state[BASE] = type(_last_name(text) or "Base", (Recorded,), {"__module__": text.rpartition(".")[0]})
        return (state[BASE],)

    def __instancecheck__(self, instance: Any) -> bool:
        """True for what was made by this very name, or derives from it by name."""
        name = _last_name(text_of(self))
        if isinstance(instance, StandIn):
            if name.endswith("ConfigContainer") and text_of(instance).split("(")[0].endswith("_config"):
                return True  # what recipe functions return, by convention
            made = bool(instance.__dict__.get(MADE))
            if not made:
                RECORDER.assume(f"{text_of(instance)} taken as no instance of {name}")
            return made and text_of(instance).split("(")[0].rpartition(".")[2] == name
        return any(name == cls.__name__ for cls in type(instance).__mro__[:-1])

    def __subclasscheck__(self, subclass: type) -> bool:
        return isinstance(subclass, type) and _last_name(text_of(self)) in {c.__name__ for c in subclass.__mro__}

    # --- containers ---

    def __getitem__(self, key: Any) -> Any:
        items = self.__dict__.setdefault(ITEMS, {})
        found = text_of(key)
        if found not in items:
            child = stand_in(f"{text_of(self)}[{found}]")
            if isinstance(key, str) and key.isidentifier() and not key.startswith("__"):
                child = self.__dict__.setdefault(key, child)  # attribute and key are one, as in a DictConfig
            items[found] = child
        return items[found]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__dict__.setdefault(ITEMS, {})[text_of(key)] = value
        if isinstance(key, str) and key.isidentifier():
            put(self, key, value, RECORDER.place())

    def __delitem__(self, key: Any) -> None:
        self.__dict__.get(ITEMS, {}).pop(text_of(key), None)

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked_by_caller(sys._getframe(1))
        if count is not None:
            return iter([self[index] for index in range(count)])
        RECORDER.assume(f"{text_of(self)} taken as empty")
        return iter(())

    __reversed__ = __iter__

    def __next__(self) -> Any:
        RECORDER.assume(f"{text_of(self)} taken as exhausted")
        raise StopIteration

    def __contains__(self, item: Any) -> bool:
        RECORDER.assume(f"{text_of(item)} taken as not in {text_of(self)}")
        return False

    def __len__(self) -> int:
        RECORDER.assume(f"len({text_of(self)}) taken as 0")
        return 0

    def __length_hint__(self) -> int:
        return 0

    # --- decisions and conversions ---

    def __bool__(self) -> bool:
        RECORDER.assume(f"{text_of(self)} taken as false")
        return False

    def __index__(self) -> int:
        RECORDER.assume(f"{text_of(self)} taken as 0")
        return 0

    __int__ = __index__

    def __float__(self) -> float:
        RECORDER.assume(f"{text_of(self)} taken as 1.0")
        return 1.0

    def __complex__(self) -> complex:
        return complex(float(self))

    def __bytes__(self) -> bytes:
        RECORDER.assume(f"bytes({text_of(self)}) taken as empty")
        return b""

    def __str__(self) -> str:
        return f"{MARK}{text_of(self)}{END_MARK}"

    __repr__ = __str__
    __fspath__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> Any:
        return True if self is other else stand_in(f"({text_of(self)} == {text_of(other)})")

    def __ne__(self, other: object) -> Any:
        return False if self is other else stand_in(f"({text_of(self)} != {text_of(other)})")

    # --- context managers, also asynchronous ones ---

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        """Let exceptions pass."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let exceptions pass."""

    def __await__(self) -> Iterator[Any]:
        return iter(())

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        raise StopAsyncIteration


for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}.items():  # fmt: skip
    _forward, _backward = _binary(_symbol)
    setattr(StandIn, f"__{_name}__", _forward)
    setattr(StandIn, f"__i{_name}__", _forward)
    setattr(StandIn, f"__r{_name}__", _backward)
for _name, _symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(StandIn, f"__{_name}__", _binary(_symbol)[0])
for _name, _form in {
    "neg": "-{}", "pos": "+{}", "invert": "~{}", "abs": "abs({})", "round": "round({})", "ceil": "ceil({})",
    "floor": "floor({})", "trunc": "trunc({})", "divmod": "divmod({})",
}.items():  # fmt: skip
    setattr(StandIn, f"__{_name}__", _unary(_form))


def _last_name(text: str) -> str:
    """The attribute that a spelling ends with, empty where it ends with a call or a subscript."""
    name = text.rpartition(".")[2]
    return name if name.isidentifier() else ""


def _names_a_class(leaf: str) -> bool:
    return leaf.lstrip("_")[:1].isupper()


_UNPACK = {dis.opmap[name] for name in ("UNPACK_SEQUENCE",) if name in dis.opmap}
_UNPACK_REST = dis.opmap["UNPACK_EX"]


def _may_be_decorated(value: object, by: str) -> bool:
    return isinstance(value, types.FunctionType) or (isinstance(value, type) and not _names_a_class(by))


def is_class_name(text: str) -> bool:
    """Whether a spelling names a class, by convention."""
    return _names_a_class(_last_name(text))


def _unpacked_by_caller(frame: types.FrameType) -> int | None:
    """How many targets the running assignment of `frame` unpacks an iterator into; None where it is no unpacking."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] in _UNPACK:
        return code[at + 1]
    if code[at] == _UNPACK_REST:
        return code[at + 1]  # the targets before the star; those after it need EXTENDED_ARG and are rare
    return None


def exception_class(name: str) -> type[Exception] | None:
    """A real exception for a name that reads like one, so that ``except`` accepts it."""
    if _names_a_class(name) and name.endswith(_EXCEPTIONS):
        return type(name, (Exception,), {})
    return None


def looks_like_config(value: object) -> bool:
    """Whether this is a config as a whole, rather than one of its sections or something else."""
    if isinstance(value, dict):
        return bool(TELLING_SECTIONS & value.keys())
    state = getattr(value, "__dict__", {})
    if isinstance(value, StandIn) and state.get(MADE) and text_of(value).split("(")[0].endswith("ConfigContainer"):
        return True
    return bool(TELLING_SECTIONS & state.keys())


# --- what project code calls in place of some builtins, see `modules.adapted` ---


def convert(kind: str, *args: Any, **kwargs: Any) -> Any:
    """``float(x)``, ``int(x)``: Python wants a real number, a stand-in stays one."""
    if any(isinstance(arg, StandIn) for arg in args):
        return stand_in(f"{kind}({', '.join(map(text_of, args))})")
    return getattr(builtins, kind)(*args, **kwargs)


class parent_of:  # noqa: N801 - stands in the place of ``super``
    """``super()`` in a class whose base is absent: what the base would have is a stand-in."""

    def __init__(self, real: Any) -> None:
        object.__setattr__(self, "real", real)

    def __getattribute__(self, name: str) -> Any:
        real = object.__getattribute__(self, "real")
        try:
            return getattr(real, name)
        except AttributeError:
            if not isinstance(real.__self__, Recorded) or name.startswith("__"):
                raise
        return stand_in(f"super().{name}")


def either(*operands: Any) -> Any:
    """``a or b`` for a flag: True as soon as one is, unknown where that hangs on an unknown one."""
    unknown: list[Any] = []
    for operand in operands[:-1]:
        if isinstance(operand, StandIn):
            unknown.append(operand)
        elif operand:
            return operand
    last = operands[-1]
    if not unknown:
        return last
    if not isinstance(last, StandIn):
        if last:
            return last
        return unknown[0] if len(unknown) == 1 else stand_in(f"({' or '.join(map(text_of, unknown))})")
    return stand_in(f"({' or '.join(map(text_of, (*unknown, last)))})")
