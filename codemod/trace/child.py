"""The process that runs recipes. Started by `run`, never imported by it.

Reads a job (JSON) and writes one JSON line per event to a pipe of its own, so that what recipes print cannot mix with
results. Before each step that runs project code it says what it is about to do: when the process then ends or hangs,
the parent knows whom to name, and starts another process for the rest.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import gc
import importlib
import inspect
import io
import json
import os
import re
import sys
import threading
import traceback
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from fsdp_migrate.trace import bridge, flatten, guard, overlay, repeatable
from fsdp_migrate.trace.modules import FallbackFinder, LazyPackage, Project, ProjectFinder, StandInModule
from fsdp_migrate.trace.standins import (
    MADE,
    RECORDER,
    Place,
    Recorded,
    StandIn,
    is_class_name,
    looks_like_config,
    plain,
    text_of,
)
from fsdp_migrate.trace.upstream import ENTRY_POINTS

_MAX_REASON = 400
_CONFIG_NAME = re.compile(r"cfg|config|recipe|overrides", re.IGNORECASE)


class NotARecipeError(Exception):
    """A function or object that turned out to be something else than a recipe."""


class Child:
    def __init__(self, job: dict[str, Any], pipe: int) -> None:
        self.job = job
        # Bound now: project code may patch the modules they come from.
        self._write = os.write
        self._dumps = json.dumps
        self._pipe = pipe
        self.home = job["home"]
        self.overrides: list[overlay.Override] = [tuple(o) for o in job["overrides"]]
        self.done: set[tuple[str, str]] = {tuple(d) for d in job["done"]}
        self.refused: dict[str, str] = job["refused"]
        self.replaced = {path: text.encode("utf-8", "surrogateescape") for path, text in job["replaced"].items()}
        self.roots: list[str] = []
        self.finders: tuple[ProjectFinder, FallbackFinder] | None = None
        self.captured: list[tuple[Place, list[flatten.Row], list[str]]] = []
        RECORDER.known_call = bridge.known_call(job["release"])
        RECORDER.on_entry = self.capture

    def say(self, **event: Any) -> None:
        # A line of its own, whatever a recipe may have written to the pipe.
        line = b"\n" + self._dumps(event, allow_nan=False).encode("ascii") + b"\n"
        view = memoryview(line)
        while view:
            view = view[self._write(self._pipe, view) :]

    def run(self) -> None:
        self.environment = dict(os.environ)
        self.threads = threading.active_count()
        for target in self.job["targets"]:
            file = target["file"]
            if (file, "") in self.done:
                continue
            self.enter_project(target["roots"])
            self.file(target)
            self.say(event="file", file=file)
        self.say(event="end")

    def enter_project(self, roots: list[str]) -> None:
        """Resolve imports in the project of the next target; modules of another one are forgotten."""
        if roots == self.roots:
            return
        if self.finders:
            for finder in self.finders:
                sys.meta_path.remove(finder)
            for name, module in list(sys.modules.items()):
                ours = isinstance(module, (LazyPackage, StandInModule))
                if ours or getattr(module, "__file__", None) in RECORDER.sources:
                    del sys.modules[name]
        self.roots = roots
        self.project = Project(
            [Path(root) for root in roots],
            replaced=self.replaced,
            refused=self.refused,
            on_load=lambda file: self.say(event="load", file=file),
            on_loaded=lambda file: self.say(event="loaded", file=file),
            real=self.job["real"],
        )
        self.finders = (ProjectFinder(self.project), FallbackFinder(self.project))
        sys.meta_path.insert(0, self.finders[0])
        sys.meta_path.append(self.finders[1])
        self.meta_path = list(sys.meta_path)

    def import_real(self) -> None:
        """Import the installed frameworks, before anything is refused: they are not the recipes' code."""
        from fsdp_migrate.trace import real

        real.import_core()
        self.enter_project(self.job["targets"][0]["roots"])
        try:
            real.import_bridge()
        except Exception as error:
            self.say(event="unusable", reason=_in_one_line(f"{type(error).__name__}: {error}"))
            _leave(0)

    def file(self, target: dict[str, Any]) -> None:
        file, wanted = target["file"], target["names"]
        try:
            source = self.project.source(file)
            script = not wanted and _is_script(source)
        except (OSError, SyntaxError, ValueError) as error:
            for name in wanted or [Path(file).name]:
                self.fail(file, name, 1, _in_one_line(f"cannot be read: {error}"))
            return
        module = self.load(file, "__main__" if script else target["module"], script, wanted)
        if module is None:
            return
        if wanted:
            for name in wanted:
                self.named(file, module, name)
            return
        for name, function in self.functions(file, module):
            self.function(file, name, function, listed=False)
        for name, line, config in self.objects(module, source):
            self.one(file, name, line, lambda config=config: config, listed=True)

    def load(self, file: str, name: str, script: bool, wanted: list[str]) -> types.ModuleType | None:
        """Run a file as a module or as a script. Reports what a script handed on, and what went wrong."""
        key = "<script>" if script else "<module>"
        failed: str | None = self.refused.get(file)
        self.start()
        module: types.ModuleType | None = None
        if failed is None:
            self.say(event="begin", file=file, name=key)
            with self.streams(file, self.job["argv"]) as errors:
                try:
                    module = self.execute(file, name, script)
                except BaseException as error:
                    failed = self.explain(error, errors)
                    module = sys.modules.get(name) if script else None
        self.threads = max(self.threads, threading.active_count())  # a module may keep its threads
        if script:
            self.scripts(file, failed)
        elif failed is not None:
            for unit in wanted or [Path(file).name]:
                if (file, unit) not in self.done:
                    self.fail(file, unit, 1, f"cannot be loaded: {failed}")
            return None
        return module

    def execute(self, file: str, name: str, script: bool) -> types.ModuleType:
        if not script and self.project.locate(name) == (file, False):
            return importlib.import_module(name)
        module = types.ModuleType(name)
        module.__file__ = file
        module.__package__ = "" if script else name.rpartition(".")[0]
        sys.modules[name] = module
        self.project.execute(module, file)
        return module

    def scripts(self, file: str, failed: str | None) -> None:
        """Report the configs that a script handed on, or why there are none."""
        name = Path(file).name
        if (file, "<script>") in self.done:
            return
        for number, ((_, line), rows, made) in enumerate(self.captured, 1):
            label = name if len(self.captured) == 1 else f"{name}#{number}"
            self.succeed(file, label, line, rows, made)
        if not self.captured:
            self.fail(file, name, 1, failed or "ended without calling pretrain() or finetune()")
        self.say(event="done", file=file, name="<script>")

    def capture(self, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A script called `pretrain` or `finetune`: keep what the config says at that moment."""
        given = [kwargs[name] for name in ("config", "cfg") if name in kwargs]
        given += [value for value in (*args, *kwargs.values()) if looks_like_config(value)]
        given += [value for value in args if isinstance(value, Recorded)]
        if given:
            bridge.lay_over(given[0], self.overrides)
            place = RECORDER.place()
            self.captured.append((place, *flatten.settings_of(given[0], place, self.home)))

    def functions(self, file: str, module: types.ModuleType) -> Iterator[tuple[str, Any]]:
        """Public ``*_config`` functions that the file defines, or makes by calling a factory."""
        source = self.project.source(file)
        for name, value in list(vars(module).items()):
            if name.startswith("_") or not name.endswith("_config"):
                continue
            if isinstance(value, types.FunctionType):
                here = self.job["aliases"] or inspect.unwrap(value).__code__.co_filename == file
            elif not isinstance(value, functools.partial):
                continue
            else:
                here = False
            if here or re.search(rb"^%s[ ]*(?::[^=\n]+)?=[ ]*[\w.]+\(" % name.encode(), source, re.MULTILINE):
                yield name, value

    def objects(self, module: types.ModuleType, source: bytes) -> Iterator[tuple[str, int, object]]:
        """Configs that the module builds itself and keeps under a name of its own."""
        configs = {
            name: value
            for name, value in vars(module).items()
            if not name.startswith("_")
            and not isinstance(value, (type, types.FunctionType, types.ModuleType))
            and looks_like_config(value)
            and (not isinstance(value, dict) or _CONFIG_NAME.search(name))
        }
        if not configs:
            return
        tree = ast.parse(source)
        assigned = {
            target.id: node.lineno
            for node in tree.body
            if isinstance(node, (ast.Assign, ast.AnnAssign))
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name) and not isinstance(node.value, ast.Name)
        }
        for name, line in assigned.items():
            if name in configs:
                yield name, line, configs[name]

    def named(self, file: str, module: types.ModuleType, name: str) -> None:
        if (file, name) in self.done:
            return
        try:
            value: Any = module
            for part in name.split("."):
                value = vars(value)[part] if isinstance(value, types.ModuleType) else getattr(value, part)
        except (AttributeError, KeyError):
            known = ", ".join(n for n, _ in self.functions(file, module)) or "none"
            self.fail(file, name, 1, f"there is no {name} in this file (recipes in it: {known})")
            return
        if isinstance(value, Recorded) or not callable(value):
            self.one(file, name, 1, lambda: value, listed=True)
        else:
            self.function(file, name, value, listed=True)

    def function(self, file: str, name: str, function: Any, *, listed: bool) -> None:
        if (file, name) in self.done:
            return
        code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
        line = code.co_firstlineno if code and code.co_filename == file else 1
        arguments = dict(self.job["arguments"])
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # a stand-in, or made in C: takes whatever it is given
            signature = None
        if signature is not None:
            parameters = signature.parameters
            missing = [p for p in parameters if _is_required(parameters[p]) and p not in arguments]
            if missing:
                if listed or not _returns_something_else(signature):
                    options = " ".join(f"--arg {parameter}=..." for parameter in missing)
                    plural = "s" if len(missing) > 1 else ""
                    self.fail(file, name, line, f"needs the argument{plural} {', '.join(missing)}: give {options}")
                return
            if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                unknown = [argument for argument in arguments if argument not in parameters]
                if unknown and listed:
                    self.fail(file, name, line, f"does not take the argument {', '.join(unknown)}")
                    return
                arguments = {argument: value for argument, value in arguments.items() if argument in parameters}
        self.one(file, name, line, lambda: function(**arguments), listed=listed)

    def one(self, file: str, name: str, line: int, build: Any, *, listed: bool) -> None:
        """Evaluate one recipe and report it."""
        if (file, name) in self.done:
            return
        self.start()
        self.say(event="begin", file=file, name=name)
        with self.streams(file, []) as errors:
            try:
                config = build()
                if not _may_be_config(config, listed):
                    raise NotARecipeError(f"returned {plain(text_of(config))}, which is not a config")
                if isinstance(config, (tuple, list)):
                    self.fail(file, name, line, f"returned a {type(config).__name__} instead of a config")
                    return
                bridge.lay_over(config, self.overrides)
                rows, made = flatten.settings_of(config, (file, line), self.home)
            except NotARecipeError as error:
                if listed:
                    self.fail(file, name, line, str(error))
                else:
                    self.say(event="done", file=file, name=name)
                return
            except BaseException as error:
                self.fail(file, name, line, self.explain(error, errors))
                return
        self.succeed(file, name, line, rows, made)

    def start(self) -> None:
        """Give the next step what every step gets, whatever the one before it left behind."""
        if threading.active_count() > self.threads:
            self.say(event="fresh")  # a thread could act on the next step: go on in another process
            _leave(0)
        sys.settrace(None)
        sys.meta_path[:] = self.meta_path
        if os.environ != self.environment:
            os.environ.clear()
            os.environ.update(self.environment)
        RECORDER.assumptions.clear()
        flatten.reset()
        repeatable.reset()
        self.captured.clear()
        with contextlib.suppress(OSError):
            os.makedirs(self.home, exist_ok=True)
            os.chdir(self.home)

    def succeed(self, file: str, name: str, line: int, rows: list[flatten.Row], made: list[str]) -> None:
        assumptions = [(plain(text), place, number) for text, place, number in RECORDER.assumptions]
        self.say(event="recipe", file=file, name=name, line=line, rows=rows, made=made, assumptions=assumptions)

    def fail(self, file: str, name: str, line: int, reason: str) -> None:
        self.say(event="failed", file=file, name=name, line=line, reason=reason)

    @contextlib.contextmanager
    def streams(self, file: str, arguments: list[str]) -> Iterator[io.StringIO]:
        """What project code prints goes nowhere, but the end of stderr may say why it left."""
        errors = io.StringIO()
        kept = sys.stdin, sys.stdout, sys.stderr, sys.argv, sys.path
        sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), errors
        sys.argv, sys.path = [file, *arguments], list(sys.path)
        try:
            yield errors
        finally:
            sys.stdin, sys.stdout, sys.stderr, sys.argv, sys.path = kept

    def explain(self, error: BaseException, errors: io.StringIO) -> str:
        """Why a recipe could not be evaluated, in one line."""
        if isinstance(error, SystemExit):
            last = [line.strip() for line in errors.getvalue().splitlines() if line.strip()][-1:]
            detail = last[0] if last else error.code if isinstance(error.code, str) else ""
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            return _in_one_line(f"called sys.exit({code})" + (f": {detail}" if detail else ""))
        where = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename in RECORDER.sources:
                where = f" ({Path(frame.filename).name}:{frame.lineno})"
        with contextlib.suppress(Exception):
            return _in_one_line(f"{type(error).__name__}: {plain(str(error))}".replace(self.home, "."), where)
        return _in_one_line(type(error).__name__, where)


def _in_one_line(text: str, end: str = "") -> str:
    text = " ".join(text.split()).rstrip(": ")
    return (text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 4] + " ...") + end


def _is_script(source: bytes) -> bool:
    """Whether running the file can reach an entry point: it names one, and does something at its top level."""
    if not any(entry.encode() + b"(" in source for entry in ENTRY_POINTS):
        return False
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and any(
            isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
        ):
            return True
        if isinstance(node, (ast.Expr, ast.Assign, ast.With, ast.If, ast.Try, ast.For)):
            for part in ast.walk(node):
                name = getattr(part.func, "id", getattr(part.func, "attr", "")) if isinstance(part, ast.Call) else ""
                if name in ENTRY_POINTS:
                    return True
    return False


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def _returns_something_else(signature: inspect.Signature) -> bool:
    """Whether the annotation rules out that a function returns a config container."""
    returned = signature.return_annotation
    if returned is inspect.Signature.empty:
        return False
    text = returned if isinstance(returned, str) else text_of(returned)
    return "Container" not in text and text not in ("Any", "typing.Any")


def _may_be_config(value: object, listed: bool) -> bool:
    if looks_like_config(value):
        return True
    if isinstance(value, (tuple, list)):
        return any(looks_like_config(item) for item in value) or listed
    if isinstance(value, StandIn):
        # An unknown function may well have returned a config; an instance of another class is none.
        return listed or not (value.__dict__.get(MADE) or is_class_name(text_of(value)))
    if value is None or isinstance(value, (str, int, float, set, types.FunctionType, types.GeneratorType)):
        return False
    return listed


def _make_old_python_new() -> None:
    """Names that recipes for Python 3.12 import from the standard library."""
    if not hasattr(typing, "override"):
        typing.override = lambda function: function  # type: ignore[attr-defined]


def _leave(status: int) -> NoReturn:
    os._exit(status)


def main(job_file: str, pipe: int) -> None:
    leave = _leave
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    os.chdir(job["home"])
    sys.dont_write_bytecode = True
    sys.setrecursionlimit(2000)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    _make_old_python_new()
    child = Child(job, pipe)
    flatten.record_dataclasses()
    repeatable.fix()
    gc.disable()
    # `exit` and `quit` close stdin first, which is shared.
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    if job["real"]:
        child.import_real()
    guard.end_with_parent()
    guard.limit(cpu_seconds=job["cpu_seconds"], memory=not job["real"])
    guard.guard(job["home"])
    try:
        child.run()
    except BaseException as error:
        with contextlib.suppress(BaseException):
            child.say(event="broken", reason="".join(traceback.format_exception(error)))
        leave(70)
    leave(0)
