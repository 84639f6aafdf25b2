"""What is known of a config, what a rule concludes from it, and how that becomes findings.

A rule about conflicts sees settings by their dotted paths (``ddp.average_in_collective``), however they are written. On
the source it knows what one scope stores; on a traced recipe it knows everything that the recipe ends up with.
Environment variables are settings too: ``env_vars.NAME`` is the config's own, ``environ.NAME`` the process's. So are
the number of ranks that a command starts (``launch.ranks``) and, in examples, the format of a directory.

A rule is one module in `transforms` with a function from a `Config` to `Conflict`s, wrapped by `check`. It asks with
`get`, `is_any` and `exceeds`, which say nothing about what is unknown. An error needs a value that is known to be
refused, and `is_since`, asked last, where releases differ. `examples` writes the same settings in every language,
`traced` those that only a whole recipe has. What is known about upstream goes into `upstream`. Codes: 101 to 119 for
what validate() knows, 121 to 139 for what nothing validates, from 140 for version 2, checkpoints and overwritten
settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fsdp_migrate.cases import Case, Draft, Example
from fsdp_migrate.findings import Place, Severity
from fsdp_migrate.transforms.plan import UNKNOWN
from fsdp_migrate.upstream import COMPANIONS, FLAG, NEW_SECTION, OLD_SECTION, TARGETS, release_of

NO_FIX: Final = object()


@dataclass(frozen=True, slots=True)
class Known:
    """A setting: its value (`UNKNOWN` where it cannot be told), and where and how it is written.

    `can_set`: the value stands there alone, so that another literal may stand in its place.
    """

    value: object = UNKNOWN
    place: Place | None = None
    can_set: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """What is known of one config at the end of the scope (or of the recipe) that makes it.

    `fsdp` is whether Megatron FSDP is on; `anchor` the place that says so. `target` is the release that was asked for,
    or empty. `complete`: sections of which everything that is not in `settings` has its class's default. `traced`: all
    of it was evaluated, and `name` is the recipe's. `has_null`: None can be written where it stands.
    """

    fsdp: bool
    anchor: Place
    settings: Mapping[str, Known]
    target: str
    complete: frozenset[str] = frozenset()
    traced: bool = False
    name: str = ""
    has_null: bool = True

    def get(self, path: str, default: object = UNKNOWN) -> object:
        """The value at a path; `default`, the class's, where the section is complete without it; else `UNKNOWN`."""
        found = self.settings.get(path)
        if found is not None:
            return found.value
        return default if path.partition(".")[0] in self.complete else UNKNOWN

    def sets(self, path: str) -> bool:
        """Whether anything, known or not, is stored at a path."""
        return path in self.settings

    @property
    def release(self) -> str:
        """The one of `TARGETS` that it is for. Asked late: looking for an installed Bridge takes a while."""
        return release_of(self.target)

    def is_since(self, release: str) -> bool:
        """Whether the config is for this Bridge release or a later one."""
        return TARGETS.index(self.release) >= TARGETS.index(release)

    def is_any(self, path: str, *values: object) -> bool:
        """Whether the value is known to be one of these; True and 1 are different values."""
        value = self.get(path)
        return any(value == v and type(value) is type(v) for v in values)

    def exceeds(self, path: str, number: int) -> bool:
        """Whether the value is known to be a number above this one."""
        value = self.get(path)
        return isinstance(value, int) and not isinstance(value, bool) and value > number

    def format_at(self, path: str) -> str:
        """The format of the checkpoints in the directory that a setting names; empty where it cannot be looked at."""
        told = self.get(f"directory.{path}")
        value = self.get(path)
        if told is not UNKNOWN or not isinstance(value, str) or not value:
            return told if isinstance(told, str) else ""
        from fsdp_migrate.checkpoint_directory import format_of

        return format_of(value)

    @property
    def keeps_checkpoints(self) -> bool | None:
        """Whether something is saved or loaded; None where the scope does not tell."""
        values = [self.get("checkpoint.save", None), self.get("checkpoint.load", None)]
        if any(v is not UNKNOWN and v not in (None, "") for v in values):
            return True
        # A path that is computed is still a path.
        if any(self.sets(p) and self.get(p) is UNKNOWN for p in ("checkpoint.save", "checkpoint.load")):
            return True
        return None if UNKNOWN in values else False


@dataclass(frozen=True, slots=True)
class Conflict:
    """One conclusion. `at` is the setting it is about; `value` is what would be right there, if that is certain."""

    at: str
    severity: Severity
    message: str
    why: str = ""
    value: object = NO_FIX


Judge = Callable[[Config], Iterator[Conflict]]


def check(judge: Judge) -> Callable[[Case], Iterator[Draft]]:
    """The check of a rule that judges configs. Its fixes replace a value of the author's, so they are unsafe."""

    def drafts(case: Case) -> Iterator[Draft]:
        if case.config is None:
            return
        for conflict in judge(case.config):
            setting = case.config.settings.get(conflict.at, Known())
            can = setting.can_set and conflict.value is not NO_FIX
            can = can and (conflict.value is not None or case.config.has_null)
            part = _part(conflict.at, conflict.value) if can else ""
            place = setting.place or case.config.anchor
            yield Draft(conflict.severity, conflict.message, place, part=part, safe=False, why=conflict.why)

    return drafts


_SET = "set "


def _part(path: str, value: object) -> str:
    return f"{_SET}{path} {json.dumps(value)}"


def replacements(parts: frozenset[str]) -> dict[str, object]:
    """Which settings the parts of a fix give another value, each once."""
    found: dict[str, object] = {}
    for part in sorted(parts):
        if part.startswith(_SET):
            path, _, value = part.removeprefix(_SET).partition(" ")
            found.setdefault(path, json.loads(value))
    return found


def judged(settings: Mapping[str, Known], target: str, *, complete: frozenset[str], name: str = "") -> Case | None:
    """A traced recipe as a case; None where nothing says whether FSDP is on."""
    defaults = {path: Known(False) for path in _FLAGS[:1] if path.partition(".")[0] in complete}
    fsdp = effective_flag({**defaults, **settings})
    flags = [settings[path].place for path in _FLAGS if path in settings]
    anchor = next((place for place in flags if place is not None), Place(1, 1, 1, 1))
    if fsdp is None:
        return None
    return Case("traced", name, config=Config(fsdp, anchor, settings, target, complete, True, name))


def effective_flag(settings: Mapping[str, Known]) -> bool | None:
    """Whether FSDP is on, as old Bridge decided it: one of the two flags is enough. None: it cannot be told."""
    flags = [settings[path].value if path in settings else None for path in _FLAGS]
    if True in flags:
        return True
    return False if False in flags and UNKNOWN not in flags else None


_FLAGS = (f"{NEW_SECTION}.{FLAG}", f"{OLD_SECTION}.{FLAG}")


# ── Examples: one config, in every language ─────────────────────────────────────────────────────────────────────────

_LANGUAGES = ("python", "yaml", "shell")
_COMPLETE = {f"{NEW_SECTION}.{FLAG}": True, **COMPANIONS}


def _whole(values: Mapping[str, object]) -> dict[str, object]:
    """Settings over a config that has FSDP on and all that it needs, unless they say otherwise."""
    return {**_COMPLETE, **values}


def examples(*given: Mapping[str, object], languages: Sequence[str] = _LANGUAGES) -> tuple[Example, ...]:
    """The same settings in every language. Fixes of conflicts are unsafe, so nothing is changed."""
    wholes = [_whole(values) for values in given]
    return tuple(Example(_WRITERS[language](whole), None, language) for whole in wholes for language in languages)


def for_release(target: str, given: Sequence[Example]) -> tuple[Example, ...]:
    """The same examples, for this Bridge release."""
    return tuple(replace(example, target=target) for example in given)


def traced(*given: Mapping[str, object]) -> tuple[Example, ...]:
    """Settings that only a traced recipe has, as JSON: what is not there has its class's default."""
    return tuple(Example(json.dumps(_whole(values)), None, "traced") for values in given)


def _python(settings: Mapping[str, object]) -> str:
    lines = [f"    cfg.{_python_path(path)} = {_quoted(repr(value))}" for path, value in settings.items()]
    return "\n".join(["def recipe():", "    cfg = base()", *lines, "    return cfg", ""])


def _python_path(path: str) -> str:
    section, _, name = path.partition(".")
    return f'env_vars["{name}"]' if section == "env_vars" else path


def _quoted(text: str) -> str:
    return f'"{text[1:-1]}"' if text.startswith("'") else text


def _yaml(settings: Mapping[str, object]) -> str:
    sections: dict[str, list[str]] = {}
    for path, value in settings.items():
        section, _, name = path.partition(".")
        sections.setdefault(section, []).append(f"  {name}: {json.dumps(value)}")
    return "".join(f"{section}:\n" + "\n".join(lines) + "\n" for section, lines in sections.items())


def _shell(settings: Mapping[str, object]) -> str:
    words = [f"{path}={value if isinstance(value, str) else json.dumps(value)}" for path, value in settings.items()]
    return " \\\n  ".join(["torchrun train.py", *words]) + "\n"


_WRITERS: Mapping[str, Callable[[Mapping[str, object]], str]] = {"python": _python, "yaml": _yaml, "shell": _shell}
