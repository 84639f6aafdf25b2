"""Recipes in every spelling that people use: the second grammar, small programs of many forms.

`recipes` draws deep control flow over few forms; here one or two uses of the flag are written in any of the forms of
public code, with what stands around them: decorators, comments, other statements, line ends, encodings.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from tests.python.recipes import World, indent

F = "use_megatron_fsdp"
ROOTS = ("cfg", "recipe_cfg", "container")
VALUES = st.sampled_from(["True", "True", "False", "e.a", "e.b", "not e.b", "(e.a and e.b)"])

FLAG_LINES = (
    "{r}.dist.{F} = {v}",
    "{r}.dist.{F} = {v}",
    "{r}.dist.{F} = {v}  # why",
    "{r}.dist.{F}: bool = {v}",
    "{r}.ddp.{F} = {v}",
    "{r}.dist.{F} = {v}; {r}.ddp.{F} = {w}",
    "{r}.ddp.{F} = {v}\n{r}.dist.{F} = {w}",
    "{r}.dist.{F} = {r}.ddp.{F} = {v}",
    "{r}.ddp.{F} = {r}.dist.{F} = {v}",
    "{r}.dist.{F}, {r}.ddp.{F} = {v}, {w}",
    'setattr({r}.dist, "{F}", {v})',
    'setattr({r}.ddp, "{F}", {v})',
    "{r}.dist.{F} = (\n    {v}  # broken\n)",
    "{r}.dist.{F} = \\\n    {v}",
    "{r}.dist = Dist({F}={v}, timeout=1)",
    "{r}.dist = Dist(\n    timeout=1,\n    {F}={v},  # why\n)",
    "{r}.ddp = DDP({F}={v})",
    "{r}.ddp = DDP(overlap=1)",
    "{r}.dist, {r}.ddp = Dist({F}={v}), DDP({F}={w})",
    "{r}.dist = replace({r}.dist, {F}={v})",
    "{r}.ddp = replace({r}.ddp, {F}={v})",
    "section = {r}.dist\nsection.{F} = {v}",
    "whole = {r}\nwhole.dist.{F} = {v}\nwhole.ddp.{F} = {w}",
    "{r}.dist.{F} |= {v}",
    "{r}.dist.{F} = {r}.ddp.{F}",
    "{r}.ddp.{F} = {r}.dist.{F}",
    "{r}.dist.{F} = {v} if e.a else {w}",
    "for section in ({r}.dist, {r}.ddp):\n    section.{F} = {v}",
    'if hasattr({r}.dist, "{F}"):\n    {r}.dist.{F} = {v}',
    "shared({r})",
)
READS = (
    "if {r}.dist.{F}:\n    look({r})",
    "note({r}.dist.{F} or {r}.ddp.{F})",
    "note({r}.ddp.{F} and {r}.dist.{F})",
    "note(not {r}.dist.{F})",
    "assert {r}.dist.{F} in (True, False)",
    "note([{r}.dist.{F} for _ in range(2)])",
    "note(f'{{{r}.dist.{F}}}')",
    "note(keyword(use_megatron_fsdp={r}.dist.{F}))",
    "note((lambda: {r}.dist.{F})())",
    "if (on := {r}.dist.{F}):\n    note(on)",
    'note(getattr({r}.dist, "{F}", False))',
)
OTHERS = (
    "look({r})",
    "{r}.train.steps = 3",
    '{r}.checkpoint.ckpt_format = "torch_dist"',
    "{r}.ddp.average_in_collective = False",
    '{r}.ddp.data_parallel_sharding_strategy = "optim"',
    "note(0)\n# a comment: é",
    "cache: dict[str, int] = {{}}",
    "kwargs = {{'{F}': True}}",
    "note(keyword({F}=True))",
    "model.{F} = e.a",
    "'''a string\n    over lines'''",
    "note(1) if e.a else note(2)",
    "e.gone = e.lost = 0\ndel e.gone, e.lost",
    "if e.a and e.b: return {r}",
)
AROUND: tuple[Callable[[list[str]], list[str]], ...] = (
    lambda b: b,
    lambda b: b,
    lambda b: b,
    lambda b: ["if cond(0):", *indent(b)],
    lambda b: ["if cond(0):", "    note(0)", "elif cond(1):", *indent(b), "else:", "    note(3)"],
    lambda b: ["with quiet() as q:", *indent(b)],
    lambda b: ["try:", *indent(b), "finally:", "    note(4)"],
    lambda b: ["try:", *indent([*b, "fail(2)"]), "except (ValueError, KeyError) as error:", "    note(5)"],
    lambda b: ["for i in range(count(1)):", *indent(b), "else:", "    note(6)"],
    lambda b: ["match cond(3):", "    case True:", *indent(indent(b)), "    case _:", "        note(7)"],
    lambda b: ["while again(4):", *indent(b)],
    lambda b: ["if (deep := cond(5)):", *indent(b)],
    lambda b: ["def inner(e=e):", *indent([*b, "return None"]), "inner()"],
)
HEADS = ("def recipe(e):", "@plain\ndef recipe(e, *, x: dict[str, int] = {}) -> object:", "async_ = 1\ndef recipe(e):")
SHARED = (
    "def shared(cfg):\n    note(8)\n",
    f"def shared(cfg):\n    cfg.ddp.{F} = True\n",
    f"def shared(cfg):\n    cfg.dist.{F} = True\n    cfg.ddp.{F} = True\n",
)


@st.composite
def pieces(draw: st.DrawFn, root: str) -> list[str]:
    forms = draw(st.sampled_from([FLAG_LINES, FLAG_LINES, READS, OTHERS, OTHERS]))
    form = draw(st.sampled_from(forms))
    text = form.format(r=root, F=F, v=draw(VALUES), w=draw(VALUES))
    return draw(st.sampled_from(AROUND))(text.split("\n"))


@st.composite
def programs(draw: st.DrawFn) -> str:
    root = draw(st.sampled_from(ROOTS))
    parts = draw(st.lists(pieces(root), min_size=1, max_size=4))
    # Two closures share a config that is no scope of theirs: what one leaves is not seen from the other.
    closures = [part for part in parts if part[0].startswith("def inner")]
    body = [line for part in parts if part not in closures[1:] for line in part]
    # A closure over a base of the file: what it stores in ddp is not known to lie over that base's dist.
    closes = any(line.startswith("def inner") for line in body)
    start = draw(st.sampled_from(["base(e)", "base(e)", "base(e)" if closes else "derived(e)"]))
    setup = ["model = ns()"]
    lines = [draw(st.sampled_from(HEADS)), *indent([f"{root} = {start}", *setup, *body, f"return {root}"])]
    first = draw(st.sampled_from(FLAG_LINES[:5])).format(r="cfg", F=F, v="True")
    derived = f"def derived(e):\n    cfg = base(e)\n    {first}\n    return cfg\n"
    return draw(st.sampled_from(SHARED)) + "\n\n" + derived + "\n\n" + "\n".join(lines) + "\n"


# ── Running them ────────────────────────────────────────────────────────────────────────────────────────────────────

DEFAULTS = {"average_in_collective": True, "data_parallel_sharding_strategy": "no_shard"}


class Section:
    """A section of a config. In the old world, to read its flag is to read what old Bridge made of both."""

    def __init__(self, owner: Config | None = None, **fields: object) -> None:
        self.__dict__.update(fields, owner=owner)

    def __getattribute__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "__dict__")
        owner = fields.get("owner")
        if name == F and owner is not None and owner.old:
            return owner.flag()
        return object.__getattribute__(self, name)


class Config:
    def __init__(self, *, old: bool, dist: Section, ddp: Section) -> None:
        self.old = old
        self.checkpoint = SimpleNamespace(ckpt_format="torch_dist")
        self.train = SimpleNamespace()
        self.dist, self.ddp = dist, ddp

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Section):
            value.__dict__["owner"] = self
        object.__setattr__(self, name, value)

    def flag(self) -> bool:
        old = self.old and self.dist.__dict__.get(F, False)
        return bool(old or self.ddp.__dict__.get(F, False))


class Written(World):
    """A world for these programs."""

    def config(self, dist: bool, ddp: bool) -> Any:
        flag = (dist or ddp) if self.new else ddp
        old = {} if self.new else {F: dist}
        return Config(old=not self.new, dist=Section(**old), ddp=Section(**DEFAULTS, **{F: flag}))

    def flag(self, cfg: Any) -> bool:
        return bool(cfg.flag())

    def names(self) -> dict[str, Any]:
        def dist(**words: Any) -> Section:
            if self.new and F in words:
                raise TypeError(F)
            return Section(**({} if self.new else {F: False}), **words) if F not in words else Section(**words)

        def ddp(**words: Any) -> Section:
            return Section(**({**DEFAULTS, F: False} | words))

        def replace(section: Section, **words: Any) -> Section:
            if self.new and F in words and F not in vars(section):
                raise TypeError(F)
            return Section(**(vars(section) | words | {"owner": None}))

        return super().names() | {
            "note": self.seen.append,
            "keyword": lambda **words: words,
            "quiet": nullcontext,
            "plain": lambda function: function,
            "ns": SimpleNamespace,
            "replace": replace,
            "Dist": dist,
            "DistributedInitConfig": dist,
            "DDP": ddp,
            "DistributedDataParallelConfig": ddp,
        }
