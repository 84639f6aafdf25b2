"""Git, run so that nothing which a repository holds or configures is executed, and nobody is asked anything.

Commands that stay on this machine see no configuration but the mirror's own. Those that talk to a remote also see the
user's and the machine's: ways to connect and credentials are there, and are git's business.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fsdp_migrate.bulk.sources import without_credentials
from fsdp_migrate.worktree import REPOSITORY_VARIABLES

_OPTIONS = (
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.attributesFile={os.devnull}"),
    *("-c", "core.autocrlf=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "maintenance.auto=false"),
    *("-c", "gc.auto=0"),
    *("-c", "submodule.recurse=false"),
)
_ALONE = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
}
_NO_CONFIGURATION = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
# What a push into a repository on this machine runs there: without its hooks, and never into its worktree.
RECEIVE = f"git -c core.hooksPath={os.devnull} -c receive.denyCurrentBranch=refuse -c gc.auto=0 receive-pack"


class GitError(Exception):
    """Git failed; the text says what it said, without credentials."""

    def __init__(self, text: str, code: int = -1) -> None:
        super().__init__(text)
        self.code = code


def environment(more: Mapping[str, str] = {}, *, remote: bool = False) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in REPOSITORY_VARIABLES}
    kept = {name: value for name, value in kept.items() if not name.startswith(("GIT_CONFIG_KEY", "GIT_CONFIG_VALUE"))}
    return kept | _ALONE | ({} if remote else _NO_CONFIGURATION) | dict(more)


@dataclass(frozen=True)
class Git:
    """Git in one place: a mirror (`--git-dir`), or a worktree."""

    folder: str
    is_mirror: bool = True
    timeout: float | None = None

    def __call__(
        self,
        *words: str,
        given: bytes = b"",
        remote: bool = False,
        more: Mapping[str, str] = {},
    ) -> bytes:
        """What the command prints.

        Raises:
            GitError: it failed, took too long, or there is no git.
        """
        return run(
            [*(("--git-dir", self.folder) if self.is_mirror else ("-C", self.folder)), *words],
            given=given,
            timeout=self.timeout,
            env=environment(more, remote=remote),
            cwd=self.folder,
        )

    def text(self, *words: str, given: bytes = b"", more: Mapping[str, str] = {}) -> str:
        return os.fsdecode(self(*words, given=given, more=more)).strip()


def run(
    words: Sequence[str], *, env: Mapping[str, str], given: bytes = b"", timeout: float | None = None, cwd: str = "/"
) -> bytes:
    """One git command. Raises `GitError`."""
    try:
        done = subprocess.run(
            ["git", *_OPTIONS, *words], input=given, capture_output=True, timeout=timeout, env=dict(env), cwd=cwd
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git took longer than {timeout:g} s: raise `timeout` in the plan") from None
    except OSError as error:
        raise GitError(f"git cannot be run ({error.strerror}): install git 2.31 or newer") from None
    if done.returncode:
        said = [line.strip() for line in os.fsdecode(done.stderr).splitlines() if line.strip()]
        # The first fatal line is the cause; what follows advises on it at length.
        cause = next((line for line in said if line.startswith(("fatal:", "error:"))), said[-1] if said else "")
        raise GitError(without_credentials(cause) or f"git ended with {done.returncode}", done.returncode)
    return done.stdout


_RECEIVING = (
    *("pre-receive", "update", "proc-receive", "post-receive", "post-update"),
    *("reference-transaction", "push-to-checkout"),
)


def receiving_hook(folder: str) -> str:
    """A hook of a repository on this machine that belongs to receiving a push; empty: it has none.

    Raises:
        GitError: git does not say.
    """
    git = Git(folder, is_mirror=False)
    config = os.fsdecode(git("rev-parse", "--path-format=absolute", "--git-path", "config", remote=True)).rstrip("\n")
    # Not asked of git: we told it that hooks are nowhere.
    folders = [os.path.join(os.path.dirname(config), "hooks")]
    try:
        named = git("config", "--file", config, "--includes", "--type=path", "--get", "core.hooksPath", remote=True)
        folders.append(os.path.join(folder, os.fsdecode(named).rstrip("\n")))
    except GitError as error:
        if error.code != 1:
            raise
    paths = (os.path.join(hooks, name) for hooks in folders for name in _RECEIVING)
    return next((os.path.basename(path) for path in paths if os.access(path, os.X_OK)), "")


@dataclass(frozen=True, slots=True)
class Remote:
    """What a repository says about itself: commits, and the ref that its HEAD names (empty: detached)."""

    head: str = ""
    head_ref: str = ""
    base: str = ""
    branch: str = ""


def ask(url: str, base: str, branch: str, timeout: float | None) -> Remote:
    """One question to a repository, which writes nothing there. Raises `GitError`."""
    refs = ["HEAD", f"refs/heads/{branch}", *([f"refs/heads/{base}"] if base else [])]
    output = run(["ls-remote", "--symref", "--", url, *refs], env=environment(remote=True), timeout=timeout)
    found: dict[str, str] = {}
    head_ref = ""
    for line in os.fsdecode(output).splitlines():
        what, _, name = line.partition("\t")
        if what.startswith("ref: ") and name == "HEAD":
            head_ref = what[5:]
        else:
            found[name] = what
    head = found.get("HEAD", "")
    return Remote(head, head_ref, found.get(f"refs/heads/{base}", "") if base else head, found.get(refs[1], ""))
