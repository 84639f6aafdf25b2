"""What a Python file shows about its names: where they come from, and whether they are old on purpose."""

from __future__ import annotations

import ast

from fsdp_migrate.lines import Lines
from fsdp_migrate.neighbours.names import CLASSES
from fsdp_migrate.python.project import Module
from fsdp_migrate.python.values import dotted
from fsdp_migrate.upstream import BRIDGE_PACKAGE

_COMPATIBLE = frozenset({"AttributeError", "TypeError", "ImportError", "ModuleNotFoundError", "Exception"})


class Certain:
    """One file with what is certain about it."""

    def __init__(self, module: Module) -> None:
        self.module, self.source = module, module.source
        self.lines = Lines(module.source.text)
        self.nodes = list(ast.walk(module.tree))
        self.parents = {id(c): n for n in self.nodes for c in ast.iter_child_nodes(n)}
        self.is_bridge = any(is_below(name, BRIDGE_PACKAGE) for name in module.imported)

    def section_of(self, func: ast.expr) -> str | None:
        """The section that a call makes, if its class is certain."""
        if not isinstance(func, ast.Name) or func.id not in self.module.imports:
            return None
        origin, name = self.module.imports[func.id]
        section, packages = CLASSES.get(name, ("", ()))
        return section if any(is_below(origin, package) for package in packages) else None

    def origin_of(self, node: ast.expr) -> tuple[str, str]:
        """The module and the name that an expression refers to by an import; empty where it is none."""
        parts = dotted(node)
        if not parts or parts[0] not in self.module.imports:
            return "", ""
        path = [p for p in (*self.module.imports[parts[0]], *parts[1:]) if p]
        whole, _, name = ".".join(path).rpartition(".")
        return whole, name

    def name_of(self, node: ast.Attribute) -> tuple[int, int]:
        """Where the last name of a chain stands."""
        end = self.source.span(node)[1]
        return end - len(node.attr), end

    def is_compatible(self, node: ast.AST) -> bool:
        """Whether it stands in code that tries one name and then the other, on purpose."""
        while (parent := self.parents.get(id(node))) is not None:
            if isinstance(parent, ast.Try) and any(_catches(handler) for handler in parent.handlers):
                return True
            if isinstance(parent, ast.If) and "version" in ast.unparse(parent.test).lower():
                return True
            node = parent
        return False


def is_below(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def is_config(root: ast.expr) -> bool:
    """NeMo's strategy has a section of the same name, and so have the schemas that mirror Megatron-LM's."""
    name = root.attr if isinstance(root, ast.Attribute) else root.id if isinstance(root, ast.Name) else ""
    return name not in ("", "strategy", "megatron", "megatron_cfg", "mcore_config")


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _COMPATIBLE) for kind in kinds)
