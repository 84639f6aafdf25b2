"""From the paths on the command line to the files to look at, and from a file to its bytes.

A folder inside a git repository is listed by git: what is tracked, or new and not ignored. Elsewhere a walk honours
`.gitignore` files itself. A path that was named is always looked at. Nothing here raises for a bad path: it becomes a
`Problem`, and the rest goes on.

Paths are strings: a tree has 100,000 of them, and a `Path` for each costs more than reading the file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fsdp_migrate import worktree

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# Every kind of file: the suffix of its name, and the language inside. One line each.
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".sh": "shell",
    ".bash": "shell",
    ".zsh": "shell",
    ".sbatch": "shell",
    ".slurm": "shell",
    ".md": "markdown",
    ".mdx": "markdown",
    ".markdown": "markdown",
    ".rst": "rest",
    ".ipynb": "notebook",
    ".json": "json",
    ".jsonc": "json",
    ".toml": "toml",
}
# Files without a suffix are of the kind that their first line names.
INTERPRETERS = {
    b"python": "python",
    b"sh": "shell",
    b"bash": "shell",
    b"dash": "shell",
    b"ksh": "shell",
    b"zsh": "shell",
}
SUFFIXES = tuple(LANGUAGES)

# Folders of code that somebody else owns or that a tool wrote. Named on the command line they count.
FOREIGN = frozenset(
    [
        "site-packages",
        "dist-packages",
        "node_modules",
        "__pycache__",
        ".eggs",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
    ]
)
_FOREIGN_IN_PATH = re.compile(rf"(?:^|/)(?:{'|'.join(map(re.escape, sorted(FOREIGN)))})/")

# What a release has frozen is history: the old spelling was right when it was written.
_FROZEN = re.compile(r"(?:^|/)versions/v?\d+(?:\.\d+)+/|(?:^|/)CHANGELOG[^/]*$", re.IGNORECASE)
GENERATED = b"@generated"

BACKUP = ".fsdp-migrate-backup"  # what `write` calls the copy of a file that it writes in place
SIZE_LIMIT = 16 << 20  # bytes; the parser needs some 100 times as much
_READ = 1 << 16  # A larger buffer costs a memory mapping per file.


class File(NamedTuple):
    """A file to look at. A tuple, because a tree has 100,000 of them. Without a suffix `language` is empty."""

    path: str
    language: str
    named: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that could not be looked at, and what to do about it."""

    path: str
    message: str


def language_of(path: str) -> str:
    """The language inside a file, told by the suffix of its name; empty where only its first line can tell."""
    return LANGUAGES.get(path[path.rfind(".") :], "")


def kind_of(path: str, data: bytes) -> str:
    """What kind of file this is, by its name, else by its first line; empty if no one knows."""
    return LANGUAGES.get(os.path.splitext(path)[1].lower(), "") or language_of_script(data)


def language_of_script(data: bytes) -> str:
    """The language that a `#!` line names, or an empty string."""
    if not data.startswith(b"#!"):
        return ""
    first_line = data[:256].split(b"\n", 1)[0]
    for word in reversed(re.split(rb"[\s/]+", first_line[2:])):
        for interpreter, language in INTERPRETERS.items():
            if re.fullmatch(re.escape(interpreter) + rb"[\d.]*", word):
                return language
    return ""


def frozen_reason(path: str, data: bytes) -> str:
    """Why a file is reported but not edited, or an empty string."""
    if _FROZEN.search(path.replace(os.sep, "/")):
        return "it describes a past release, where the old spelling was right"
    if GENERATED in data[:1024]:
        return "it is marked @generated; change what generates it"
    return ""


def read(path: str, is_wanted: Callable[[bytes], bool]) -> bytes | None:
    """The bytes of a regular file that `is_wanted`, in three system calls for most files.

    `is_wanted` sees a file above `SIZE_LIMIT` in pieces.

    Raises:
        OSError: the file cannot be read, is a symbolic link, or is wanted but too large; `strerror` says which.
    """
    # Not blocking, or a named pipe would wait for a writer for ever.
    descriptor = os.open(path, _READ_ONLY)
    try:
        data = os.read(descriptor, _READ)
        if len(data) < _READ:
            if data:
                return data if is_wanted(data) else None
            _demand_regular(descriptor, path)
            return None
        size = _demand_regular(descriptor, path)
        if size <= SIZE_LIMIT:
            pieces = [data]
            while piece := os.read(descriptor, SIZE_LIMIT):
                pieces.append(piece)
            data = b"".join(pieces)
            return data if is_wanted(data) else None
        while True:
            if is_wanted(data):
                raise OSError(0, f"is larger than {SIZE_LIMIT >> 20} MiB: split it, or migrate it by hand", path)
            piece = os.read(descriptor, 1 << 20)
            if not piece:
                return None
            data = data[-256:] + piece
    finally:
        os.close(descriptor)


# O_NOFOLLOW and O_NONBLOCK do not exist everywhere.
_READ_ONLY = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def _demand_regular(descriptor: int, path: str) -> int:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(0, "is a folder", path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "is not a regular file: exclude it", path)
    return status.st_size


Skip = Callable[[str, str], object]


def discover(
    paths: Sequence[str], *, exclude: Sequence[str] = (), include: Sequence[str] = (), skip: Skip | None = None
) -> Iterator[File | Problem]:
    """The files to look at, in no particular order; a file may come twice when `paths` overlap.

    Below folders, `exclude` leaves out what matches one of these gitignore patterns (relative to the working
    directory), and `include` leaves out what matches none. `skip` is told each folder (with a slash at its end) or file
    that is left out, and why.
    """
    folders: list[str] = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError as error:
            yield Problem(path, explain(path, error))
            continue
        if stat.S_ISDIR(status.st_mode):
            folders.append(path)
        elif stat.S_ISREG(status.st_mode):
            yield File(_display(path), language_of(path), named=True)
        else:
            yield Problem(path, "is not a regular file: leave it out")
    is_included = _filter(exclude, include)
    for top, members in _by_tree(folders).items():
        if top is None:
            for folder in members:
                yield from _walk(folder, is_included, skip)
        else:
            yield from _list(top, members, is_included, skip)


def real_folders(paths: Iterable[str]) -> tuple[str, ...]:
    """The real paths of the folders among `paths`, each with a separator at its end."""
    return tuple(os.path.join(os.path.realpath(path), "") for path in paths if os.path.isdir(path))


def follow(link: str, folders: tuple[str, ...]) -> tuple[str, str] | Problem | None:
    """What a symbolic link that was found below `folders` (as `real_folders` gives them) stands for.

    `(target, why it is reported but not edited)`, or None where there is nothing to say: the link leads to a folder, or
    to a file that is found by itself.
    """
    target = os.path.realpath(link)
    if os.path.isdir(target):
        return None
    if not os.path.isfile(target):
        return Problem(link, "is a broken symbolic link: repair or exclude it")
    reason = outside(target, folders)
    return (target, reason) if reason else None


def outside(real: str, folders: tuple[str, ...]) -> str:
    """Why a file that was found below `folders`, but is not in them, is not edited; empty if it is in them."""
    if real.startswith(folders):
        return ""
    return f"a symbolic link leads to it: {real} is outside of the given paths; name it to migrate it"


def explain(path: str, error: OSError) -> str:
    """Why a file cannot be looked at, and what to do."""
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):
            return "is a broken symbolic link: repair or exclude it"
        return "does not exist: check the spelling"
    if isinstance(error, PermissionError):
        return _CLOSED
    if error.errno == 0:
        return str(error.strerror)
    return f"cannot be read ({error.strerror or error}): repair or exclude it"


_BACKUP_LEFT = (
    "holds what a file was before a run that wrote it in place was killed: keep the right content in the file, delete "
    "this copy, and run again"
)
_CLOSED = "cannot be read (permission denied): change its permissions or exclude it"


def _display(path: str) -> str:
    """As it is shown: relative when it is below the working directory."""
    here = os.getcwd()
    whole = os.path.normpath(os.path.join(here, path))
    below = whole.removeprefix(here.rstrip(os.sep) + os.sep)
    if below != whole:
        return below
    return "." if whole == here else os.path.normpath(path)


def _by_tree(folders: Iterable[str]) -> dict[str | None, list[str]]:
    """Folders by the working tree that git can list them in; None where it cannot, or ignores them."""
    trees: dict[str | None, list[str]] = {}
    for folder in folders:
        top = worktree.toplevel(folder)
        if top is not None:
            real = os.path.realpath(folder)
            inside = os.path.relpath(real, top)
            if inside.startswith(".git" + os.sep) or (inside != "." and worktree.is_ignored(top, inside)):
                top = None
        trees.setdefault(top, []).append(folder)
    return trees


_EXCLUDED = "--exclude or --include leaves it out"
_IGNORED = "a .gitignore file says so"
_OF_OTHERS = "others own what is in it, or a tool wrote it: name it to migrate it"


def _list(
    top: str, folders: Sequence[str], is_included: Callable[[str], bool] | None, skip: Skip | None
) -> Iterator[File | Problem]:
    """Files that git knows below `folders`, all of them in the working tree `top`."""
    # How a name that git prints, relative to `top`, begins, and how the path that we show begins.
    begins: dict[str, str] = {}
    for folder in folders:
        inside = os.path.relpath(os.path.realpath(folder), top)
        shown = _display(folder)
        begins.setdefault("" if inside == "." else inside + "/", "" if shown == "." else os.path.join(shown, ""))
    try:
        for names in worktree.list_files(top, [inside or "." for inside in begins]):
            for inside, shown in begins.items():
                for name in names:
                    if not name.startswith(inside):
                        continue
                    below = name[len(inside) :]
                    if below.startswith("/") or (".." in below and ".." in below.split("/")):
                        continue  # no git wrote this into its index
                    if below.endswith(SUFFIXES):
                        language = language_of(below)
                    elif "." not in below[below.rfind("/") + 1 :]:
                        language = ""
                    else:
                        if below.endswith(BACKUP):
                            yield Problem(shown + below, _BACKUP_LEFT)
                        continue
                    if foreign := _FOREIGN_IN_PATH.search(below):
                        if skip is not None:
                            skip(shown + below[: foreign.end()], _OF_OTHERS)
                        continue
                    path = shown + below
                    if is_included is None or is_included(path):
                        yield File(path, language)
                    elif skip is not None:
                        skip(path, _EXCLUDED)
        if skip is not None:
            for name, reason in worktree.left_out(top, [inside or "." for inside in begins]):
                if name.endswith(("/", *SUFFIXES)):
                    skip(_display(os.path.join(top, name)) + "/" * name.endswith("/"), reason)
    except worktree.IncompleteError as error:
        for name in error.folders:
            yield Problem(_display(os.path.join(top, name)), _CLOSED)
    except worktree.GitError:
        # No git program, or a tree that git does not trust: its ignore files still say what belongs to it.
        for folder in folders:
            yield from _walk(folder, is_included, skip)


def _walk(folder: str, is_included: Callable[[str], bool] | None, skip: Skip | None) -> Iterator[File | Problem]:
    """Files below a folder, honouring the `.gitignore` files in it. Symbolic links to folders are not followed."""
    shown = _display(folder)
    # Per folder to visit: its path, and the ignore files that hold there with the length of their folder's path.
    waiting: list[tuple[str, tuple[tuple[int, GitIgnoreSpec], ...]]] = [("" if shown == "." else shown, ())]
    while waiting:
        folder, ignores = waiting.pop()
        begin = os.path.join(folder, "") if folder else ""
        try:
            with os.scandir(folder or ".") as scan:
                entries = list(scan)
        except OSError as error:
            yield Problem(folder or ".", explain(folder, error))
            continue
        if any(entry.name == ".gitignore" for entry in entries):
            spec = _ignore_file(begin + ".gitignore")
            if spec is not None:
                ignores = (*ignores, (len(begin), spec))
        for entry in entries:
            name = entry.name
            path = begin + name
            if entry.is_dir(follow_symlinks=False):
                if name in FOREIGN or _is_ignored(path + "/", ignores):
                    if skip is not None:
                        skip(path + "/", _OF_OTHERS if name in FOREIGN else _IGNORED)
                else:
                    waiting.append((path, ignores))
            elif name.endswith(BACKUP):
                yield Problem(path, _BACKUP_LEFT)
            elif name.endswith(SUFFIXES) or "." not in name:
                if _is_ignored(path, ignores) or not (is_included is None or is_included(path)):
                    if skip is not None:
                        skip(path, _IGNORED if _is_ignored(path, ignores) else _EXCLUDED)
                elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    yield File(path, language_of(name))
                elif name.endswith(SUFFIXES):
                    yield Problem(path, "is not a regular file: exclude it")


def _ignore_file(path: str) -> GitIgnoreSpec | None:
    try:
        # As other files are read: it may be a named pipe, or endless.
        data = read(path, bool)
    except OSError:
        return None
    return compiled(os.fsdecode(data).splitlines()) if data else None


def compiled(patterns: Iterable[str]) -> GitIgnoreSpec:
    """`.gitignore` patterns, made such that none takes the power of its stars: they may come from the tree."""
    # Only here: most runs need none of it.
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(patterns)
    for pattern in spec.patterns:
        regex = getattr(pattern, "regex", None)
        if regex is not None and regex.pattern.count(_STAR) + regex.pattern.count(".+") > 2:
            pattern.regex = _quick(regex.pattern)
    return spec


# What pathspec makes of a star, and of what may stand between two stars.
_STAR = "[^/]*"
_STARS = re.compile(r"(?:\[\^/\]\*)+")
_BETWEEN = re.compile(r"\[\^/\]\*((?:\\.|\[(?:\\.|[^\]\\])+\](?!\*)|[^\\\[\](){}*+?|^$./])+)(?=\[\^/\]\*)")
_MOST_LEVELS = 4


def _quick(regex: str) -> re.Pattern[str]:
    """The same pattern without going back: where a star follows, the first place that fits is as good as any other."""
    if regex.count(".+") > _MOST_LEVELS:
        return re.compile("(?!)")  # `**/` that often is no pattern that anybody needs
    return re.compile(_BETWEEN.sub(r"(?>[^/]*?\1)", _STARS.sub(lambda _: _STAR, regex)))


def _is_ignored(path: str, ignores: Sequence[tuple[int, GitIgnoreSpec]]) -> bool:
    for start, spec in reversed(ignores):
        included = spec.check_file(path[start:].replace(os.sep, "/")).include
        if included is not None:
            return included
    return False


def _filter(exclude: Sequence[str], include: Sequence[str]) -> Callable[[str], bool] | None:
    if not exclude and not include:
        return None
    without, only = compiled(exclude), compiled(include) if include else None

    def is_included(path: str) -> bool:
        inside = path.replace(os.sep, "/").lstrip("/")
        while inside.startswith("../"):
            inside = inside[3:]
        return not without.match_file(inside) and (only is None or only.match_file(inside))

    return is_included
