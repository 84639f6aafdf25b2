"""Modules of the project around a file: what a name in a file refers to, across imports.

A run looks at every file before it writes one, so a base recipe is seen as it was before the run.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fsdp_migrate.languages import UnreadableError
from fsdp_migrate.python.source import Source, decode, parse
from fsdp_migrate.python.statements import statements

_LEVELS_UP = 12
_RE_EXPORTS = 6
_LARGEST = 4_000_000


@dataclass(eq=False)
class Module:
    """One parsed file with what it defines and imports at its top level."""

    path: str
    source: Source
    tree: ast.Module
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    @property
    def imported(self) -> frozenset[str]:
        """Every module that the file names in an import, at any depth."""
        return self._imported

    def __post_init__(self) -> None:
        names: set[str] = set()
        for node in statements(self.tree.body, nested=True):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    names.add(alias.name)
                    bound = alias.asname or alias.name.split(".")[0]
                    self.imports[bound] = (alias.name if alias.asname else bound, "")
            elif isinstance(node, ast.ImportFrom):
                origin = self.absolute(node)
                names.add(origin)
                for alias in node.names:
                    if alias.name == "*":
                        self.stars.append(origin)
                    else:
                        self.imports[alias.asname or alias.name] = (origin, alias.name)
        for statement in self.tree.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[statement.name] = statement
            elif isinstance(statement, ast.ClassDef):
                self.classes.add(statement.name)
        self._imported = frozenset(names)

    def absolute(self, node: ast.ImportFrom) -> str:
        """The dotted name of the module that is imported from; relative ones are made absolute by the path."""
        if not node.level:
            return node.module or ""
        parts = list(Path(self.path).parent.parts)
        parts = parts[: len(parts) - (node.level - 1)] if node.level > 1 else parts
        return "." + "/".join(parts) + ("/" + node.module.replace(".", "/") if node.module else "")


class Project:
    """A cache of modules, found by following imports from a file."""

    def __init__(self) -> None:
        # Bases are taken as they will be once they have moved: for looking at a result, not at a source.
        self.moved = False
        self._modules: dict[str, tuple[Module | None, tuple[int, int] | None]] = {}
        self.numbers = itertools.count(1)
        self._found: dict[tuple[str, str], str | None] = {}
        # What has been worked out about functions, by function and question.
        self.memory: dict[tuple[ast.AST, str], object] = {}

    @contextmanager
    def after_the_move(self) -> Iterator[None]:
        """Look at a result: every base recipe counts as moved."""
        self.moved = True
        try:
            yield
        finally:
            self.moved = False

    def add(self, module: Module) -> None:
        """Take a module's text from memory, not from disk. A result that is only looked at does not count."""
        if not self.moved:
            self._modules[str(Path(module.path).absolute())] = (module, None)

    def load(self, path: Path) -> Module | None:
        """The module at `path`, or None if it cannot be read or parsed: then nothing is known about it."""
        key = str(path.absolute())
        known = self._modules.get(key)
        if known is not None and (known[1] is None or known[1] == _stamp(path)):
            return known[0]
        module = self._read(key)
        self._modules[key] = (module, _stamp(path))
        return module

    def _read(self, path: str) -> Module | None:
        try:
            file = Path(path)
            if file.stat().st_size > _LARGEST:
                return None
            text = decode(file.read_bytes()).text
            return Module(path, Source(text), parse(text))
        except (OSError, UnreadableError):
            return None

    def find(self, module: Module, dotted: str) -> Path | None:
        """The file of a module named in an import of `module`, inside the project only."""
        directory = str(Path(module.path).absolute().parent)
        key = (directory, dotted)
        if key not in self._found:
            found = self._search(Path(directory), dotted)
            self._found[key] = str(found) if found else None
        hit = self._found[key]
        return Path(hit) if hit else None

    def _search(self, directory: Path, dotted: str) -> Path | None:
        if dotted.startswith("."):
            return _file(Path(dotted[1:]))
        parts = dotted.split(".")
        for level, ancestor in enumerate((directory, *directory.parents)):
            if level > _LEVELS_UP:
                break
            found = _file(ancestor.joinpath(*parts))
            if found:
                return found
            if (ancestor / ".git").exists():
                # A src layout keeps its packages one step below the repository's root.
                return _file(ancestor.joinpath("src", *parts))
        return None

    def function(
        self, module: Module, name: str, depth: int = 0
    ) -> tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef] | None:
        """The function that `name` (dotted through modules) refers to in `module`, if it is in the project."""
        if depth > _RE_EXPORTS:
            return None
        head, _, rest = name.partition(".")
        if not rest and head in module.functions:
            return module, module.functions[head]
        if head in module.imports:
            origin, attribute = module.imports[head]
            return self._through(module, origin, attribute, rest, depth)
        if not rest:
            for origin in module.stars:
                found = self._through(module, origin, head, "", depth)
                if found:
                    return found
        return None

    def _through(
        self, module: Module, origin: str, attribute: str, rest: str, depth: int
    ) -> tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef] | None:
        names = [n for n in (attribute, *rest.split(".")) if n]
        dotted = origin
        # `from package import module` and `import package.module` name modules on the way to the function.
        while names:
            path = self.find(module, dotted)
            target = self.load(path) if path else None
            if target is not None and len(names) == 1:
                found = self.function(target, names[0], depth + 1)
                if found:
                    return found
            dotted = dotted + ("/" if dotted.startswith(".") else ".") + names.pop(0)
        return None

    def origin(self, module: Module, name: str, depth: int = 0) -> str | None:
        """The dotted module that a class name comes from, followed through the project's own re-exports.

        None: nothing says where it comes from. The module's own path, with a leading dot: it is defined there.
        """
        if name in module.classes:
            return "." + module.path
        if name not in module.imports:
            return None
        origin, attribute = module.imports[name]
        if not attribute or depth > _RE_EXPORTS:
            return origin
        path = self.find(module, origin)
        target = self.load(path) if path and (origin.startswith(".") or not _is_upstream(origin)) else None
        if target is not None:
            return self.origin(target, attribute, depth + 1) or origin
        return origin


def _stamp(path: Path) -> tuple[int, int]:
    """What changes when a file is written; a process that lives on must not answer from an old text."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _is_upstream(dotted: str) -> bool:
    return dotted == "megatron" or dotted.startswith("megatron.")


def _file(stem: Path) -> Path | None:
    for candidate in (stem.with_name(stem.name + ".py"), stem / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None
