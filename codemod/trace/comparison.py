"""Whether a migration changed what recipes mean: two traces of the same recipes, compared setting by setting.

The invariant: Bridge computed ``dist OR ddp`` in every release that had the old flag, so `ddp` after the migration must
equal that before it, and no other setting may change. Allowed besides are the companions, where FSDP is on, and one
declared exception: over an unknown base, a lone ``dist = False`` (or an expression) becomes ``ddp = False`` (or the
expression), although Bridge ignored it where the base had `ddp` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from fsdp_migrate.trace.upstream import COMPANIONS, NEW_FLAG, OLD_FLAG
from fsdp_migrate.trace.values import Setting, TracedRecipe, Unknown

_BASE: Final = Unknown("what the base recipe says")
_FLAGS: Final = frozenset({OLD_FLAG, NEW_FLAG})


class Status(Enum):
    """What became of a recipe. Only `DIFFERENT` is a failure; `NOT_VERIFIED` is never a success."""

    UNCHANGED = "unchanged"
    MOVED = "moved"
    COMPANIONS = "companions added"
    DECLARED = "declared"
    DIFFERENT = "different"
    NOT_VERIFIED = "not verified"


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that is not what it was. None where it is not set."""

    path: str
    before: Setting | None
    after: Setting | None

    def __str__(self) -> str:
        return f"{self.path}: {_shown(self.before)} -> {_shown(self.after)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on one recipe.

    Attributes:
        differences: why it is different; for every other status empty.
        companions: the settings that were added because FSDP is on.
        detail: why it is not verified, or what was declared.
    """

    name: str
    file: str
    status: Status
    differences: tuple[Difference, ...] = ()
    companions: tuple[Setting, ...] = ()
    detail: str = ""


def compare(before: Sequence[TracedRecipe], after: Sequence[TracedRecipe]) -> tuple[Comparison, ...]:
    """Compare recipes of the same name and file, in the order of `before`; recipes that are new come last."""
    later: dict[tuple[str, str], list[TracedRecipe]] = {}
    for recipe in after:
        later.setdefault((recipe.file, recipe.name), []).append(recipe)
    found: list[Comparison] = []
    for recipe in before:
        twins = later.get((recipe.file, recipe.name))
        if twins:
            found.append(_compare(recipe, twins.pop(0)))
        else:
            found.append(_not_verified(recipe, "it is gone after the migration"))
    found += [_not_verified(recipe, "it was not there before") for rest in later.values() for recipe in rest]
    return tuple(found)


def _not_verified(recipe: TracedRecipe, detail: str) -> Comparison:
    return Comparison(recipe.name, recipe.file, Status.NOT_VERIFIED, detail=detail)


def _compare(before: TracedRecipe, after: TracedRecipe) -> Comparison:
    for when, recipe in (("before", before), ("after", after)):
        if recipe.reason:
            return _not_verified(recipe, f"{when} the migration: {recipe.reason}")
    old = {setting.path: setting for setting in before.settings}
    new = {setting.path: setting for setting in after.settings}
    differences: list[Difference] = []
    companions: list[Setting] = []
    moved = declared = False

    if any(_changed(old.get(path), new.get(path)) for path in _FLAGS):
        meant, means = _either(_flag(before, OLD_FLAG), _flag(before, NEW_FLAG)), _flag(after, NEW_FLAG)
        moved = _same_flag(meant, means)
        declared = not moved and _is_declared(before, means)
        if not moved and not declared:
            differences.append(Difference(NEW_FLAG, _telling(old, means), new.get(NEW_FLAG)))

    on = _flag(after, NEW_FLAG) is True
    for path in dict.fromkeys((*old, *new)):
        earlier, later = old.get(path), new.get(path)
        if path in _FLAGS or not _changed(earlier, later):
            continue
        if on and later is not None and _is_companion(path, later.value):
            companions.append(later)
        else:
            differences.append(Difference(path, earlier, later))
    for path in sorted({*before.made} ^ {*after.made}):
        if before.has_defaults(path) != after.has_defaults(path) and not any(d.path == path for d in differences):
            differences.append(Difference(path, _built(before, path), _built(after, path)))

    if differences:
        return Comparison(before.name, before.file, Status.DIFFERENT, tuple(differences))
    if declared:
        detail = f"{NEW_FLAG} = {_value(new[NEW_FLAG].value)} as written; the base's own value is unknown"
        return Comparison(before.name, before.file, Status.DECLARED, companions=tuple(companions), detail=detail)
    status = Status.COMPANIONS if companions else Status.MOVED if moved else Status.UNCHANGED
    return Comparison(before.name, before.file, status, companions=tuple(companions))


def _changed(before: Setting | None, after: Setting | None) -> bool:
    if before is None or after is None:
        return before is not after
    # True and 1 are equal in Python and different in a config.
    return type(before.value) is not type(after.value) or before.value != after.value


def _flag(recipe: TracedRecipe, path: str) -> bool | Unknown:
    """The flag of one section; `_BASE` where only an unknown base could say."""
    try:
        value = recipe[path]
    except KeyError:
        return False if recipe.has_defaults(path.rpartition(".")[0]) else _BASE
    return value if isinstance(value, Unknown) else bool(value)


def _either(dist: bool | Unknown, ddp: bool | Unknown) -> bool | Unknown:
    """``dist or ddp`` as old Bridge computed it."""
    if dist is True or ddp is True:
        return True
    if isinstance(dist, Unknown) and isinstance(ddp, Unknown):
        return dist if dist == ddp else Unknown(f"({dist.text} or {ddp.text})")
    return ddp if isinstance(ddp, Unknown) else dist


def _same_flag(meant: bool | Unknown, means: bool | Unknown) -> bool:
    if isinstance(meant, Unknown) and isinstance(means, Unknown):
        return _operands(meant) == _operands(means)
    return meant is means


def _operands(value: Unknown) -> frozenset[str]:
    text = value.text
    while text.startswith("(") and text.endswith(")") and _closes_last(text):
        text = text[1:-1]
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and text.startswith(" or ", position):
            parts.append(text[start:position])
            start = position + 4
    parts.append(text[start:])
    return frozenset(parts) if len(parts) == 1 else frozenset().union(*(_operands(Unknown(part)) for part in parts))


def _closes_last(text: str) -> bool:
    """Whether the first bracket is closed by the last character only."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def _is_declared(before: TracedRecipe, means: bool | Unknown) -> bool:
    """A lone dist store over an unknown base that was written as it stood."""
    dist = before.get(OLD_FLAG, _BASE)
    lone = all(setting.path != NEW_FLAG for setting in before.settings)
    if not lone or before.has_defaults("ddp") or dist is True or dist == _BASE:
        return False
    return _same_flag(dist if isinstance(dist, Unknown) else bool(dist), means)


def _is_companion(path: str, value: object) -> bool:
    """Whether a value is one that Megatron FSDP needs. Any strategy that shards will do."""
    if path not in COMPANIONS:
        return False
    if path.endswith(".data_parallel_sharding_strategy"):
        return isinstance(value, str) and value.startswith("optim")
    return value == COMPANIONS[path] and type(value) is type(COMPANIONS[path])


def _telling(old: dict[str, Setting], means: bool | Unknown) -> Setting | None:
    """The setting that a reader should look at: the one that turned the flag on, else the one that is there."""
    there = [old[path] for path in (NEW_FLAG, OLD_FLAG) if path in old]
    return next((setting for setting in there if setting.value != means), there[0] if there else None)


def _built(recipe: TracedRecipe, path: str) -> Setting | None:
    return Setting(path, Unknown("an object built here"), recipe.file, recipe.line) if path in recipe.made else None


def _shown(setting: Setting | None) -> str:
    return "not set" if setting is None else f"{_value(setting.value)} ({setting.place})"


def _value(value: object) -> str:
    return str(value) if isinstance(value, Unknown) else repr(value)
