"""Sightings in Python that are more than another name: checks against a type, and keywords of a call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fsdp_migrate.findings import Edit
from fsdp_migrate.neighbours.certain import Certain, is_below, is_config
from fsdp_migrate.neighbours.names import (
    ADAPTED,
    FP32_WEIGHTS,
    FSDP_MODULES,
    FSDP_TYPE,
    FULLY_SHARD,
    NAN_KEYWORD,
    NEW_NAN_KEYWORD,
    NEW_WEIGHTS,
    OLD_WEIGHTS,
    POLICY,
    RECIPE_KEYWORD,
    RECIPES,
    SHARD_FUNCTIONS,
    SHARD_PACKAGES,
)
from fsdp_migrate.neighbours.sighting import Sighting, sighting
from fsdp_migrate.python.project import Module
from fsdp_migrate.python.values import dotted
from fsdp_migrate.upstream import FLAG, NEW_SECTION, release_of

_TYPES = f"{ADAPTED}V1 and {ADAPTED}V2"
_NO_TYPE = f"Megatron-Core 0.20 has the classes {_TYPES}; older ones have only {ADAPTED}: choose by what is installed"
_DEFAULT = "its default is False now, where it was True"
_FORWARDED = "the call also forwards keywords by **; change it by hand"
_POLICY = "both keywords become one mixed_precision_policy=; write it by hand"
_DTYPE = "None keeps the weights in the model's own type, as False did; look at what the optimizer expects"
_OTHER = f"True is the default of {NEW_WEIGHTS}, torch.float32, and False is None; change it by hand"
_OPTIMIZER = "the model is no argument any more; take it away by hand"
_OTHER_PARAMETERS = "recipes have no parameters since Bridge 0.3.1: others that are given here go, too"
_BY_HAND = "only a True or False in a call that is stored in a name, in lines of its own, can be moved; do it by hand"


class Calls(Certain):
    """The reader for one file."""

    def __init__(self, module: Module, target: str) -> None:
        super().__init__(module)
        self.has_type = release_of(target) != "main"
        # A field of the class in this very file: it is the library, at a release that has it.
        self.is_old = any(
            isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and n.target.id == OLD_WEIGHTS
            for n in self.nodes
        )

        self.bound = {n.id for n in self.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.bound |= {n.arg for n in self.nodes if isinstance(n, ast.arg)}

    def run(self) -> Iterator[Sighting]:
        for node in self.nodes:
            if isinstance(node, ast.Call) and not self.is_compatible(node):
                yield from self._call(node)
            elif isinstance(node, ast.ClassDef):
                for base in node.bases:
                    yield from self._type(base)
            elif isinstance(node, ast.Attribute) and node.attr == OLD_WEIGHTS:
                yield from self._weights(node)

    def _call(self, node: ast.Call) -> Iterator[Sighting]:
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                for kind in _members(kinds):
                    yield from self._type(kind)
                return
        if self.section_of(node.func) == NEW_SECTION:
            yield from self._weights_keyword(node)
            return
        package, name = self.origin_of(node.func)
        if package and (dotted(node.func) or ("",))[0] in self.bound:
            return
        if name in SHARD_FUNCTIONS and any(is_below(package, p) for p in SHARD_PACKAGES):
            yield from self._shard(node, name)
        elif is_below(package, RECIPES):
            yield from self._recipe(node)

    def _type(self, node: ast.expr) -> Iterator[Sighting]:
        package, name = self.origin_of(node)
        if name == ADAPTED and package in FSDP_MODULES:
            span = self.source.span(node)
            yield sighting("python", self.lines, FSDP_TYPE, span, _TYPES, why=_NO_TYPE, later=self.has_type)

    def _weights(self, node: ast.Attribute) -> Iterator[Sighting]:
        owner, statement = node.value, self.parents[id(node)]
        if not isinstance(owner, ast.Attribute) or owner.attr != NEW_SECTION or not is_config(owner.value):
            return
        if not self.is_bridge or self.is_old or self.is_compatible(node):
            return
        changes: tuple[Edit, ...] = ()
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is(statement.value, False):
            value = self.source.span(statement.value)
            changes = Edit(*self.name_of(node), NEW_WEIGHTS), Edit(*value, "None")
        span = self.source.span(owner)[0], self.name_of(node)[1]
        why = _DTYPE if changes else _OTHER
        new = f"{NEW_SECTION}.{NEW_WEIGHTS}"
        yield sighting("python", self.lines, FP32_WEIGHTS, span, new, changes, safe=False, why=why)

    def _weights_keyword(self, node: ast.Call) -> Iterator[Sighting]:
        keyword = next((k for k in node.keywords if k.arg == OLD_WEIGHTS), None)
        if keyword is None or self.is_old:
            return
        given = {k.arg for k in node.keywords}
        changes: tuple[Edit, ...] = ()
        why = _FORWARDED if None in given else _OTHER
        if not given & {None, NEW_WEIGHTS}:
            if _is(keyword.value, True):
                changes = self._without(node, keyword)
            elif _is(keyword.value, False):
                changes = (Edit(*self.source.span(keyword), f"{NEW_WEIGHTS}=None"),)
                why = _DTYPE
        safe = _is(keyword.value, True)
        span = self._arg(keyword)
        yield sighting("python", self.lines, FP32_WEIGHTS, span, NEW_WEIGHTS, changes, safe=safe, why=why)

    def _shard(self, node: ast.Call, name: str) -> Iterator[Sighting]:
        given = {k.arg for k in node.keywords}
        for keyword in node.keywords:
            span = self._arg(keyword)
            if keyword.arg in POLICY:
                yield sighting("python", self.lines, FULLY_SHARD, span, POLICY[keyword.arg], why=_POLICY)
            elif keyword.arg == NAN_KEYWORD:
                changes = (Edit(*span, NEW_NAN_KEYWORD),) if not given & {None, NEW_NAN_KEYWORD} else ()
                why = _DEFAULT if changes else _FORWARDED
                yield sighting("python", self.lines, FULLY_SHARD, span, NEW_NAN_KEYWORD, changes, safe=False, why=why)
        if name == "fully_shard_optimizer":
            first = node.args[0] if len(node.args) > 1 and not isinstance(node.args[1], ast.Constant) else None
            model = next((k for k in node.keywords if k.arg == "model"), None)
            if first is not None or model is not None:
                place = self._arg(model) if model is not None else self.source.span(node.func)
                yield sighting("python", self.lines, FULLY_SHARD, place, f"{name}(optimizer)", why=_OPTIMIZER)

    def _recipe(self, node: ast.Call) -> Iterator[Sighting]:
        keyword = next((k for k in node.keywords if k.arg == FLAG), None)
        if keyword is None:
            return
        new, changes = f"cfg.{NEW_SECTION}.{FLAG}", self._without(node, keyword)
        on = _is(keyword.value, True)
        if on:
            behind = self._behind(node)
            changes = (*changes, behind) if changes and behind else ()
        elif not _is(keyword.value, False):
            changes = ()
        why = _OTHER_PARAMETERS if changes else _BY_HAND
        span = self._arg(keyword)
        yield sighting("python", self.lines, RECIPE_KEYWORD, span, new, changes, safe=False, why=why)

    def _behind(self, node: ast.Call) -> Edit | None:
        """The flag in a line below the statement that stores the call's outcome, if it has its lines for itself."""
        statement = self.parents[id(node)]
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            return None
        name = target.id
        start, end = self.source.span(statement)
        text = self.lines.text
        indent = text[text.rfind("\n", 0, start) + 1 : start]
        rest = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?=(\r?\n)|\Z)").match(text, end)
        if indent.strip() or rest is None:
            return None
        newline = "\r\n" if "\r\n" in text else "\n"
        return Edit(rest.end(), rest.end(), f"{newline}{indent}{name}.{NEW_SECTION}.{FLAG} = True")

    def _without(self, node: ast.Call, keyword: ast.keyword) -> tuple[Edit, ...]:
        """The call without a keyword; none where a comment stands between."""
        arguments = sorted([*map(self.source.span, node.args), *map(self.source.span, node.keywords)])
        start, end = self.source.span(keyword)
        at = arguments.index((start, end))
        if len(arguments) == 1:
            start, end = self.source.span(node.func)[1], self.source.span(node)[1]
            alone = re.compile(r"\(\s*\w+=\w+\s*,?\s*\)").fullmatch(self.lines.text, start, end)
            return (Edit(start, end, "()"),) if alone else ()
        if at + 1 < len(arguments):
            end = arguments[at + 1][0]
        else:
            start = arguments[at - 1][1]
        return () if re.search(r"[#()]", self.lines.text[start:end]) else (Edit(start, end, ""),)

    def _arg(self, keyword: ast.keyword) -> tuple[int, int]:
        start = self.source.span(keyword)[0]
        return start, start + len(keyword.arg or "")


def _members(kinds: ast.expr) -> Iterator[ast.expr]:
    """The types that a check names: one, a tuple, or a union."""
    match kinds:
        case ast.Tuple(elts=several):
            for one in several:
                yield from _members(one)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _members(left)
            yield from _members(right)
        case _:
            yield kinds


def _is(node: ast.expr, literal: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is literal
