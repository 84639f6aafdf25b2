"""Project functions that make a section: what they put into it, and what they pass on."""

from __future__ import annotations

import ast

from fsdp_migrate.python.project import Module, Project
from fsdp_migrate.python.values import dotted, literal
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import FLAG, SECTION_CLASSES, WATCHED

Function = ast.FunctionDef | ast.AsyncFunctionDef
Made = tuple[plan.Expression | None, tuple[tuple[str, object], ...], bool]
UNSEEN: Made = (None, (), False)


def returned_section(module: Module, function: Function, project: Project, call: ast.Call, section: str) -> Made:
    """Flag, watched settings and openness of the section that a helper returns for this call.

    Only straight-line helpers are understood: dict literals, ``update`` with the caller's keywords, one return. The
    last value says whether a keyword added to the call reaches the constructor.
    """
    del module, project
    extra = function.args.kwarg.arg if function.args.kwarg else None
    named = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    if call.args or any(k.arg is None or k.arg in named for k in call.keywords) or function.decorator_list:
        return UNSEEN
    given = {k.arg: k.value for k in call.keywords if k.arg}
    dicts: dict[str, dict[str, object]] = {extra: {k: literal(v) for k, v in given.items()}} if extra else {}
    body = function.body[1:] if _is_docstring(function.body[0]) else function.body
    for statement in body:
        match statement:
            case ast.Assign([ast.Name(name)], ast.Dict() as value):
                known = _dict(value, dicts)
                if known is None:
                    return UNSEEN
                dicts[name] = known
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("dict"), [], keywords)):
                known = _keywords(keywords, dicts)
                if known is None:
                    return UNSEEN
                dicts[name] = known
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "update"), [ast.Name(other)], [])):
                if name not in dicts or other not in dicts:
                    return UNSEEN
                dicts[name] = dicts[name] | dicts[other]
            case ast.Return(ast.Call() as made):
                return _made(made, dicts, extra, section)
            case _:
                return UNSEEN
    return UNSEEN


def _made(call: ast.Call, dicts: dict[str, dict[str, object]], extra: str | None, section: str) -> Made:
    path = dotted(call.func)
    if path is None or SECTION_CLASSES.get(path[-1]) != section or call.args:
        return UNSEEN
    known = _keywords(call.keywords, dicts)
    if known is None:
        return UNSEEN
    flag = known.get(FLAG, False)
    if not isinstance(flag, bool):
        return UNSEEN
    settings = tuple(
        (n, known[n.split(".")[1]]) for n in WATCHED if n.split(".")[0] == section and n.split(".")[1] in known
    )
    forwards = extra is not None and FLAG not in known
    return (plan.TRUE if flag else plan.FALSE), settings, forwards


def _keywords(keywords: list[ast.keyword], dicts: dict[str, dict[str, object]]) -> dict[str, object] | None:
    known: dict[str, object] = {}
    for keyword in keywords:
        if keyword.arg is not None:
            known[keyword.arg] = literal(keyword.value)
        elif isinstance(keyword.value, ast.Name) and keyword.value.id in dicts:
            known |= dicts[keyword.value.id]
        else:
            return None
    return known


def _dict(node: ast.Dict, dicts: dict[str, dict[str, object]]) -> dict[str, object] | None:
    known: dict[str, object] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None and isinstance(value, ast.Name) and value.id in dicts:
            known |= dicts[value.id]
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            known[key.value] = literal(value)
        else:
            return None
    return known


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def forwards_to(module: Module, function: Function, class_name: str) -> bool:
    """Whether a function hands its ``**keywords`` to a constructor of `class_name`."""
    del module
    if function.args.kwarg is None:
        return False
    names = {function.args.kwarg.arg}
    calls = []
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            calls.append(node)
            match node.func:
                case ast.Attribute(ast.Name(target), "update"):
                    if any(isinstance(a, ast.Name) and a.id in names for a in node.args):
                        names.add(target)
    return any(
        (dotted(c.func) or ("",))[-1] == class_name
        and any(k.arg is None and isinstance(k.value, ast.Name) and k.value.id in names for k in c.keywords)
        for c in calls
    )
