"""The settings that one scope stores into one config, for the rules about conflicts.

A reader notes every store and every call that may store, with the branches they stand in. `config_of` looks at them
from the place that decides about FSDP: what stands in the same or an enclosing block is certain, what stands in another
arm of the same branch is no matter, and everything else is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fsdp_migrate.conflicts import Config, Known, effective_flag
from fsdp_migrate.python.source import Source
from fsdp_migrate.python.values import dotted, literal
from fsdp_migrate.transforms.plan import UNKNOWN
from fsdp_migrate.upstream import FLAG, NEW_SECTION, OLD_SECTION

Path = tuple[str, ...]


class Arm(NamedTuple):
    """A branch, a loop or a part of a ``try``: the fork, which arm of it, and what the arm leaves at its end."""

    fork: int
    number: int = 0
    exit: str = ""


Where = tuple[Arm, ...]
"""The arms that a place stands in, from the outside in."""

ENVIRON: Final = ("os", "environ")
# What gets a config to train with it. It is looked at there, and what it is afterwards does not matter.
CONSUMERS: Final = frozenset({"pretrain", "finetune", "train", "runtime_config_update", "validate", "setup", "main"})
# Methods of a mapping that change nothing.
LOOKUPS: Final = frozenset({"get", "items", "keys", "values"})


class Note(NamedTuple):
    """A store at `path`, or with no value something that may change everything at and below it.

    `default`: it stores only where nothing is stored yet. `shared`: the same value is stored elsewhere, too.
    """

    path: Path
    value: ast.expr | None
    where: Where
    default: bool = False
    shared: bool = False


def config_of(
    notes: Sequence[Note], root: Path, source: Source, target: str
) -> tuple[Config | None, dict[str, ast.expr]]:
    """What is known of the config at `root`, with the expressions its settings have; None if FSDP may be on or off."""
    names = ((*root, NEW_SECTION, FLAG), (*root, OLD_SECTION, FLAG))
    flags = [(i, literal(n.value)) for i, n in enumerate(notes) if n.value is not None and n.path in names]
    on = [i for i, value in flags if value is True]
    if not flags:
        return None, {}
    position = (on or [i for i, _ in flags])[-1]
    deciding = notes[position]
    settings: dict[str, Known] = {}
    values: dict[str, ast.expr] = {}
    for number, note in enumerate(notes):
        certain = _relation(note.where, deciding.where, later=number > position)
        if certain is None:
            continue
        path = _inside(note.path, root)
        if path is None or (note.default and path in settings):
            continue
        if note.value is None:
            for key in [k for k in settings if _is_below(k, path)]:
                del settings[key]
            continue
        value = _value(note.value) if certain else UNKNOWN
        values[path] = note.value
        alone = isinstance(note.value, ast.Constant) and not note.shared
        settings[path] = Known(value, source.place(*source.span(note.value)), alone)
    fsdp = effective_flag(settings)
    if fsdp is None:
        return None, {}
    assert deciding.value is not None
    return Config(fsdp, source.place(*source.span(deciding.value)), settings, target), values


def _value(node: ast.expr) -> object:
    """A literal; of a section that is made here, the name of its class."""
    if isinstance(node, ast.Call):
        name = (dotted(node.func) or ("",))[-1]
        return name if name[:1].isupper() else UNKNOWN
    return literal(node)


def _relation(where: Where, decided: Where, *, later: bool) -> bool | None:
    """Whether what happens at one place certainly happens where FSDP is decided; None: never together with it."""
    shared = 0
    for mine, other in zip(where, decided, strict=False):
        if mine != other:
            if mine.fork == other.fork:
                return None
            break
        shared += 1
    # An arm that leaves the function goes with nothing that comes after it.
    first = decided if later else where
    exits = {arm.exit for arm in first[shared:]}
    if _FUNCTION in exits:
        return None
    return shared == len(where) and not (later and _LOOP in exits)


def _is_below(key: str, path: str) -> bool:
    """Whether a setting may change with what is at `path`. The process's variables belong to no config."""
    if not path:
        return not key.startswith(f"{ENVIRON[-1]}.")
    return key == path or key.startswith(f"{path}.")


_FUNCTION, _LOOP = "function", "loop"


def leaves(body: Sequence[ast.stmt]) -> str:
    """What a block certainly leaves at its end: ``function``, ``loop``, or nothing."""
    match body[-1:]:
        case [ast.Return() | ast.Raise()]:
            return _FUNCTION
        case [ast.Break() | ast.Continue()]:
            return _LOOP
        case [ast.With(_, inner)]:
            return leaves(inner)
        case [ast.If(_, inner, orelse)]:
            ends = {leaves(inner), leaves(orelse)}
            return "" if "" in ends else _LOOP if _LOOP in ends else _FUNCTION
    return ""


def _inside(path: Path, root: Path) -> str | None:
    """A path as a setting of `root`: empty if all of it is meant, None if it is another's."""
    if "__dict__" in path:
        path = path[: path.index("__dict__")]
    if path[: len(ENVIRON)] == ENVIRON:
        return ".".join((ENVIRON[-1], *map(_key, path[len(ENVIRON) :])))
    if path[: len(root)] == root:
        return ".".join(map(_key, path[len(root) :]))
    return "" if root[: len(path)] == path else None


def _key(part: str) -> str:
    return part[2:-2] if part.startswith("['") else part


def keywords(path: Path, value: ast.expr, where: Where) -> Iterator[Note]:
    """A section that is bound to a new object: what was known is gone, and its keywords are stored."""
    yield Note(path, None, where)
    if isinstance(value, ast.Call):
        yield Note(path, value, where)
        for keyword in value.keywords:
            if keyword.arg is not None:
                yield Note((*path, keyword.arg), keyword.value, where)
    elif isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield Note((*path, f"[{key.value!r}]"), item, where)
            else:
                yield Note(path, None, where)
    elif isinstance(value, ast.Constant):
        yield Note(path, value, where)


def environment(tree: ast.Module) -> list[Note]:
    """The environment variables that a module sets when it is imported. What it may set is unknown."""
    found: list[Note] = []
    for statement in tree.body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom():
                continue
            case ast.Assign([ast.Subscript() as target], value) if (path := dotted(target)) and path[:2] == ENVIRON:
                found.append(Note(path, value, ()))
                continue
            case ast.Expr(call) if (note := set_default(call, ())) is not None:
                found.append(note)
                continue
        if any(isinstance(node, ast.Attribute) and dotted(node) == ENVIRON for node in ast.walk(statement)):
            found.append(Note(ENVIRON, None, ()))
    return found


def set_default(call: ast.expr, where: Where) -> Note | None:
    """``os.environ.setdefault("NAME", value)``"""
    match call:
        case ast.Call(
            ast.Attribute(ast.Attribute(ast.Name("os"), "environ"), "setdefault"), [ast.Constant(str() as name), value]
        ):
            return Note((*ENVIRON, f"[{name!r}]"), value, where, default=True)
    return None


def spelled(value: object, old: str) -> str:
    """A literal, with the quotes of the one it replaces."""
    if not isinstance(value, str):
        return repr(value)
    quote = old[-1] if old[-1:] in ("'", '"') else '"'
    return f"{quote}{value}{quote}"
