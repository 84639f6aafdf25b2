"""Settings from `fsdp-migrate.toml` and `[tool.fsdp-migrate]` in `pyproject.toml`.

The nearest file above a migrated file holds for it, alone: nothing is merged from further up. In one folder
`fsdp-migrate.toml` wins, and a `pyproject.toml` without the table does not count (both as ruff does). The search ends
at the root of the repository, as black's does: what a clone does must not depend on where it lies.

A settings file is data. It names rules, patterns and words; it cannot run code, name a file to write or refer to
another file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from fsdp_migrate.upstream import SECTIONS, TARGETS

if TYPE_CHECKING:
    from fsdp_migrate.api import Options

FILE, PYPROJECT, TABLE = "fsdp-migrate.toml", "pyproject.toml", "tool.fsdp-migrate"
_LARGEST = 1 << 20  # bytes


class SettingsError(ValueError):
    """A settings file is wrong; the message says where and what to write instead."""


@dataclass(frozen=True)
class Settings:
    """What one file, or the command line, says. `folder` is what its patterns are relative to."""

    values: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    def get(self, key: str) -> Any:
        return self.values.get(key, DEFAULTS[key])

    def over(self, below: Settings) -> Settings:
        """These settings, and below them others where these say nothing."""
        folder = below.folder if below.folder and not self.folder else self.folder
        return Settings({**below.values, **self.values}, {**below.origins, **self.origins}, folder)


# ── Keys ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _strings(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise TypeError("a list of strings")


def _codes(value: object) -> tuple[str, ...]:
    prefixes = tuple(word.upper() for word in _strings(value))
    for prefix in prefixes:
        check_code(prefix)
    return prefixes


def _target(value: object) -> str:
    if value in TARGETS:
        return str(value)
    raise TypeError(f"one of {', '.join(map(repr, TARGETS))}")


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError("true or false")


def _per_file(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if isinstance(value, dict) and not any(pattern.startswith("!") for pattern in value):
        with suppress(TypeError):
            return tuple((pattern, _codes(codes)) for pattern, codes in value.items())
    raise TypeError('a table of .gitignore patterns (none begins with "!") with lists of codes')


def _names(value: object) -> tuple[str, ...]:
    names = _strings(value)
    if all(re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)*", name) for name in names):
        return names
    raise TypeError('a list of names, such as "policy.megatron_cfg"')


def _sections(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if isinstance(value, dict) and set(value) <= set(SECTIONS):
        with suppress(TypeError):
            found = tuple((section, _names(names)) for section, names in value.items())
            if not any("." in name or name in SECTIONS for _, names in found for name in names):
                return found
    raise TypeError(f"a table of {', '.join(SECTIONS)} with lists of other, plain names for them")


KEYS: Mapping[str, Callable[[object], Any]] = {
    "select": _codes,
    "extend-select": _codes,
    "ignore": _codes,
    "per-file-ignores": _per_file,
    "exclude": _strings,
    "include": _strings,
    "target": _target,
    "unsafe-fixes": _flag,
    "root-names": _names,
    "section-names": _sections,
}
DEFAULTS: Mapping[str, Any] = dict.fromkeys(KEYS, ()) | {"target": "", "unsafe-fixes": False}


def check_code(prefix: str) -> None:
    """Demand that a rule's code begins like this.

    Raises:
        SettingsError: none does.
    """
    from fsdp_migrate.registry import codes

    if not prefix or not any(code.startswith(prefix) for code in codes()):
        near = _near(prefix, codes())
        raise SettingsError(f"no rule code begins with {prefix!r}: {near or '`fsdp-migrate rules` lists them all'}")


def _near(word: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else ""


# ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_file(path: str) -> Settings | None:
    """The settings of one file; None if it has none (no such file, or no table of ours).

    Raises:
        SettingsError: it cannot be read, is no TOML, or says something that this tool does not know.
    """
    data = _bytes(path)
    if data is None or (os.path.basename(path) == PYPROJECT and b"fsdp-migrate" not in data):
        return None
    import tomllib

    shown = _shown(path)
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        table: Any = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{shown}: is not valid TOML: {error}") from None
    header = ""
    if os.path.basename(path) == PYPROJECT:
        for part in TABLE.split("."):
            table = table.get(part) if isinstance(table, dict) else None
            if table is None:
                return None
        header = TABLE
    return of_table(table, lambda key: f"{shown}:{_line(text, header, key)}", os.path.dirname(os.path.abspath(path)))


def _bytes(path: str) -> bytes | None:
    try:
        # Not blocking, or a named pipe would wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(
            f"{_shown(path)}: cannot be read ({error.strerror}): repair it, or use --isolated"
        ) from None
    try:
        return os.read(descriptor, _LARGEST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def _shown(path: str) -> str:
    whole = os.path.abspath(path)
    return os.path.relpath(whole) if whole.startswith(os.path.join(os.getcwd(), "")) else whole


def _line(text: str, header: str, key: str) -> int:
    """The line, counted from 1, on which a key stands, else that of its table. `tomllib` does not tell."""
    start = 0
    if header:
        dotted = r"[ \t]*\.[ \t]*".join(f"[\"']?{re.escape(part)}[\"']?" for part in header.split("."))
        found = re.search(rf"^[ \t]*\[[ \t]*{dotted}[ \t]*[\].]", text, re.MULTILINE)
        start = found.start() if found else 0
    own = re.compile(rf"^[ \t]*(?:\[[^\]\n]*\.?)?[\"']?{re.escape(key)}[\"']?[ \t]*[\]=.]", re.MULTILINE).search(
        text, start
    )
    return text.count("\n", 0, own.start() if own and key else start) + 1


def of_table(table: object, where: Callable[[str], str], folder: str) -> Settings:
    """The settings of a parsed table; `where` says where a key stands.

    Raises:
        SettingsError: it says something that this tool does not know.
    """
    if not isinstance(table, dict):
        raise SettingsError(f"{where('')}: {TABLE} must be a table: write [{TABLE}]")
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in KEYS:
            near = _near(key, list(KEYS)) or f"the keys are {', '.join(KEYS)}"
            raise SettingsError(f"{where(key)}: there is no setting {key!r}: {near}")
        try:
            values[key] = KEYS[key](value)
        except TypeError as error:
            raise SettingsError(f"{where(key)}: {key} must be {error}") from None
        except SettingsError as error:
            raise SettingsError(f"{where(key)}: {error}") from None
    return Settings(values, {key: where(key) for key in values}, folder)


def nearest(folder: str) -> Settings:
    """The settings that hold for the files in a folder (absolute); empty if no file says anything.

    Raises:
        SettingsError: the nearest file is wrong.
    """
    found = _nearest(folder)
    if isinstance(found, SettingsError):
        raise found
    return found


@cache
def _nearest(folder: str) -> Settings | SettingsError:
    try:
        for name in (FILE, PYPROJECT):
            found = read_file(os.path.join(folder, name))
            if found is not None:
                return found
    except SettingsError as error:
        return error
    above = os.path.dirname(folder)
    if above == folder or os.path.lexists(os.path.join(folder, ".git")):
        return Settings()
    return _nearest(above)


def forget() -> None:
    """Read the files again when they are asked for: for servers, in which files change."""
    _nearest.cache_clear()


# ── What holds for a file ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Chosen:
    """What the caller chose: settings that beat every file, and where to look for files.

    `file` is used for everything instead of a search, with patterns relative to the working directory. `add_ignores` is
    no setting: it is handed on. Picklable.
    """

    given: Settings = Settings()
    file: str = ""
    isolated: bool = False
    add_ignores: bool = False

    def settings(self, path: str) -> Settings:
        """What holds for one file or folder, with where each value comes from.

        Raises:
            SettingsError: a settings file is wrong.
        """
        below = self.below(os.path.abspath(path) if os.path.isdir(path) else _folder_of(path))
        return _layered(self.given, below)

    def below(self, folder: str) -> Settings:
        """What the files say for those in a folder (absolute)."""
        if self.isolated:
            return Settings()
        return _explicit(self.file) if self.file else nearest(folder)

    def options(self, path: str) -> Options:
        """What a run over one file does.

        Raises:
            SettingsError: a settings file is wrong.
        """
        from fsdp_migrate.api import Options

        below = self.below(_folder_of(path))
        settings = _layered(self.given, below)
        chosen = _enabled(self.given, below)
        name = os.path.abspath(path)
        for (pattern, codes), folder in _per_file_ignores(self.given, below):
            if spec(folder, (pattern,))(name):
                chosen = _without(chosen, codes)
        return Options(
            select=tuple(sorted(chosen)),
            ignore=() if chosen else ("FSDP",),
            unsafe=settings.get("unsafe-fixes"),
            target=settings.get("target"),
            root_names=settings.get("root-names"),
            section_names=settings.get("section-names"),
            add_ignores=self.add_ignores,
        )

    def left_out(self) -> Callable[[str], str]:
        """A function that says which setting leaves a file out; an empty string: none. It raises `SettingsError`."""
        by_folder: dict[str, list[tuple[Callable[[str], bool], bool, str]]] = {}

        def why(path: str) -> str:
            folder = path[: path.rfind(os.sep) + 1]
            checks = by_folder.get(folder)
            if checks is None:
                checks = by_folder[folder] = list(self._checks(os.path.abspath(folder)))
            for matches, wanted, reason in checks:
                if matches(os.path.abspath(path)) is not wanted:
                    return reason
            return ""

        return why

    def _checks(self, folder: str) -> Iterator[tuple[Callable[[str], bool], bool, str]]:
        below = self.below(folder)
        for key, wanted in (("exclude", False), ("include", True)):
            settings = self.given if key in self.given.values else below
            if patterns := settings.get(key):
                yield spec(settings.folder or os.getcwd(), patterns), wanted, f"{key}, {settings.origins[key]}"


def _folder_of(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


@cache
def _explicit(path: str) -> Settings:
    found = read_file(path)
    if found is None:
        wanted = f"a [{TABLE}] table" if os.path.basename(path) == PYPROJECT else "a file"
        raise SettingsError(f"--config {path}: there is no such settings file: name {wanted}")
    return Settings(found.values, found.origins, os.getcwd())


_CODES = ("select", "extend-select", "ignore")


def _layered(given: Settings, below: Settings) -> Settings:
    if "select" in given.values:
        # A selection on the command line starts afresh.
        kept = {key: value for key, value in below.values.items() if key not in _CODES}
        below = Settings(kept, {key: below.origins[key] for key in kept}, below.folder)
    merged = given.over(below)
    values = dict(merged.values)
    origins = dict(merged.origins)
    for key in ("extend-select", "ignore", "per-file-ignores"):
        if key in given.values and key in below.values:
            values[key] = (*below.values[key], *given.values[key])
            origins[key] = f"{below.origins[key]}, {given.origins[key]}"
    return Settings(values, origins, merged.folder)


def _enabled(given: Settings, below: Settings) -> frozenset[str]:
    """The command line adds to, and takes from, what the files select."""
    from fsdp_migrate.registry import enabled

    if "select" in given.values:
        return enabled((*given.get("select"), *given.get("extend-select")), given.get("ignore"))
    chosen = enabled(below.get("select"), ())
    for settings in (below, given):
        if more := settings.get("extend-select"):
            chosen |= enabled(more, ())
        chosen = _without(chosen, settings.get("ignore"))
    return chosen


def _without(codes: frozenset[str], prefixes: tuple[str, ...]) -> frozenset[str]:
    return frozenset(code for code in codes if not (prefixes and code.startswith(prefixes)))


def _per_file_ignores(given: Settings, below: Settings) -> Iterator[tuple[tuple[str, tuple[str, ...]], str]]:
    for settings in (below, given):
        for entry in settings.get("per-file-ignores"):
            yield entry, settings.folder or os.getcwd()


@cache
def spec(folder: str, patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a file (absolute) below `folder` matches one of these gitignore patterns; a file elsewhere never does."""
    from fsdp_migrate.discover import compiled

    matcher = compiled(patterns)
    begin = os.path.join(folder, "")

    def matches(path: str) -> bool:
        return path.startswith(begin) and matcher.match_file(path[len(begin) :].replace(os.sep, "/"))

    return matches


# ── The command line ────────────────────────────────────────────────────────────────────────────────────────────────


def checked(values: Mapping[str, Any], where: str) -> Settings:
    """Settings from somewhere else; `where` is what an error calls it.

    Raises:
        SettingsError: one of them is none.
    """
    return of_table(dict(values), lambda key: where, "")


def inline(text: str) -> Settings:
    """The settings of ``--config 'key = value'``.

    Raises:
        SettingsError: it is no TOML, or no setting.
    """
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"--config {text!r}: is neither a file nor TOML ({error}): write 'key = value'") from None
    return of_table(table, lambda key: f"--config {text!r}", "")


def listing(settings: Settings) -> Iterator[str]:
    """The settings as TOML, one a line, each with where it comes from."""
    for key in KEYS:
        yield f"{key} = {_toml(settings.get(key), key)}  # {settings.origins.get(key, 'default')}\n"


def _toml(value: object, key: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    assert isinstance(value, tuple)
    if key in ("per-file-ignores", "section-names"):
        return "{" + ", ".join(f"{_quoted(name)} = {_toml(items, '')}" for name, items in value) + "}"
    return "[" + ", ".join(map(_quoted, value)) + "]"


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
