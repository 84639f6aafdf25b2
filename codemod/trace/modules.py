"""Which modules a recipe gets: the project's own are run, the rest is real where it can be imported, else a stand-in.

Runs in the child process only. Three kinds of module:

* a *project module* is compiled from its source and executed;
* a *project package* does not run its ``__init__`` at once, since that often imports every recipe there is: a name is
  looked up in the import statements of the ``__init__`` first, and only a name that it defines itself runs it;
* a *stand-in module* answers every attribute with a recording stand-in.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fsdp_migrate.trace.real import is_optional
from fsdp_migrate.trace.standins import RECORDER, convert, either, exception_class, parent_of, stand_in
from fsdp_migrate.trace.upstream import FLAG, FRAMEWORK_NAMESPACES, FRAMEWORKS, RECIPE_PACKAGES

CONVERT, EITHER, PARENT = "__fsdp_migrate_convert__", "__fsdp_migrate_either__", "__fsdp_migrate_parent__"
_CONVERSIONS: Final = frozenset({"float", "int"})
_NEEDS_ADAPTING: Final = re.compile(
    rb"\b(?:float|int|super)\(" + rb"|" + FLAG.encode() + rb"[\"'\]\s]*[=:](?:[^\n]*|\s*\([^)]*)\bor\b"
)


class Project:
    """Where the project's modules are, and what their sources say.

    Args:
        roots: directories that absolute imports are resolved in, nearest first.
        replaced: sources that stand in place of those on disk, by absolute path.
        refused: modules that ended an earlier process, with the reason; importing them fails.
        on_load: called with a file before it is executed, and `on_loaded` when that has ended.
        real: import frameworks that are installed.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        replaced: Mapping[str, bytes],
        refused: Mapping[str, str],
        on_load: Callable[[str], None],
        on_loaded: Callable[[str], None],
        real: bool = False,
    ) -> None:
        self.roots = [str(root) for root in roots]
        self.replaced = replaced
        self.refused = refused
        self.on_load = on_load
        self.on_loaded = on_loaded
        self.real = real
        self._located: dict[str, tuple[str, bool] | None] = {}

    def source(self, file: str) -> bytes:
        return self.replaced[file] if file in self.replaced else Path(file).read_bytes()

    def is_file(self, file: str) -> bool:
        return file in self.replaced or Path(file).is_file()

    def locate(self, name: str) -> tuple[str, bool] | None:
        """The file of a project module and whether it is a package; the folder of a package without ``__init__``."""
        if name not in self._located:
            self._located[name] = self._locate(name)
        return self._located[name]

    def _locate(self, name: str) -> tuple[str, bool] | None:
        top, *rest = name.split(".")
        if top in sys.stdlib_module_names:
            return None
        recipes = bool(RECIPE_PACKAGES & set(rest))
        if top in FRAMEWORK_NAMESPACES and not recipes:
            return None
        namespace = None
        for root in self.roots:
            base = f"{root}/{name.replace('.', '/')}"
            if self.is_file(f"{base}/__init__.py"):
                return f"{base}/__init__.py", True
            if self.is_file(f"{base}.py"):
                return f"{base}.py", False
            if namespace is None and (recipes or top not in FRAMEWORKS) and _holds_python(Path(base)):
                namespace = base
        return (namespace, True) if namespace else None

    def code(self, file: str) -> types.CodeType:
        source = self.source(file)
        RECORDER.sources.add(file)
        if _NEEDS_ADAPTING.search(source):
            return compile(adapted(ast.parse(source, file)), file, "exec", dont_inherit=True)
        return compile(source, file, "exec", dont_inherit=True)

    def execute(self, module: types.ModuleType, file: str) -> None:
        if file in self.refused:
            raise ImportError(f"{Path(file).name} cannot be loaded: {self.refused[file]}", name=module.__name__)
        self.on_load(file)
        vars(module).update({CONVERT: convert, EITHER: either, PARENT: parent_of})
        try:
            exec(self.code(file), vars(module))
        finally:
            self.on_loaded(file)


def _holds_python(folder: Path) -> bool:
    return folder.is_dir() and (any(folder.glob("*.py")) or any(folder.glob("*/*.py")))


class ProjectLoader(importlib.abc.Loader):
    def __init__(self, project: Project, file: str, package: bool) -> None:
        self.project, self.file, self.package = project, file, package

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return LazyPackage(spec.name, self.project, self.file) if self.package else None

    def exec_module(self, module: types.ModuleType) -> None:
        if not self.package:
            self.project.execute(module, self.file)


class LazyPackage(types.ModuleType):
    """A project package whose ``__init__`` runs when a name is asked for that only running it can give."""

    def __init__(self, name: str, project: Project, file: str) -> None:
        super().__init__(name)
        self.__dict__["\0state"] = _PackageState(project, file)

    def __getattr__(self, name: str) -> Any:
        state: _PackageState = self.__dict__["\0state"]
        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError(name)
        found = state.look_up(self, name)
        if found is _ABSENT:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return found


_ABSENT: Final = object()


class _PackageState:
    def __init__(self, project: Project, file: str) -> None:
        self.project = project
        self.file = file if file.endswith("__init__.py") else ""
        self.started = not self.file
        self.asked: set[str] = set()
        self.imports: dict[str, tuple[str, str]] | None = None
        self.stars: list[str] = []

    def look_up(self, package: LazyPackage, name: str) -> Any:
        if name in self.asked:  # a name that leads back here while it is being looked up
            return _ABSENT
        self.asked.add(name)
        try:
            return self._look_up(package, name)
        finally:
            self.asked.discard(name)

    def _look_up(self, package: LazyPackage, name: str) -> Any:
        if not self.started and name not in ("__all__", "__version__"):
            self._read_imports(package.__name__)
            assert self.imports is not None
            if name in self.imports:
                home, original = self.imports[name]
                module = importlib.import_module(home)
                if not original:
                    return module
                found = getattr(module, original, _ABSENT)
                if found is _ABSENT:
                    found = importlib.import_module(f"{home}.{original}")
                setattr(package, name, found)
                return found
        submodule = f"{package.__name__}.{name}"
        if self.project.locate(submodule):
            return importlib.import_module(submodule)
        for home in reversed(self.stars) if not self.started else ():
            found = self._from_star(home, name)
            if found is not _ABSENT:
                setattr(package, name, found)
                return found
        if not self.started:
            self.started = True
            self.project.execute(package, self.file)
            return package.__dict__.get(name, _ABSENT)
        return _ABSENT

    def _from_star(self, home: str, name: str) -> Any:
        located = self.project.locate(home)
        if located is None or name.startswith("_"):
            return _ABSENT
        file, package = located
        if not package and name.encode() not in self.project.source(file):
            return _ABSENT
        module = importlib.import_module(home)
        if isinstance(module, LazyPackage):
            return module.__dict__["\0state"].look_up_exported(module, name)
        return getattr(module, name, _ABSENT)

    def look_up_exported(self, package: LazyPackage, name: str) -> Any:
        """Like `look_up`, for a star import: no submodules, and nothing is run for a name that is not in sight."""
        if name in package.__dict__:
            return package.__dict__[name]
        if self.started or name.encode() not in self.project.source(self.file):
            self._read_imports(package.__name__)
            for home in reversed(self.stars):
                found = self._from_star(home, name)
                if found is not _ABSENT:
                    return found
            return _ABSENT
        return self.look_up(package, name)

    def _read_imports(self, name: str) -> None:
        """Note what the ``__init__`` imports at its top level, also inside ``try`` and ``if``."""
        if self.imports is not None or not self.file:
            self.imports = self.imports or {}
            return
        self.imports = {}
        pending: list[ast.stmt] = list(ast.parse(self.project.source(self.file), self.file).body)
        while pending:
            node = pending.pop(0)
            if isinstance(node, ast.ImportFrom):
                home = importlib.util.resolve_name("." * node.level + (node.module or ""), name)
                for alias in node.names:
                    if alias.name == "*":
                        self.stars.append(home)
                    else:
                        self.imports[alias.asname or alias.name] = (home, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        self.imports[alias.asname] = (alias.name, "")
                    else:
                        top = alias.name.partition(".")[0]
                        self.imports[top] = (top, "")
            elif isinstance(node, (ast.If, ast.Try, ast.With)):
                pending[:0] = node.body


class StandInModule(types.ModuleType):
    """A module that could not be imported."""

    __path__: list[str] = []  # noqa: RUF012 - read by the import system, never changed

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return _names_wanted_by_star_import()
        if name.startswith("__") and name.endswith("__") and name != "__version__":
            raise AttributeError(name)
        if name == "__version__" and self.__dict__["\0project"].real:
            return "2.12.0"  # compared with minimum versions when imported
        qualified = f"{self.__name__}.{name}"
        if self.__dict__["\0project"].locate(qualified):
            return importlib.import_module(qualified)
        found = exception_class(name) or stand_in(qualified)
        self.__dict__[name] = found
        return found


def _names_wanted_by_star_import() -> list[str]:
    """Every global name that the importing module uses and does not have yet: any of them may come from the star."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename not in RECORDER.sources:
        if frame.f_back is None:
            return []
        frame = frame.f_back
    wanted: set[str] = set()
    pending = [frame.f_code]
    while pending:
        code = pending.pop()
        wanted.update(code.co_names)
        pending += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    known = frame.f_globals.keys() | vars(builtins).keys()
    return sorted(name for name in wanted - known if not name.startswith("_") and name.isidentifier())


class StandInLoader(importlib.abc.Loader):
    def __init__(self, project: Project) -> None:
        self.project = project

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = StandInModule(spec.name)
        module.__dict__["\0project"] = self.project
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__["__path__"] = []


class _InstalledLoader(importlib.abc.Loader):
    """Loads an installed module, and turns it into a stand-in where that fails."""

    def __init__(self, loader: Any, project: Project) -> None:
        self.loader, self.project = loader, project

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        module: types.ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        try:
            self.loader.exec_module(module)
        except Exception:
            if self.project.real:
                raise
            kept = {name: value for name, value in vars(module).items() if name.startswith("__")}
            vars(module).clear()
            vars(module).update(kept)
            module.__class__ = StandInModule
            module.__dict__.update({"\0project": self.project, "__path__": []})


class ProjectFinder(importlib.abc.MetaPathFinder):
    """First on the path: project modules, then the frameworks that are never imported, then what is installed."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._searching = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top == "fsdp_migrate":
            return None
        located = self.project.locate(name)
        if located:
            file, package = located
            loader = ProjectLoader(self.project, file, package)
            spec = importlib.util.spec_from_file_location(
                name, file, loader=loader, submodule_search_locations=[str(Path(file).parent)] if package else None
            )
            if spec is None:  # a package without an __init__ is a folder
                spec = importlib.machinery.ModuleSpec(name, loader, origin=file, is_package=True)
            return spec
        if not self.project.real and top in FRAMEWORKS and not self.project.locate(top):
            return importlib.machinery.ModuleSpec(name, StandInLoader(self.project), is_package=True)
        if top in FRAMEWORK_NAMESPACES and not self.project.real:
            return importlib.machinery.ModuleSpec(name, StandInLoader(self.project), is_package=True)
        return None if "." in name or self._searching else self._installed(name, target)

    def _installed(self, name: str, target: types.ModuleType | None) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is self or isinstance(finder, FallbackFinder):
                continue
            spec = finder.find_spec(name, None, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                if spec.loader is not None and not self.project.real:
                    spec.loader = _InstalledLoader(spec.loader, self.project)
                return spec
        return None


class FallbackFinder(importlib.abc.MetaPathFinder):
    """Last on the path: whatever nobody found, unless it should be the project's own."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if self.project.real and not is_optional(name):
            return None
        parent = name.rpartition(".")[0]
        if name.partition(".")[0] in sys.stdlib_module_names or (parent and self.project.locate(parent)):
            return None
        if parent and not isinstance(sys.modules.get(parent), StandInModule) and not self.project.real:
            return None  # an installed package knows best which submodules it has
        return importlib.machinery.ModuleSpec(name, StandInLoader(self.project), is_package=True)


def adapted(tree: ast.Module) -> ast.Module:
    """Let unknown values pass where Python would insist on a decision.

    ``float(x)`` and ``int(x)`` must return numbers, ``super()`` finds only what a base has, and ``a or b`` cannot be
    overridden. The last matters for the flag alone, where it says which of two settings wins; there its operands are
    evaluated at once.
    """
    _Adapter().visit(tree)
    return ast.fix_missing_locations(tree)


class _Adapter(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _CONVERSIONS:
            kind = ast.copy_location(ast.Constant(node.func.id), node)
            node.args.insert(0, kind)
            node.func = ast.copy_location(ast.Name(CONVERT, ast.Load()), node.func)
        elif isinstance(node.func, ast.Name) and node.func.id == "super":
            return ast.copy_location(ast.Call(ast.Name(PARENT, ast.Load()), [node], []), node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if any(_is_flag(target) for target in node.targets):
            node.value = _combined(node.value)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        self.generic_visit(node)
        if node.arg == FLAG:
            node.value = _combined(node.value)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        node.values = [
            _combined(value) if isinstance(key, ast.Constant) and key.value == FLAG else value
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return node


def _is_flag(target: ast.expr) -> bool:
    if isinstance(target, ast.Attribute):
        return target.attr == FLAG
    return isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value == FLAG


def _combined(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
        return ast.copy_location(ast.Call(ast.Name(EITHER, ast.Load()), value.values, []), value)
    return value
