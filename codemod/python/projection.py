"""From what was read in a scope to the plan's events for one root, with helpers and base recipes followed.

A base recipe's states come from its own plan; a helper's events stand among its caller's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from fsdp_migrate.python.project import Module, Project
from fsdp_migrate.python.reading import Reader
from fsdp_migrate.python.sites import STALE, Fork, Function, Item, Pass, Path, relevant
from fsdp_migrate.python.values import dotted
from fsdp_migrate.transforms import plan


def project_root(items: Iterable[Item], root: Path, reader: Reader, names: frozenset[str] | None = None) -> plan.Block:
    """The events of one root; everything that cannot matter to it is left out."""
    items = list(items)
    if names is None:
        names = frozenset(_needed(items, root))
    return tuple(_project(items, root, reader, names))


def _needed(items: Iterable[Item], root: Path) -> Iterator[str]:
    for item in items:
        if isinstance(item, Fork):
            for block in item.blocks:
                yield from _needed(block, root)
        elif isinstance(item, tuple) and item[0] == root and isinstance(item[1], plan.Store):
            for atom in item[1].value:
                if isinstance(atom, plan.Symbol):
                    yield from atom.reads


def _project(items: Iterable[Item], root: Path, reader: Reader, names: frozenset[str]) -> Iterator[plan.Event]:
    for item in items:
        match item:
            case Fork(kind, blocks):
                inner = [tuple(_project(block, root, reader, names)) for block in blocks]
                if not any(inner):
                    continue
                if kind == "branch":
                    yield plan.Branch(tuple(inner))
                elif kind == "loop":
                    yield plan.Loop(inner[0], inner[1])
                else:
                    body, *handlers, orelse, final = inner
                    yield plan.Try(body, tuple(handlers), orelse, final)
            case Pass(number, path, opaque, call):
                if not relevant(root, path):
                    continue
                if opaque:
                    helper = helper_body(call, path, root, reader) if call is not None else None
                    yield plan.Opaque(number) if helper is None else plan.Helper(number, helper)
                else:
                    yield plan.Observe(number)
            case plan.Touch(number, touched):
                hit = frozenset(t for t in touched if any(plan.overlap(t, n) for n in names))
                if hit:
                    yield plan.Touch(number, hit)
            case plan.Leave() | plan.Observe() | plan.MayRaise():
                yield item
            case (path, plan.Root() as event):
                if path == root:
                    call_ = reader.calls.get(event.id)
                    yield event if call_ is None else replace(event, bases=bases_of(call_, reader))
                elif root[: len(path)] == path:
                    yield plan.Root(event.id, double=event.double)
            case (path, event):
                if path == root:
                    yield event


def bases_of(call: ast.Call, reader: Reader) -> tuple[plan.Base, ...]:
    """The states in which the called recipe leaves its result, if the project has it."""
    name = dotted(call.func)
    if name is None or reader.depth > 8 or name[0] in reader.nested:
        return ()
    found = reader.project.function(reader.module, ".".join(name))
    if found is None:
        return ()
    reader.reading.bases.append(found[1])
    bases = returned_bases(*found, reader.project, reader.depth + 1)
    if reader.project.moved and reader.depth == 0:
        return tuple(map(plan.moved_base, bases))
    return bases if found[0] is reader.module else tuple(replace(b, here=False) for b in bases)


def helper_body(call: ast.Call, path: Path, root: Path, reader: Reader) -> plan.Block | None:
    """The events of a project function that receives the root itself, or None if it cannot be seen into."""
    name = dotted(call.func)
    if path != root or name is None or reader.depth > 3 or name[0] in reader.nested:
        return None
    found = reader.project.function(reader.module, ".".join(name))
    if found is None:
        return None
    module, function = found
    parameter = _parameter(call, path, function, reader)
    if parameter is None or function is reader.reading.scope or function.decorator_list:
        return None
    inner = Reader(module, reader.project, function, reader.depth + 1)
    reading = inner.read()
    if module is reader.module:
        reader.reading.bases.append(function)
    if reading.guarded or reading.blocked:
        return None
    return project_root(reading.items, (parameter,), inner)


def _parameter(call: ast.Call, path: Path, function: Function, reader: Reader) -> str | None:
    positional = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    found = [positional[i] for i, a in enumerate(call.args) if i < len(positional) and reader.path(a) == path]
    found += [k.arg for k in call.keywords if k.arg and reader.path(k.value) == path]
    return found[0] if len(found) == 1 else None


def returned_bases(module: Module, function: Function, project: Project, depth: int) -> tuple[plan.Base, ...]:
    """The states in which a recipe function leaves the config it returns; empty if that cannot be told."""
    key = (function, "bases")
    cache = project.memory
    if key in cache:
        return cache[key]  # type: ignore[return-value]
    cache[key] = ()
    if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function)) or function.decorator_list:
        return ()
    reader = Reader(module, project, function, depth)
    reading = reader.read()
    roots = reading.returned
    if len(roots) != 1 or None in roots or reading.guarded:
        return ()
    root = next(iter(roots))
    assert root is not None
    if root[0] == STALE or any(b.root[-len(root) :] == root or root[0] in b.root for b in reading.blocked):
        return ()
    block = project_root(reading.items, root, reader)
    if len(root) != 1 or root[0] in reading.parameters:
        return ()
    cache[key] = plan.bases_of(block)
    return cache[key]  # type: ignore[return-value]
