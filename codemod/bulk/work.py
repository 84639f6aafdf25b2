"""One repository: fetch, look, migrate in a worktree of our own, check, commit, deliver.

The steps cost git processes, which are most of the time of a large plan: one `ls-remote` when nothing is new, and no
checkout when no file names what the migration looks for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fsdp_migrate.bulk.git import RECEIVE, Git, GitError, Remote, environment, receiving_hook
from fsdp_migrate.bulk.plan import TRAIN_CHECK, VERIFY, Command, filled
from fsdp_migrate.bulk.rows import CHANGED, FAILED, UNCHANGED, Check, Row
from fsdp_migrate.bulk.sources import Repository, without_credentials
from fsdp_migrate.prefilter import MARK
from fsdp_migrate.run import Outcome
from fsdp_migrate.settings import Chosen, Settings, SettingsError
from fsdp_migrate.upstream import FLAG

BASE = "refs/fsdp-migrate/base"
_MOST_DIFF = 1 << 20  # characters kept of a diff
_MOST_LEFT = 200  # findings listed
_MOST_OUTPUT = 8000  # characters kept of what a check printed
# Nothing that a repository's .gitattributes asks for: no filter program, and the bytes of a file as they are committed.
_ATTRIBUTES = "* -text !eol !ident !filter !working-tree-encoding !diff !merge\n"


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with one repository. `previous` is what the last run left; everything else is the plan's."""

    repository: Repository
    work_folder: str
    preview: bool
    push: bool
    open: bool
    branch: str
    message: str
    author: str
    base: str
    options: Settings
    isolated: bool
    checks: tuple[Command, ...]
    at_end: str | tuple[str, ...]
    check_timeout: float
    timeout: float
    max_megabytes: int
    fingerprint: str
    previous: Row | None = None

    @property
    def mirror(self) -> str:
        return os.path.join(self.work_folder, "mirrors", f"{self.repository.key}.git")

    def row(self, state: str, reason: str = "") -> Row:
        name, key = self.repository.name, self.repository.key
        return Row(name, key, state, without_credentials(reason), branch=self.branch, fingerprint=self.fingerprint)


class ProblemError(Exception):
    """Why nothing can be done with this repository; the text is for its row."""


def is_current(job: Job, remote: Remote) -> bool:
    """Whether the last run's row still holds."""
    row = job.previous
    if row is None or row.state == FAILED or row.fingerprint != job.fingerprint or row.base != remote.base:
        return False
    if job.preview or row.state == UNCHANGED:
        return True
    return branch_commit(job.mirror, job.branch) == row.commit and (not remote.branch or remote.branch == row.commit)


def is_delivered(job: Job, row: Row) -> bool:
    if job.preview or row.state != CHANGED:
        return True
    return row.delivered in (
        ("opened",) if job.open else ("pushed", "opened") if job.push else ("", "pushed", "opened")
    )


def branch_commit(mirror: str, branch: str) -> str:
    """The commit of a branch of a mirror. Its refs are never packed: nothing collects garbage there."""
    try:
        with open(os.path.join(mirror, "refs", "heads", *branch.split("/")), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def refusal(job: Job, remote: Remote) -> str:
    """What speaks against a repository before anything is fetched; empty: nothing."""
    if not remote.base:
        return f"has no branch {job.base!r}: correct `base` in the plan" if job.base and remote.head else _NO_COMMIT
    if remote.head_ref == f"refs/heads/{job.branch}":
        return f"has {job.branch} checked out, which is the plan's branch: name another `branch` in the plan"
    return ""


_NO_COMMIT = "its HEAD names no commit: commit something, set `base` in the plan, or remove it from there"


def work(job: Job, remote: Remote) -> Row:
    """Everything for one repository. Never raises for what is in it."""
    began = time.perf_counter()
    try:
        with _locked(job):
            row = job.previous if job.previous is not None and is_current(job, remote) else _migrated(job, remote)
            assert row is not None
            if row.state == CHANGED and not job.preview and (job.push or job.open):
                row = _delivered(job, row, remote)
    except (ProblemError, GitError) as error:
        row = job.row(FAILED, str(error))
    except SettingsError as error:
        row = job.row(FAILED, f"its settings are wrong: {error}")
    except OSError as error:
        row = job.row(FAILED, f"{error.strerror or error}: {error.filename or job.work_folder}; make room or access")
    except Exception as error:
        row = job.row(FAILED, f"internal error ({type(error).__name__}: {error}); please report it")
    if row.state == FAILED and not row.commit and job.previous is not None:
        # What is ours in the repository must not be forgotten: the next commit goes on top of it.
        row = replace(row, commit=job.previous.commit, delivered=job.previous.delivered, url=job.previous.url)
    return replace(row, seconds=round(time.perf_counter() - began, 3))


@contextlib.contextmanager
def _locked(job: Job) -> Iterator[None]:
    """One process at a time in a repository's folders: on a cluster, workers may outlive the run that sent them."""
    from fsdp_migrate.bulk.state import lock

    path = os.path.join(job.work_folder, "mirrors", f"{job.repository.key}.lock")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with lock(path, wait=True):
        yield


def _migrated(job: Job, remote: Remote) -> Row:
    git = _mirror(job)
    base = _fetched(job, git, remote)
    empty = replace(job.row(UNCHANGED), base=base)
    try:
        git("grep", "--threads=1", "-q", "-a", "-F", "-e", FLAG, "-e", MARK, base, "--")
    except GitError as error:
        if error.code == 1:
            return empty
        raise
    modes, notes = _listed(git, base, job.max_megabytes)
    notes = (*_about(job, remote), *notes)
    with _worktree(job, git, base) as tree:
        return _changed(job, remote, tree, replace(empty, notes=notes), modes)


def _about(job: Job, remote: Remote) -> Iterator[str]:
    """What is worth knowing about the repository itself. Only what is committed there is looked at."""
    from fsdp_migrate.render import neutral
    from fsdp_migrate.worktree import changed_since_commit, toplevel

    if not job.base and not remote.head_ref:
        yield "its HEAD is detached: the new branch starts at the commit that is checked out"
    folder = job.repository.folder
    if folder and toplevel(folder) == folder and (changed := changed_since_commit(folder)):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        yield neutral(f"uncommitted changes are not looked at: {os.path.relpath(changed[0], folder)}{more}")


def _mirror(job: Job) -> Git:
    """A bare repository for this source, made whole or not at all."""
    if not os.path.isdir(job.mirror):
        os.makedirs(os.path.dirname(job.mirror), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(job.mirror), prefix=".new-") as fresh:
            Git(fresh)("init", "-q", "--bare", "--template=", fresh)
            os.makedirs(os.path.join(fresh, "info"), exist_ok=True)
            with open(os.path.join(fresh, "info", "attributes"), "w", encoding="ascii") as file:
                file.write(_ATTRIBUTES)
            os.rename(fresh, job.mirror)
            os.mkdir(fresh)
    # We hold the lock: a git that was killed left these behind.
    for folder in ("", "refs"):
        for where, _, names in os.walk(os.path.join(job.mirror, folder)):
            for name in names:
                if name.endswith(".lock"):
                    os.unlink(os.path.join(where, name))
            if not folder:
                break
    return Git(job.mirror, timeout=job.timeout)


def _fetched(job: Job, git: Git, remote: Remote) -> str:
    """The base commit, with everything that it needs in the mirror."""
    there = _read_ref(job.mirror, BASE)
    if there == remote.base:
        return there
    ref = f"refs/heads/{job.base}" if job.base else "HEAD"
    words = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--update-shallow", "--quiet")
    git("fetch", *words, "--", job.repository.url, f"+{ref}:{BASE}", remote=True)
    return _read_ref(job.mirror, BASE) or remote.base


def _read_ref(mirror: str, name: str) -> str:
    try:
        with open(os.path.join(mirror, *name.split("/")), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _listed(git: Git, base: str, max_megabytes: int) -> tuple[dict[str, str], tuple[str, ...]]:
    """The mode of every file, and what to say about the tree."""
    modes: dict[str, str] = {}
    size = submodules = 0
    for entry in os.fsdecode(git("ls-tree", "-r", "-z", "-l", base)).split("\0")[:-1]:
        about, _, name = entry.partition("\t")
        mode, kind, _, length = about.split()
        modes[name] = mode
        submodules += kind == "commit"
        size += int(length) if length.isdecimal() else 0
    if size > max_megabytes << 20:
        raise ProblemError(f"is huge: {size >> 20} MB of files; raise max-megabytes in the plan, or leave it out")
    notes = [f"submodules are not looked at: {submodules}"] if submodules else []
    if any(name.rpartition("/")[2] == ".gitattributes" for name in modes) and (pointers := _pointers(git, base)):
        notes.append(f"LFS pointers are not looked at: {pointers}")
    return modes, tuple(notes)


def _pointers(git: Git, base: str) -> int:
    try:
        found = git("grep", "--threads=1", "-l", "-z", "-e", "^version https://git-lfs.github.com/spec/", base, "--")
    except GitError as error:
        if error.code == 1:
            return 0
        raise
    return found.count(b"\0")


@contextlib.contextmanager
def _worktree(job: Job, git: Git, base: str) -> Iterator[str]:
    tree = os.path.join(job.work_folder, "trees", job.repository.key)
    entries = os.path.join(job.mirror, "worktrees")
    # What a killed run left. There is never more than one worktree of a mirror.
    _remove(tree)
    _remove(entries)
    os.makedirs(os.path.dirname(tree), exist_ok=True)
    before = os.getcwd()
    try:
        git("worktree", "add", "--quiet", "--detach", tree, base)
        os.chdir(tree)
        yield tree
    finally:
        os.chdir(before)
        _remove(tree)
        _remove(entries)


def _remove(folder: str) -> None:
    if os.path.lexists(folder):
        shutil.rmtree(folder)


def _changed(job: Job, remote: Remote, tree: str, row: Row, modes: dict[str, str]) -> Row:
    """Migrate the worktree, which is the working directory."""
    outcomes = _outcomes(job)
    verdict = None
    if VERIFY in job.checks and not job.preview:
        outcomes, verdict = _verified(job, outcomes)
    changed = [outcome for outcome in outcomes if outcome.result.changed]
    row = replace(row, left=_left(outcomes), checks=(verdict,) if verdict else ())
    if verdict and not verdict.passed:
        return replace(row, state=FAILED, reason=f"{VERIFY} failed: {verdict.output}")
    if not changed:
        return row
    files, diff = _shown(changed)
    row = replace(row, state=CHANGED, files=files, diff=diff)
    if job.preview:
        return row
    git = Git(tree, is_mirror=False, timeout=job.timeout)
    made = _tree(git, changed, modes)
    row = replace(row, checks=row.checks + tuple(_checks(job, tree, changed)))
    if failed := next((check for check in row.checks if not check.passed), None):
        last = failed.output.strip().splitlines()[-1:] or ["it printed nothing"]
        return replace(row, state=FAILED, reason=f"the check {failed.command!r} failed: {last[0][:300]}")
    return _committed(job, remote, git, row, made)


def _outcomes(job: Job) -> list[Outcome]:
    from fsdp_migrate.run import failure, find, migrate

    chosen = _chosen(job)
    found = find(["."], left_out=chosen.left_out())
    outcomes = [Outcome(failure(problem.path, problem.message)) for problem in found.problems]
    frozen = {path for path, reason in found.frozen.items() if reason}
    for path in found.paths:
        result = migrate(path, chosen.options, {}, frozen)
        if result is not None:
            outcomes.append(Outcome(result, found.frozen[path], place=found.places[path]))
    return outcomes


def _chosen(job: Job) -> Chosen:
    return Chosen(job.options, isolated=job.isolated)


def _verified(job: Job, outcomes: list[Outcome]) -> tuple[list[Outcome], Check]:
    from fsdp_migrate.trace import Status, TraceError
    from fsdp_migrate.verifying import verified

    began = time.perf_counter()
    try:
        kept, verdicts = verified(outcomes, _chosen(job).settings(".").get("target"))
        said = "; ".join(f"{v.name} would end up different" for v in verdicts if v.status is Status.DIFFERENT)
        passed = not said
        said = said or f"{len(verdicts)} recipes compared"
    except TraceError as error:
        kept, passed, said = outcomes, False, str(error)
    return kept, Check(VERIFY, passed, round(time.perf_counter() - began, 3), said)


def _left(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    from fsdp_migrate.findings import Severity
    from fsdp_migrate.render import neutral

    lines = []
    for outcome in outcomes:
        name = outcome.result.path.removeprefix("./")
        if outcome.result.error:
            lines.append(f"{name}: {outcome.result.error.splitlines()[0]}")
        for finding in outcome.result.remaining:
            if finding.severity is not Severity.INFO:
                why = f" ({finding.why})" if finding.why else ""
                lines.append(f"{name}:{finding.place.line}: {finding.code} {finding.message}{why}")
    if len(lines) > _MOST_LEFT:
        lines[_MOST_LEFT:] = [f"... and {len(lines) - _MOST_LEFT} more"]
    return tuple(neutral(line) for line in lines)


def _shown(changed: Sequence[Outcome]) -> tuple[tuple[tuple[str, int, int], ...], str]:
    from fsdp_migrate.diff import unified_diff

    files, diffs = [], []
    for outcome in changed:
        result = outcome.result
        diff = unified_diff(result.path, result.source, result.output)
        body = diff.split(b"\n")[3:]
        added = sum(line.startswith(b"+") for line in body)
        files.append((_spelled(result.path.removeprefix("./")), added, sum(line.startswith(b"-") for line in body)))
        diffs.append(diff.decode("utf-8", "backslashreplace"))
    text = "".join(diffs)
    if len(text) > _MOST_DIFF:
        text = text[: text.rindex("\n", 0, _MOST_DIFF) + 1] + "# The rest is left out here; the commit has it.\n"
    return tuple(files), text


def _spelled(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _tree(git: Git, changed: Sequence[Outcome], modes: dict[str, str]) -> str:
    """Write the files and the tree that holds them. Only now, so that no check can slip something into the commit."""
    from fsdp_migrate.write import RefusedError, write

    names = []
    for outcome in changed:
        result = outcome.result
        name = os.path.relpath(outcome.place or os.path.realpath(result.path)).replace(os.sep, "/")
        if not modes.get(name, "").startswith("100"):
            raise ProblemError(f"{name} is no file of its commit: report this, please")
        try:
            write(result.path, result.source, result.output, place=outcome.place)
        except RefusedError as error:
            raise ProblemError(f"{name} was not written: {error}") from None
        names.append(name)
    given = os.fsencode("".join(f"{name}\n" for name in names))
    if any("\n" in name for name in names):
        blobs = [git.text("hash-object", "-w", "--no-filters", "--", name) for name in names]
    else:
        blobs = git.text("hash-object", "-w", "--no-filters", "--stdin-paths", given=given).split()
    entries = "".join(f"{modes[name]} {blob}\t{name}\0" for name, blob in zip(names, blobs, strict=True))
    git("update-index", "-z", "--index-info", given=os.fsencode(entries))
    return git.text("write-tree")


def _checks(job: Job, tree: str, changed: Sequence[Outcome]) -> Iterator[Check]:
    """Run the checks one by one, until one fails."""
    for command in job.checks:
        if command == VERIFY:
            continue
        words: Command = command
        if command == TRAIN_CHECK:
            targets = [o.result.path for o in changed if o.result.path.endswith(".py")]
            if not targets:
                continue
            words = (sys.executable, "-P", "-m", "fsdp_migrate", "train-check", "--", *targets)
        check = _run(words, command if isinstance(command, str) else " ".join(command), tree, job.check_timeout)
        yield check
        if not check.passed:
            return


running: set[int] = set()  # process groups of commands; whoever ends this process ends them first


def _run(command: Command, name: str, folder: str, timeout: float) -> Check:
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                shell=isinstance(command, str),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(remote=True),
                start_new_session=True,
            )
        except OSError as error:
            return Check(name, False, 0.0, f"cannot be run ({error.strerror}): install it, or correct the plan")
        running.add(process.pid)
        try:
            code, late = process.wait(timeout), ""
        except subprocess.TimeoutExpired:
            code, late = -1, f"\nstopped after {timeout:g} s: raise check-timeout in the plan"
        finally:
            # Also what the command left running.
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            running.discard(process.pid)
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _MOST_OUTPUT))
        text = without_credentials(output.read().decode("utf-8", "backslashreplace")) + late
    return Check(without_credentials(name), code == 0, round(time.perf_counter() - began, 3), text)


def _committed(job: Job, remote: Remote, git: Git, row: Row, made: str) -> Row:
    """One commit, and then the branch in one step: a killed run leaves either the old branch or the new one."""
    name, _, address = job.author.partition(" <")
    # The base's own date: the same plan over the same commit gives the same commit, wherever and however often it runs.
    date = git.text("show", "-s", "--format=%cd", "--date=raw", row.base)
    who = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", name), ("EMAIL", address[:-1]), ("DATE", date))
    }
    parents = [row.base]
    ours = job.previous.commit if job.previous is not None else ""
    if remote.branch and remote.branch == ours and job.previous is not None and job.previous.base != row.base:
        # What we pushed last time stays in the branch's history: nothing is ever pushed by force.
        parents.insert(0, ours)
        if job.previous.delivered == "opened":
            row = replace(row, delivered="opened", url=job.previous.url)
    words = [word for parent in parents for word in ("-p", parent)]
    message = job.message.rstrip("\n") + "\n"
    commit = git.text("commit-tree", *words, "-F", "-", made, given=message.encode(), more=who)
    if remote.branch and remote.branch not in (commit, ours):
        raise ProblemError(
            f"has a branch {job.branch} with other commits ({remote.branch[:10]}): name another `branch`, or delete it"
        )
    git("update-ref", f"refs/heads/{job.branch}", commit)
    return replace(row, commit=commit)


def _delivered(job: Job, row: Row, remote: Remote) -> Row:
    """Push, and open a pull request, as far as that has not been done."""
    git = Git(job.mirror, timeout=job.timeout)
    if row.delivered not in ("pushed", "opened") or remote.branch != row.commit:
        local = [f"--receive-pack={RECEIVE}"] if job.repository.folder else []
        refs = f"{row.commit}:refs/heads/{job.branch}"
        try:
            if job.repository.folder and (hook := receiving_hook(job.repository.folder)):
                # A push would run it; a push that does not would go around what its owner wants.
                return replace(
                    row, state=FAILED, reason=f"was not pushed, for its hook {hook}: push {job.mirror} by hand"
                )
            git("push", "--quiet", "--no-verify", *local, "--", job.repository.url, refs, remote=True)
        except GitError as error:
            return replace(row, state=FAILED, reason=f"the push was rejected: {error}")
        row = replace(row, delivered="pushed" if row.delivered != "opened" else "opened")
    if job.open and row.delivered != "opened" and isinstance(job.at_end, tuple):
        values = {
            "branch": job.branch,
            "base": job.base or remote.head_ref.removeprefix("refs/heads/"),
            "title": job.message.splitlines()[0],
            "message": job.message,
            "repository": row.name,
            "files": str(len(row.files)),
        }
        git("config", "remote.origin.url", row.name if not job.repository.folder else job.repository.folder)
        opened = _run(tuple(filled(job.at_end, values)), "pull request", job.mirror, job.check_timeout)
        said = opened.output.strip().splitlines()[-1:] or [""]
        if not opened.passed:
            return replace(row, state=FAILED, reason=f"the pull request was not opened: {said[0][:300]}")
        row = replace(row, delivered="opened", url=said[0][:300])
    return row
