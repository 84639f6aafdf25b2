"""What git knows about a working tree: where it starts, which files belong to it, which of them are committed.

Nothing here writes, takes git's locks, or runs a program that the repository's own configuration names: no monitor,
hook or filter, and nothing is fetched, because the way to fetch is a program too.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from threading import Thread

# Variables that tie git to one repository (`git rev-parse --local-env-vars`). A hook inherits them; we name the tree.
REPOSITORY_VARIABLES = frozenset(
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
# Git asks nobody and brings nothing: a missing object would be fetched by what the repository calls its ssh.
_ALONE = {"LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
_OPTIONS = [
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    # A folder that a tree was made to look like a repository is none.
    *("-c", "safe.bareRepository=explicit"),
]
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


def left_out(top: str, folders: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """What `list_files` leaves out below `folders`, with the reason. A folder ends in a slash and stands for all in it.

    Raises:
        GitError: git cannot list it.
    """
    begin = ["--literal-pathspecs", "ls-files", "-z"]
    ignored = _ask(top, [*begin, "--others", "--ignored", "--exclude-standard", "--directory", "--", *folders])
    yield from ((name, "git ignores it") for name in os.fsdecode(ignored).split("\0") if name)
    for entry in os.fsdecode(_ask(top, [*begin, "--stage", "--", *folders])).split("\0"):
        if entry.startswith("160000 "):
            yield entry.partition("\t")[2] + "/", "it is a submodule: name it to migrate it"


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
        options: list[str] | None = None
        for start in range(0, len(members), _PATHS_PER_CALL):
            batch = {_inside(top, path): path for path in members[start : start + _PATHS_PER_CALL]}
            try:
                options = _without_filters(top) if options is None else options
                for name, state in _states(top, list(batch), options):
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
        options = ["--name-only", "-z", "--diff-filter=d", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"]
        output = _ask(top, [*_without_filters(top), "diff", *options, "HEAD", "--"])
    except GitError:
        return []
    return [os.path.join(top, name) for name in os.fsdecode(output).split("\0") if name]


_REASONS = {"??": "is not committed (git does not track it)", "!!": "is not committed (git ignores it)"}


def _inside(top: str, path: str) -> str:
    return os.path.relpath(os.path.realpath(path), top)


def _states(top: str, names: Sequence[str], settings: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The two-letter state of each of `names` that is not clean."""
    options = ["--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames"]
    options += ["--ignore-submodules=all"]
    output = _ask(top, ["--literal-pathspecs", *settings, "status", *options, "--", *names])
    found = {entry[3:].rstrip("/"): entry[:2] for entry in os.fsdecode(output).split("\0") if entry}
    for name in names:
        # An ignored folder, or a new one that is a repository of its own, is listed instead of what is in it.
        listed = name
        while listed and listed not in found:
            listed = os.path.dirname(listed)
        if listed:
            yield name, found[listed]


def _without_filters(top: str) -> list[str]:
    """Options that switch off every filter program that is configured.

    Git runs them to compare a file that is newer than the index. Without them such a file counts as changed.
    """
    output = _ask(top, ["config", "--list", "--name-only", "-z"])
    filters = sorted({n.rpartition(".")[0] for n in os.fsdecode(output).split("\0") if n.startswith("filter.")})
    if odd := [name for name in filters if "=" in name]:
        raise GitError(f"the repository configures {odd[0]}, which cannot be switched off: remove it")
    settings = ("clean=", "smudge=", "process=", "required=false")
    return [word for name in filters for setting in settings for word in ("-c", f"{name}.{setting}")]


def _ask(top: str, command: Sequence[str]) -> bytes:
    with _start(top, command) as git:
        output, complaints = git.communicate()
    if git.returncode:
        raise GitError(_said(complaints))
    return output


def _start(top: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in REPOSITORY_VARIABLES}
    try:
        return subprocess.Popen(
            ["git", *_OPTIONS, "-C", top, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment | _ALONE,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise NoGitError("git is not installed") from error
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from error


def _said(complaints: bytes) -> str:
    return os.fsdecode(complaints).strip() or "git failed without a message"
