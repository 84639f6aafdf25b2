"""What an override word is: ``[+|++|~]section.key=value``, as Hydra reads it.

Source: hydra-core 1.3, hydra/grammar/OverrideParser.g4. Shell scripts, YAML lists and Python strings share this.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import FLAG, NEW_SECTION, OLD_SECTION

_OVERRIDE = re.compile(r"(?P<mark>\+{1,2}|~)?(?P<name>[A-Za-z_]\w*(?:\.\w+)+)(?:=(?P<value>.*))?", re.DOTALL)
_INTEGER = re.compile(r"[+-]?\d{1,99}")
# Hydra's grammar knows no yes, no, on or off: they are strings.
_LITERALS = {"true": True, "false": False, "null": None}

OLD_NAME = f"{OLD_SECTION}.{FLAG}"
NEW_NAME = f"{NEW_SECTION}.{FLAG}"
FLAG_NAMES = (OLD_NAME, NEW_NAME)


@dataclass(frozen=True, slots=True)
class Override:
    """One override word. `value` is None where no ``=`` follows the name."""

    mark: str
    name: str
    value: str | None

    @property
    def is_flag(self) -> bool:
        return self.name in FLAG_NAMES

    @property
    def section(self) -> str:
        return self.name.split(".", 1)[0]


def read(text: str) -> Override | None:
    """The override that a word is, or None."""
    found = _OVERRIDE.fullmatch(text)
    return Override(found["mark"] or "", found["name"], found["value"]) if found else None


def literal(value: str) -> object:
    """The value that Hydra makes of the text behind ``=``: a boolean, None, an integer or a string."""
    plain = value.strip()
    if plain.lower() in _LITERALS:
        return _LITERALS[plain.lower()]
    return int(plain) if _INTEGER.fullmatch(plain) else plain.strip("'\"")


_SEVERAL = re.compile(r"""[^"'\[({]*,|\w+\(|\$|\?\?\?$""")


def single(value: str) -> object:
    """`literal`, or `UNKNOWN` where Hydra makes several runs or asks for a value: ``a,b``, ``choice(a,b)``, ``???``."""
    return plan.UNKNOWN if _SEVERAL.match(value.strip()) else literal(value)


def stored(value: str) -> plan.Expression:
    """The flag's value in a word that expands nothing. What is not ``true`` or ``false`` is an expression."""
    match literal(value):
        case True:
            return plan.TRUE
        case False:
            return plan.FALSE
        case _:
            return (plan.Symbol(value, value),)


def spell(name: str, value: object) -> str:
    """A word that sets a key to a literal."""
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


def renamed(text: str) -> str:
    """A word, however it is quoted, with the flag on `ddp`.

    A single ``+`` goes: Hydra refuses it on a key that exists, and on ddp it does.
    """
    text = re.sub(rf"(?<![\w.+])\+({re.escape(OLD_NAME)})", r"\1", text, count=1)
    return re.sub(rf"\b{re.escape(OLD_NAME)}\b", NEW_NAME, text, count=1)
