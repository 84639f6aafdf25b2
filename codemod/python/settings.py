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
Where = tuple[tuple[int, int], ...]
"""Forks from the outside in, each with the number of its arm."""

ENVIRON: Final = ("os", "environ")
# What gets a config to train with it. It is looked at there, and what it is afterwards does not matter.
CONSUMERS: Final = frozenset({"pretrain", "finetune", "train", "runtime_config_update", "validate", "setup", "main"})


class Note(NamedTuple):
    """A store at `path`, or with no value something that may change everything at and below it."""

    path: Path
    value: ast.expr | None
    where: Where


def config_of(
    notes: Sequence[Note], root: Path, source: Source, release: str
) -> tuple[Config | None, dict[str, ast.expr]]:
    """What is known of the config at `root`, with the expressions its settings have; None if FSDP may be on or off."""
    names = ((*root, NEW_SECTION, FLAG), (*root, OLD_SECTION, FLAG))
    flags = [(n, literal(n.value)) for n in notes if n.value is not None and n.path in names]
    on = [note for note, value in flags if value is True]
    deciding = (on or [note for note, _ in flags])[-1:]
    if not deciding:
        return None, {}
    settings: dict[str, Known] = {}
    values: dict[str, ast.expr] = {}
    for note in notes:
        certain = _relation(note.where, deciding[0].where)
        if certain is None:
            continue
        path = _inside(note.path, root)
        if path is None:
            continue
        if note.value is None:
            for key in [k for k in settings if not path or k == path or k.startswith(f"{path}.")]:
                del settings[key]
            continue
        value = literal(note.value) if certain else UNKNOWN
        values[path] = note.value
        settings[path] = Known(value, source.place(*source.span(note.value)), isinstance(note.value, ast.Constant))
    fsdp = effective_flag(settings)
    if fsdp is None:
        return None, {}
    assert deciding[0].value is not None
    return Config(fsdp, source.place(*source.span(deciding[0].value)), settings, release), values


def _relation(where: Where, decided: Where) -> bool | None:
    """Whether what happens at one place certainly happens where FSDP is decided; None: never together with it."""
    for mine, other in zip(where, decided, strict=False):
        if mine != other:
            return None if mine[0] == other[0] else False
    return len(where) <= len(decided)


def _inside(path: Path, root: Path) -> str | None:
    """A path as a setting of `root`: empty if all of it is meant, None if it is another's."""
    if path[: len(ENVIRON)] == ENVIRON:
        return ".".join(("environ", *map(_key, path[len(ENVIRON) :])))
    if path[: len(root)] == root:
        return ".".join(map(_key, path[len(root) :]))
    return "" if root[: len(path)] == path else None


def _key(part: str) -> str:
    return part[2:-2] if part.startswith("['") else part


def keywords(path: Path, value: ast.expr, where: Where) -> Iterator[Note]:
    """A section that is bound to a new object: what was known is gone, and its keywords are stored."""
    yield Note(path, None, where)
    if isinstance(value, ast.Call):
        for keyword in value.keywords:
            if keyword.arg is not None:
                yield Note((*path, keyword.arg), keyword.value, where)
    elif isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield Note((*path, f"[{key.value!r}]"), item, where)
    elif isinstance(value, ast.Constant):
        yield Note(path, value, where)


def environment(tree: ast.Module) -> list[Note]:
    """The environment variables that a module sets when it is imported."""
    found: list[Note] = []
    for statement in tree.body:
        match statement:
            case ast.Assign([target], value):
                path = dotted(target) or ()
                if path[: len(ENVIRON)] == ENVIRON:
                    found.append(Note(path, value, ()))
            case ast.Expr(call) if (note := set_default(call, ())) is not None:
                found.append(note)
    return found


def set_default(call: ast.expr, where: Where) -> Note | None:
    """``os.environ.setdefault("NAME", value)``"""
    match call:
        case ast.Call(
            ast.Attribute(ast.Attribute(ast.Name("os"), "environ"), "setdefault"), [ast.Constant(str() as name), value]
        ):
            return Note((*ENVIRON, f"[{name!r}]"), value, where)
    return None


def spelled(value: object, old: str) -> str:
    """A literal, with the quotes of the one it replaces."""
    if not isinstance(value, str):
        return repr(value)
    quote = old[-1] if old[-1:] in ("'", '"') else '"'
    return f"{quote}{value}{quote}"
