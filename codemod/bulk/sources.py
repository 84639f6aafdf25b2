"""What the plan's entries stand for, and names that hold no secret."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCP = re.compile(r"[^/\\:]{2,}:(?!:)")  # host:path; one letter is a drive
_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")
_USER = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://)[^/\s'\"]*@")
_SCP_PASSWORD = re.compile(r"(?<![^\s'\"])[^\s:@/'\"]+:[^\s@/'\"]+@(?=[^\s:/@]+:)")  # user:password@host:path
_QUERY = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"?#]*)[?#][^\s'\"]*")


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository of a plan.

    `url` is what git is given and may hold credentials; `name` is the same for people, without them. `key` names its
    folders. `folder` is the local repository, absolute. `problem` says why nothing can be done.
    """

    name: str
    url: str
    key: str
    folder: str = ""
    problem: str = ""


def without_credentials(text: str) -> str:
    """Any text with the user and the query of every URL in it left out."""
    return _SCP_PASSWORD.sub("", _QUERY.sub(r"\1", _USER.sub(r"\1", text)))


def repositories(entries: Iterable[str], folder: str) -> tuple[Repository, ...]:
    """The repositories of a plan in `folder`, in the order of its entries; those of a pattern by name.

    An entry is a path, a pattern, ``@FILE`` (entries, one a line, relative to that file) or a URL. One repository under
    several names is done once.
    """
    found: list[Repository] = []
    seen: dict[str, str] = {}
    names: Counter[str] = Counter()
    for repository in _expanded(entries, folder, folder, ()):
        identity = _identity(repository)
        if identity in seen:
            # Every row has a key of its own, also when an entry is written twice.
            key = f"{repository.key}-{names[repository.name] + 1}"
            problem = f"is the same repository as {seen[identity]}: remove one of them"
            repository = replace(repository, key=key, problem=problem)
        else:
            seen[identity] = repository.name
        names[repository.name] += 1
        found.append(repository)
    return tuple(found)


def _expanded(entries: Iterable[str], folder: str, top: str, lists: tuple[str, ...]) -> Iterator[Repository]:
    for entry in entries:
        if entry.startswith("@"):
            path = os.path.realpath(os.path.join(folder, os.path.expanduser(entry[1:])))
            yield from _listed(path, entry, top, lists)
        elif entry.startswith("-") or _HELPER.match(entry):
            yield _made(entry, entry, problem="is no path and no URL of git, ssh, http, https or file: write one")
        elif _SCHEME.match(entry):
            yield _made(entry, entry, folder=_local(entry))
        elif _SCP.match(entry) and not os.path.exists(os.path.join(folder, entry)):
            yield _made(entry, entry)
        else:
            yield from _paths(os.path.join(folder, os.path.expanduser(entry)), top)


def _listed(path: str, entry: str, top: str, lists: tuple[str, ...]) -> Iterator[Repository]:
    if path in lists:
        yield _made(entry, entry, problem="is a list that names itself: remove the entry")
        return
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        yield _made(entry, entry, problem=f"is a list that cannot be read ({error}): repair it")
        return
    entries = [line for line in lines if line and not line.startswith("#")]
    yield from _expanded(entries, os.path.dirname(path), top, (*lists, path))


def _paths(path: str, top: str) -> Iterator[Repository]:
    if not glob.has_magic(path) or os.path.exists(path):
        yield _made(_relative(path, top), path, folder=os.path.realpath(path))
        return
    matches = [match for match in sorted(glob.glob(path, recursive=True)) if os.path.isdir(match)]
    if not matches:
        yield _made(_relative(path, top), path, problem="matches no folder: correct the pattern")
    for match in matches:
        yield _made(_relative(match, top), match, folder=os.path.realpath(match))


def _relative(path: str, top: str) -> str:
    return os.path.relpath(os.path.abspath(path), top).replace(os.sep, "/")


def _local(url: str) -> str:
    parts = urlsplit(url)
    return os.path.realpath(unquote(parts.path)) if parts.scheme == "file" else ""


def _made(name: str, url: str, *, folder: str = "", problem: str = "") -> Repository:
    if folder and not _SCHEME.match(url):
        # Absolute: git runs elsewhere. Not the real path, which a message would show instead of the plan's.
        url = os.path.abspath(url)
    name = without_credentials(name)
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name.rstrip("/").removesuffix(".git").rpartition("/")[2])[:40].strip(".-")
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return Repository(name, url, f"{slug or 'repository'}-{digest}", folder, problem)


def _identity(repository: Repository) -> str:
    """The same for every name of one repository: of a local one, the folder that its linked worktrees share."""
    if not repository.folder:
        return repository.name.rstrip("/").removesuffix(".git")
    git = os.path.join(repository.folder, ".git")
    try:
        if os.path.isfile(git):
            with open(git, encoding="utf-8", errors="surrogateescape") as file:
                git = os.path.join(repository.folder, file.read(4096).partition("gitdir:")[2].strip())
            with open(os.path.join(git, "commondir"), encoding="utf-8", errors="surrogateescape") as file:
                git = os.path.join(git, file.read(4096).strip())
    except OSError:
        pass
    return os.path.realpath(git) if os.path.isdir(git) else repository.folder
