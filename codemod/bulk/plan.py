"""The plan: a TOML file that says which repositories, what is done and what happens at the end. Only read here."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from fsdp_migrate import __version__
from fsdp_migrate.bulk.sources import Repository, repositories
from fsdp_migrate.settings import Settings, SettingsError, of_table

VERIFY, TRAIN_CHECK = "--verify", "--train-check"
PLACEHOLDERS = ("branch", "base", "title", "message", "repository", "files")
_AUTHOR = re.compile(r"[^<>\n]*[^<>\s][^<>\n]* <[^<>\s]+>")
_NOT_IN_A_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/.]|/\.|[/.]$|\.lock(?:/|$)|^@$")

Command = str | tuple[str, ...]  # a line for the shell, or words


class PlanError(ValueError):
    """The plan is wrong; the message says where and what to write instead."""


@dataclass(frozen=True)
class Plan:
    """What the file says. Times are in seconds, sizes in megabytes.

    `at_end` is "nothing", "push", or the words of a command that opens a pull request, with `PLACEHOLDERS` in braces.
    """

    path: str
    repositories: tuple[Repository, ...]
    branch: str
    message: str
    author: str
    base: str = ""
    options: Settings = field(default_factory=Settings)
    isolated: bool = False
    checks: tuple[Command, ...] = ()
    at_end: str | tuple[str, ...] = "nothing"
    check_timeout: float = 900.0
    timeout: float = 3600.0
    max_megabytes: int = 4096

    @property
    def work_folder(self) -> str:
        """Where everything is kept: beside the plan, named after it."""
        return os.path.splitext(self.path)[0] + ".bulk"

    def fingerprint(self, *, preview: bool) -> str:
        """Changes when a repository at the same commit could come out differently."""
        from fsdp_migrate.registry import rules

        rule_set = [(rule.code, rule.summary) for rule in rules()]
        said = [self.base, sorted(self.options.values.items()), self.isolated, self.max_megabytes]
        if not preview:
            said += [self.branch, self.message, self.author, self.checks]
        return hashlib.sha256(json.dumps([__version__, rule_set, said], default=str).encode()).hexdigest()[:32]


def read(path: str) -> Plan:
    """Read a plan.

    Raises:
        PlanError: it cannot be read, or says something that makes no plan.
    """
    import tomllib

    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
        table = tomllib.loads(text)
    except OSError as error:
        raise PlanError(f"{path}: cannot be read ({error.strerror}): name a plan, a TOML file") from None
    except ValueError as error:
        raise PlanError(f"{path}: is not valid TOML: {error}") from None
    return _plan(table, os.path.abspath(path), lambda key: f"{path}:{_line(text, key)}")


def _line(text: str, key: str) -> int:
    found = re.search(rf"^[ \t]*\[?[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*[\]=.]", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _text(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise TypeError("a string that is not empty")


def _branch(value: object) -> str:
    name = _text(value)
    if _NOT_IN_A_BRANCH.search(name):
        raise TypeError("a name that git allows for a branch, like fsdp-migrate/0.6")
    return name


def _author(value: object) -> str:
    if isinstance(value, str) and _AUTHOR.fullmatch(value):
        return value
    raise TypeError('"Name <address>"')


def _entries(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and value and all(isinstance(item, str) and item.strip() for item in value):
        return tuple(value)
    raise TypeError("a list of paths, patterns, @files and URLs")


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value) and value[0]:
        return tuple(value)
    raise TypeError("a command: a string, or a list of words")


def _checks(value: object) -> tuple[Command, ...]:
    if not isinstance(value, list):
        raise TypeError("a list of commands, each a string or a list of words")
    checks = tuple(_text(item) if isinstance(item, str) else _words(item) for item in value)
    for check in checks:
        if isinstance(check, str) and check.startswith("-") and check not in (VERIFY, TRAIN_CHECK):
            raise TypeError(f"commands, {VERIFY} or {TRAIN_CHECK}; {check!r} is none")
    return checks


def _at_end(value: object) -> str | tuple[str, ...]:
    if value in ("nothing", "push"):
        return str(value)
    words = tuple(shlex.split(value)) if isinstance(value, str) else _words(value)
    if len(words) < 2:
        raise TypeError('"nothing", "push", or a command that opens a pull request')
    try:
        filled(words, dict.fromkeys(PLACEHOLDERS, ""))
    except (KeyError, IndexError, ValueError) as error:
        names = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise TypeError(f"a command with no other placeholders than {names} (not {error})") from None
    return words


def filled(words: tuple[str, ...], values: Mapping[str, str]) -> list[str]:
    """A command template with its placeholders filled in. Every word stays one word."""
    return [word.format_map(values) for word in words]


def _seconds(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise TypeError("a number above 0")


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise TypeError("a whole number above 0")


_KEYS: Mapping[str, Callable[[object], Any]] = {
    "repositories": _entries,
    "branch": _branch,
    "message": _text,
    "author": _author,
    "base": _branch,
    "checks": _checks,
    "at-end": _at_end,
    "check-timeout": _seconds,
    "timeout": _seconds,
    "max-megabytes": _whole,
}
_NEEDED = ("repositories", "branch", "message", "author")


def _plan(table: Mapping[str, Any], path: str, where: Callable[[str], str]) -> Plan:
    known = [*_KEYS, "options"]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key == "options":
            continue
        if key not in _KEYS:
            near = get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(known)}"
            raise PlanError(f"{where(key)}: a plan has no {key!r}: {hint}")
        try:
            values[key.replace("-", "_")] = _KEYS[key](value)
        except TypeError as error:
            raise PlanError(f"{where(key)}: {key} must be {error}") from None
    for key in _NEEDED:
        if key not in table:
            raise PlanError(f"{where('')}: a plan needs {key!r}: add it")
    options = table.get("options", {})
    if isinstance(options, dict) and "isolated" in options:
        options = dict(options)
        if not isinstance(values.setdefault("isolated", options.pop("isolated")), bool):
            raise PlanError(f"{where('isolated')}: isolated must be true or false")
    try:
        # Patterns are relative to each repository.
        options = of_table(options, where, "")
    except SettingsError as error:
        raise PlanError(str(error)) from None
    if values["branch"] == values.get("base"):
        raise PlanError(f"{where('branch')}: branch and base are the same: name a new branch")
    values["repositories"] = repositories(values["repositories"], os.path.dirname(path))
    return Plan(path=path, options=options, **values)
