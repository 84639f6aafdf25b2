"""The values of a trace, and their JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only the absent libraries could give.

    `text` is the expression that it came from, such as ``torch.bfloat16``. Two unknown values are equal when they came
    from the same expression.
    """

    text: str

    def __str__(self) -> str:
        return f"<{self.text}>"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a config and the place that set it last.

    Attributes:
        path: dotted from the config's root, such as ``ddp.use_megatron_fsdp``.
        value: JSON-able (tuples and sets are lists, paths and enum members strings), `Unknown` where it depends on a
            library that is not there, also inside lists and dicts.
        file: relative to the project root where it lies in it. In angle brackets where no file of the project set it,
            such as ``<megatron-bridge 0.6.2>`` or ``<override>``.
        line: counts from 1; 0 when it is not known.
        overridden: the settings of the same path that this one replaced, oldest first.
    """

    path: str
    value: object
    file: str
    line: int
    overridden: tuple[Setting, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Assumption:
    """A point where a recipe asked an unknown value for a decision. `text` says what was taken."""

    text: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class TracedRecipe:
    """What became of one recipe.

    Attributes:
        name: the function, the module-level object, or the script's file name.
        file: relative to the project root where it lies in it.
        line: where the recipe is defined.
        settings: in the order of their paths' first appearance.
        reason: why it could not be evaluated, in one line; then `settings` is empty.
        assumptions: the decisions that hung on unknown values.
        made: paths of the objects that were built here by calling a class (``""`` is the config itself). What such an
            object does not set has its class's default; what any other object does not set is unknown.
    """

    name: str
    file: str
    line: int
    settings: tuple[Setting, ...] = ()
    reason: str = ""
    assumptions: tuple[Assumption, ...] = ()
    made: tuple[str, ...] = ()

    def __getitem__(self, path: str) -> object:
        """The value at a path. Raises `KeyError` where the recipe does not set it."""
        return self.setting(path).value

    def get(self, path: str, default: object = None) -> object:
        try:
            return self[path]
        except KeyError:
            return default

    def setting(self, path: str) -> Setting:
        """The setting at a path. Raises `KeyError` where the recipe does not set it."""
        for setting in self.settings:
            if setting.path == path:
                return setting
        raise KeyError(path)

    def has_defaults(self, path: str) -> bool:
        """Whether what is not set under this section has its class's default, rather than being unknown."""
        unknown = {s.path for s in self.settings if isinstance(s.value, Unknown)}
        while True:
            if path in self.made:
                return True
            if path in unknown or not path:
                return False
            path = path.rpartition(".")[0]


def to_json(value: object) -> Any:
    """A value as JSON: an unknown one is ``{"unknown": "text"}``."""
    if isinstance(value, Unknown):
        return {"unknown": value.text}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def from_json(value: Any) -> object:
    """The inverse of `to_json`."""
    if isinstance(value, dict):
        if value.keys() == {"unknown"} and isinstance(value["unknown"], str):
            return Unknown(value["unknown"])
        return {key: from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return value
