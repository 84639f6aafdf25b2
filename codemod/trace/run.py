"""Trace targets: start the child process, feed it, watch it, read what it found."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fsdp_migrate.trace import overlay
from fsdp_migrate.trace.targets import Target, TargetError, resolve
from fsdp_migrate.trace.upstream import NEWEST_RELEASE
from fsdp_migrate.trace.values import Assumption, Setting, TracedRecipe, from_json, to_json

TIMEOUT: Final = 20.0
"""Seconds for one recipe, or for loading one file."""

_START_SECONDS: Final = 10.0
_REAL_START: Final = 180.0
"""Added for the interpreter's own start: importing Megatron-Bridge and torch from a slow disk takes minutes."""

_MAX_LINE: Final = 64 << 20
_PYTHON: Final = (sys.executable, "-P", "-X", "utf8")
_START: Final = (
    "import sys, json; job, pipe, sys.path[:] = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]); "
    "from fsdp_migrate.trace.child import main; main(job, int(pipe))"
)


class TraceError(Exception):
    """The job as a whole could not be done. The message says why and what to do."""


def trace_targets(
    targets: Sequence[str],
    *,
    arguments: Mapping[str, object] | None = None,
    overrides: Sequence[str] = (),
    override_files: Sequence[Path] = (),
    script_arguments: Sequence[str] = (),
    timeout: float = TIMEOUT,
    real: bool = False,
    release: str | None = None,
    project_root: Path | None = None,
    replaced: Mapping[Path, bytes] | None = None,
    aliases: bool = False,
) -> tuple[TracedRecipe, ...]:
    """Evaluate recipes in a child process and return what each ends up with.

    Args:
        targets: ``file``, ``file::function`` or a folder. In a file without a name, every public ``*_config`` function,
            every config object of the module and, for a script, every config it hands to ``pretrain`` or ``finetune``.
        arguments: passed to the functions that take them.
        overrides: ``key=value`` words laid over every config, after `override_files`.
        override_files: YAML files laid over every config.
        script_arguments: the command line of scripts.
        timeout: seconds for one recipe, or for loading one file. What takes longer is ended and reported.
        real: import the installed Megatron-Bridge and torch instead of using stand-ins.
        release: of Megatron-Bridge, for base recipes that are not in the project: ``0.5``, ``0.6.2``, ``main``. The
            default is the installed one, else the newest known; an empty string knows none.
        project_root: where the project's modules are imported from; guessed for each target when None.
        replaced: sources that stand in place of those on disk.
        aliases: report functions also under the names a module imports them by.

    Raises:
        TraceError: a target does not exist, an override cannot be read, or no child process can be started.
    """
    try:
        resolved = resolve(targets, project_root)
        laid = [entry for file in override_files for entry in overlay.from_file(file)] + overlay.from_words(overrides)
    except (TargetError, overlay.OverrideError) as error:
        raise TraceError(str(error)) from error
    if not resolved:
        return ()
    job = {
        "targets": [
            {
                "file": str(target.file),
                "names": list(target.names),
                "module": target.module,
                "roots": list(map(str, target.roots)),
            }
            for target in resolved
        ],
        "arguments": {name: to_json(value) for name, value in (arguments or {}).items()},
        "overrides": [[path, to_json(value), file, line] for path, value, file, line in laid],
        "argv": list(script_arguments),
        "real": real,
        "release": installed_release() if release is None else release,
        "aliases": aliases,
        "cpu_seconds": 3600,
        "replaced": {
            str(path.absolute()): source.decode("utf-8", "surrogateescape") for path, source in (replaced or {}).items()
        },
    }
    return _Run(job, resolved, timeout).run()


def installed_release() -> str:
    """The release of the installed Megatron-Bridge, without its local part; the newest known one where none is."""
    try:
        return importlib.metadata.version("megatron-bridge").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return NEWEST_RELEASE


@dataclass
class _Run:
    """One job and the processes it takes."""

    job: dict[str, Any]
    targets: tuple[Target, ...]
    timeout: float
    results: list[TracedRecipe] = field(default_factory=list)
    done: set[tuple[str, str]] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    current: tuple[str, str] | None = None
    loading: list[str] = field(default_factory=list)
    finished: bool = False
    names: dict[tuple[str, str], str] = field(default_factory=dict)

    def run(self) -> tuple[TracedRecipe, ...]:
        self.tops = {str(target.file): target.top for target in self.targets}
        idle = 0
        while not self.finished:
            before = len(self.done) + len(self.refused)
            reason = self.one_process()
            if self.finished:
                break
            self.blame(reason)
            idle = idle + 1 if len(self.done) + len(self.refused) == before else 0
            if idle > 2:
                raise TraceError(f"the tracing process does not get anywhere: {reason}")
        order = {str(target.file): position for position, target in enumerate(self.targets)}
        tops = {self.shown(file, file): position for file, position in order.items()}
        return tuple(sorted(self.results, key=lambda recipe: tops.get(recipe.file, 0)))

    def one_process(self) -> str:
        """Run a child until it ends, by itself or by us. Returns why it ended early."""
        self.current, self.loading = None, []
        with tempfile.TemporaryDirectory(prefix="fsdp-migrate-trace-", ignore_cleanup_errors=True) as folder:
            home = Path(os.path.realpath(folder), "work")
            home.mkdir()
            _mirror(Path.cwd(), home)
            job_file = Path(folder, "job.json")
            job = {**self.job, "home": str(home), "done": sorted(self.done), "refused": self.refused}
            job_file.write_text(json.dumps(job), encoding="utf-8")
            return self.watch(job_file, home)

    def watch(self, job_file: Path, home: Path) -> str:
        reader, writer = os.pipe()
        try:
            process = subprocess.Popen(
                [*_PYTHON, "-c", _START, str(job_file), str(writer), json.dumps(_search_path())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=home,
                env=_environment(home),
                pass_fds=(writer,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(reader)
            raise TraceError(f"the tracing process cannot be started: {error}") from error
        finally:
            os.close(writer)
        try:
            reason = self.read(reader, process)
        finally:
            os.close(reader)
            _end(process)
        if not self.finished and self.current is None and not self.loading:
            assert process.stderr is not None
            with process.stderr:
                said = process.stderr.read(4096).decode(errors="replace").strip().splitlines()
            if said:
                reason = f"{reason}: {said[-1]}"
        if process.stderr is not None:
            process.stderr.close()
        return reason

    def read(self, reader: int, process: subprocess.Popen[bytes]) -> str:
        """Take events until the child is through, gone, or has said nothing for `timeout` seconds."""
        os.set_blocking(reader, False)
        pending = bytearray()
        deadline = time.monotonic() + self.timeout + (_REAL_START if self.job["real"] else _START_SECONDS)
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                # A grandchild that escaped could hold the pipe open: look at the process too.
                if left <= 0:
                    return f"took longer than {self.timeout:g} s"
                if not selector.select(min(left, 0.5)):
                    if process.poll() is None:
                        continue
                    return _ended(process)
                try:
                    chunk = os.read(reader, 1 << 20)
                except BlockingIOError:
                    continue
                if not chunk:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=max(1.0, left))
                    return _ended(process)
                pending += chunk
                if len(pending) > _MAX_LINE:
                    return "gave a config that is too large to read"
                *lines, rest = pending.split(b"\n")
                pending = bytearray(rest)
                for line in lines:
                    deadline = time.monotonic() + self.timeout
                    self.take(line)
                if self.finished:
                    return ""

    def take(self, line: bytes | bytearray) -> None:
        try:
            event = json.loads(line)
            kind, file, name = event["event"], event.get("file", ""), event.get("name", "")
        except (ValueError, KeyError, TypeError):
            return  # not ours: a recipe found the pipe
        if kind in ("begin", "file", "fresh", "end"):
            self.check_current()
        if kind == "begin":
            self.current, self.loading = (file, name), []
        elif kind == "load":
            self.loading.append(file)
        elif kind == "loaded" and file in self.loading:
            self.loading.remove(file)
        elif kind == "recipe":
            self.add(event)
        elif kind == "failed":
            self.give_up(file, name, event["line"], event["reason"])
        elif kind == "done":
            self.done.add((file, name))
        elif kind == "file":
            self.done.add((file, ""))
        elif kind == "unusable":
            raise TraceError(f"--real needs an installed Megatron-Bridge: {event['reason']}")
        elif kind == "broken":
            raise TraceError(f"the tracing process failed; please report this:\n{event['reason']}")
        elif kind == "fresh":
            self.current, self.loading = None, []
        elif kind == "end":
            self.finished = True

    def check_current(self) -> None:
        """The child goes on: the last step must have left a result, unless it only loaded a module."""
        if self.current is not None and self.current[1] != "<module>" and self.current not in self.done:
            self.blame("its result was lost")
        self.current = None

    def blame(self, reason: str) -> None:
        """Give the step that ended the process a reason, so that the next process goes on behind it."""
        if self.current is None:
            return
        file, name = self.current
        if name == "<module>":
            # The file itself or one that it imports: whichever was being executed.
            self.refused[self.loading[-1] if self.loading else file] = reason
        elif name == "<script>":
            self.give_up(file, Path(file).name, 1, reason)
            self.done.add((file, name))
            self.refused[file] = reason
        else:
            self.give_up(file, name, 1, reason)

    def give_up(self, file: str, name: str, line: int, reason: str) -> None:
        self.results.append(TracedRecipe(name, self.shown(file, file), line, reason=reason))
        self.done.add((file, name))

    def add(self, event: dict[str, Any]) -> None:
        file = event["file"]

        def setting(path: str, value: Any, place: str, line: int, earlier: Sequence[Any] = ()) -> Setting:
            if type(value) in (dict, list):
                value = from_json(value)
            overridden = tuple(setting(path, *entry) for entry in earlier) if earlier else ()
            return Setting(path, value, self.shown(place, file), line, overridden)

        self.results.append(
            TracedRecipe(
                event["name"],
                self.shown(file, file),
                event["line"],
                settings=tuple(setting(*row) for row in event["rows"]),
                assumptions=tuple(Assumption(t, self.shown(p, file), n) for t, p, n in event["assumptions"]),
                made=tuple(event["made"]),
            )
        )
        self.done.add((file, event["name"]))

    def shown(self, place: str, target: str) -> str:
        """A file relative to the project root, with forward slashes."""
        found = self.names.get((place, target))
        if found is None:
            top = f"{self.tops[target]}{os.sep}"
            found = place.removeprefix(top).replace(os.sep, "/") if place.startswith(top) else place
            self.names[place, target] = found
        return found


def _mirror(folder: Path, home: Path) -> None:
    """Links to what lies in the caller's working directory: a recipe may read files relative to it."""
    with contextlib.suppress(OSError):
        for number, entry in enumerate(os.scandir(folder)):
            if number >= 1000:
                break
            with contextlib.suppress(OSError):
                (home / entry.name).symlink_to(entry.path)


def _search_path() -> list[str]:
    """Our own import path, without the working directory: the project's modules are found by the child itself."""
    here = Path.cwd()
    package = Path(__file__).parents[1]
    ours = [str(package.parent)] if package.name == "fsdp_migrate" else []  # an editable install has its own finder
    return ours + [entry for entry in sys.path if entry and Path(entry).absolute() != here]


def _environment(home: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return environment | {
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TMPDIR": str(home),
        "PWD": str(home),
    }


def _ended(process: subprocess.Popen[bytes]) -> str:
    status = process.poll()
    if status is None:
        return "stopped answering"
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"ended the process with {name}" + (" (out of CPU time)" if name == "SIGXCPU" else "")
    return f"ended the process with exit status {status}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the child and everything it may have started."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
