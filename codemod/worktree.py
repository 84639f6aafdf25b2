"""What git knows about a working tree: where it starts, which files belong to it, which of them are committed.

Nothing here writes, takes git's locks, or runs a program that the repository's own configuration names.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from threading import Thread

# Variables that tie git to one repository (`git rev-parse --local-env-vars`). A hook inherits them; we name the tree.
_REPOSITORY_VARIABLES = frozenset(
    [
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    ]
)
_CHUNK = 1 << 16
_PATHS_PER_CALL = 200  # far below the shortest argument list a system allows


class GitError(Exception):
    """Git is missing or refused; the text says what it said."""


class NoGitError(GitError):
    """There is no git program."""


class IncompleteError(GitError):
    """Git listed what it could, but could not open `folders` (relative to the root of the working tree)."""

    def __init__(self, folders: list[str]) -> None:
        super().__init__(f"git could not open {', '.join(folders)}")
        self.folders = folders


_NOT_OPENED = re.compile(rb"^warning: could not open directory '(.*?)/?': ", re.MULTILINE)


def toplevel(folder: str) -> str | None:
    """The root of the working tree that holds `folder`, or None outside of every repository."""
    folder = os.path.realpath(folder)
    while True:
        # A submodule or a linked worktree has a file of this name.
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def list_files(top: str, folders: Sequence[str] = ()) -> Iterator[list[str]]:
    """Names below `folders` (relative to `top`, as are the names) that are tracked, or new and not ignored.

    They come in batches while git still looks, so that memory stays flat in any tree. Submodules are left out.

    Raises:
        GitError: git cannot list them.
        IncompleteError: after the last batch, when git could not open a folder.
    """
    command = ["--literal-pathspecs", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *folders]
    with _start(top, command) as git:
        complaints: list[bytes] = []
        assert git.stdout is not None and git.stderr is not None
        drain = Thread(target=lambda stream: complaints.append(stream.read()), args=(git.stderr,), daemon=True)
        drain.start()
        rest = b""
        try:
            while chunk := os.read(git.stdout.fileno(), _CHUNK):
                whole, separator, rest = (rest + chunk).rpartition(b"\0")
                if separator:
                    yield os.fsdecode(whole).split("\0")
        except BaseException:
            git.kill()
            raise
        drain.join()
    if git.returncode:
        raise GitError(_said(complaints[0]))
    if closed := _NOT_OPENED.findall(complaints[0]):
        raise IncompleteError([os.fsdecode(name) for name in closed])


def is_ignored(top: str, path: str) -> bool:
    """Whether git ignores `path` (relative to `top`) itself or a folder above it."""
    try:
        _ask(top, ["check-ignore", "--quiet", "--", os.path.join(".", path)])
    except GitError:
        return False
    return True


def uncommitted(paths: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """What `git checkout` could not bring back: `(path -> reason, paths that no repository holds)`."""
    trees: dict[str, list[str]] = {}
    homeless: list[str] = []
    for path in paths:
        top = toplevel(os.path.dirname(os.path.realpath(path)))
        if top is None:
            homeless.append(path)
        else:
            trees.setdefault(top, []).append(path)
    dirty: dict[str, str] = {}
    for top, members in trees.items():
        for start in range(0, len(members), _PATHS_PER_CALL):
            batch = {_inside(top, path): path for path in members[start : start + _PATHS_PER_CALL]}
            try:
                for name, state in _states(top, list(batch)):
                    dirty[batch[name]] = _REASONS.get(state, "has uncommitted changes")
            except NoGitError:
                homeless += batch.values()
            except GitError as error:
                dirty |= dict.fromkeys(batch.values(), f"git cannot tell whether it is committed ({error})")
    return dirty, homeless


def changed_since_commit(folder: str) -> list[str]:
    """The files of the repository around `folder` that differ from its last commit and are still there."""
    top = toplevel(folder)
    if top is None:
        return []
    try:
        output = _ask(top, ["diff", "--name-only", "-z", "--diff-filter=d", "HEAD", "--"])
    except GitError:
        return []
    return [os.path.join(top, name) for name in os.fsdecode(output).split("\0") if name]


_REASONS = {"??": "is not committed (git does not track it)", "!!": "is not committed (git ignores it)"}


def _inside(top: str, path: str) -> str:
    return os.path.relpath(os.path.realpath(path), top)


def _states(top: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The two-letter state of each of `names` that is not clean."""
    options = ["--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames"]
    output = _ask(top, ["--literal-pathspecs", "status", *options, "--", *names])
    found = {entry[3:].rstrip("/"): entry[:2] for entry in os.fsdecode(output).split("\0") if entry}
    for name in names:
        # An ignored folder, or a new one that is a repository of its own, is listed instead of what is in it.
        listed = name
        while listed and listed not in found:
            listed = os.path.dirname(listed)
        if listed:
            yield name, found[listed]


def _ask(top: str, command: Sequence[str]) -> bytes:
    with _start(top, command) as git:
        output, complaints = git.communicate()
    if git.returncode:
        raise GitError(_said(complaints))
    return output


def _start(top: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
    environment["LC_ALL"] = "C"
    options = ["--no-optional-locks", "-c", "core.fsmonitor=false", "-C", top]
    try:
        return subprocess.Popen(
            ["git", *options, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        raise NoGitError(f"git cannot be run: {error.strerror}") from error


def _said(complaints: bytes) -> str:
    return os.fsdecode(complaints).strip() or "git failed without a message"
