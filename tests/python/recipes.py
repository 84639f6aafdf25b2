"""Generated recipes, and an oracle that decides by running them whether a migration kept what they mean.

A recipe is executed twice: as it was, where Bridge computes ``dist OR ddp``, and as it became, where Bridge reads
``ddp``. Every call that receives the config looks at it; both runs must have seen the same.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

ON = "optim_grads_params"

# ── Programs ────────────────────────────────────────────────────────────────────────────────────────────────────────

values = st.sampled_from(["True", "True", "False", "e.a", "e.b", "e.a or e.b", "not e.a", "call(e)"])


@st.composite
def simple(draw: st.DrawFn) -> list[str]:
    kind = draw(st.integers(0, 37))
    value = draw(values)
    if kind < 7:
        return [f"cfg.dist.use_megatron_fsdp = {value}"]
    if kind < 11:
        return [f"cfg.ddp.use_megatron_fsdp = {value}"]
    options = {
        11: ["look(cfg)"],
        12: ["return cfg"],
        13: ["cfg.train.steps = 3"],
        14: ["e.a = e.b"],
        15: ["cfg.ddp = DDP(overlap=1)"],
        16: ["cfg.dist = Dist(timeout=1)"],
        17: ["d = cfg.dist"],
        18: ["d.use_megatron_fsdp = True"],
        19: ["c = cfg"],
        20: [f"c.dist.use_megatron_fsdp = {value}"],
        21: ["cfg = other(e)"],
        22: ['cfg.checkpoint.ckpt_format = "torch_dist"'],
        23: ['cfg.ddp.data_parallel_sharding_strategy = "optim"'],
        24: [f"cfg.dist.use_megatron_fsdp = cfg.ddp.use_megatron_fsdp = {value}"],
        25: ['setattr(cfg.dist, "use_megatron_fsdp", True)'],
        26: [f"cfg.dist.use_megatron_fsdp |= {value}"],
        27: [f"cfg.dist = replace(cfg.dist, use_megatron_fsdp={value})"],
        28: [f"x, cfg.dist.use_megatron_fsdp = 1, {value}"],
        29: [f"look(cfg); cfg.dist.use_megatron_fsdp = {value}"],
        30: [f"cfg.dist = Dist(use_megatron_fsdp={value}, timeout=1)"],
        31: [f"cfg.ddp = DDP(use_megatron_fsdp={value})"],
        32: ["def inner():", f"    cfg.dist.use_megatron_fsdp = {value}", "inner()"],
        33: ["c = other(e)"],
        34: ["(cfg).dist.use_megatron_fsdp = \\", f"    {value}"],
        # Other people's switches of the same name.
        35: ["model.use_megatron_fsdp = True", 'keywords["use_megatron_fsdp"] = True'],
        36: ["trainer.strategy.ddp.use_megatron_fsdp = True", "get_model(use_megatron_fsdp=False)"],
        37: ["if hasattr(cfg.dist, 'other'): cfg.dist.use_megatron_fsdp = True"],
    }
    return options[kind]


def indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def compound(draw: st.DrawFn, inner: st.SearchStrategy[list[str]]) -> list[str]:
    kind = draw(st.integers(0, 8))
    number = draw(st.integers(0, 5))
    body = draw(st.lists(inner, min_size=1, max_size=2))
    flat = [line for part in body for line in part]
    if kind < 3:
        lines = [f"if cond({number}):", *indent(flat)]
        if draw(st.booleans()):
            orelse = [line for part in draw(st.lists(inner, min_size=1, max_size=2)) for line in part]
            lines += ["else:", *indent(orelse)]
        return lines
    if kind == 6:
        return [f"match cond({number}):", "    case True:", *indent(indent(flat)), "    case _:", "        look(None)"]
    if kind == 7:
        return ["with manager() as x:", *indent(flat)]
    if kind == 8:
        return ["try:", f"    fail({number})", "except ValueError:", *indent(flat), "finally:", "    look(None)"]
    if kind == 3:
        return [f"for _ in range(count({number})):", *indent(flat)]
    if kind == 4:
        return ["try:", *indent([*flat, f"fail({number})"]), "except ValueError:", "    look(None)"]
    return [f"while again({number}):", *indent(flat)]


statements = st.recursive(simple(), lambda inner: compound(inner), max_leaves=6)


@st.composite
def functions(draw: st.DrawFn, name: str = "recipe", start: str = "base(e)") -> str:
    body = [line for part in draw(st.lists(statements, min_size=1, max_size=6)) for line in part]
    head = [f"def {name}(e):", f"    cfg = {start}", "    c = cfg", "    d = cfg.dist"]
    lines = [*head, *indent(body), "    return cfg"]
    return "\n".join(lines) + "\n"


@st.composite
def small_functions(draw: st.DrawFn, name: str = "recipe", start: str = "base(e)") -> str:
    """Few statements, of which one may have a block, with comments."""
    parts = draw(st.lists(simple(), min_size=1, max_size=3))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), draw(compound(simple())))
    lines = [line for part in parts for line in part]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(lines) - 1))
        if not lines[at].endswith("\\"):
            lines[at] += draw(st.sampled_from(["  # why", "  # dist stays", " #"]))
    head = [f"def {name}(e):", f"    cfg = {start}", "    c = cfg", "    d = cfg.dist"]
    return "\n".join([*head, *indent(lines), "    return cfg", ""])


@st.composite
def containers(draw: st.DrawFn) -> str:
    """A config that is made here, its sections in the call or in variables."""
    dist, ddp = (
        draw(values),
        draw(st.sampled_from(["", "overlap=1", "use_megatron_fsdp=True", "use_megatron_fsdp=e.a"])),
    )
    checkpoint = draw(st.sampled_from(["Checkpoint()", 'Checkpoint(ckpt_format="torch_dist")']))
    old, new = f"Dist(use_megatron_fsdp={dist})", f"DDP({ddp})"
    lines = []
    if draw(st.booleans()):
        lines, old, new = [f"dist = {old}", f"ddp = {new}"], "dist", "ddp"
        lines = draw(st.permutations(lines))
    lines = [*lines, f"cfg = ConfigContainer(dist={old}, ddp={new}, checkpoint={checkpoint})"]
    lines += [
        line for part in draw(st.lists(simple(), max_size=2)) for line in part if "c." not in line and "d." not in line
    ]
    return "\n".join(["def recipe(e):", *indent(lines), "    return cfg", ""])


@st.composite
def small_modules(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return draw(containers())
    if kind == 1:
        return draw(small_functions("shared")) + "\n\n" + draw(small_functions("recipe", "shared(e)"))
    return draw(small_functions())


@st.composite
def modules(draw: st.DrawFn) -> str:
    """One recipe over an unknown base, or over a recipe of the same file."""
    if draw(st.booleans()):
        return draw(functions())
    return draw(functions("shared", "base(e)")) + "\n\n" + draw(functions("recipe", "shared(e)"))


# ── The oracle ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class World:
    """One run: what conditions say, how often loops turn, what the unknown base holds."""

    conditions: tuple[bool, ...]
    a: bool
    b: bool
    base_dist: bool
    base_ddp: bool
    new: bool
    seen: list[object] = field(default_factory=list)
    turns: dict[int, int] = field(default_factory=dict)

    def config(self, dist: bool, ddp: bool) -> SimpleNamespace:
        old = {} if self.new else {"use_megatron_fsdp": dist}
        flag = (dist or ddp) if self.new else ddp
        return SimpleNamespace(
            dist=SimpleNamespace(**old),
            ddp=SimpleNamespace(
                use_megatron_fsdp=flag, data_parallel_sharding_strategy="no_shard", average_in_collective=True
            ),
            checkpoint=SimpleNamespace(ckpt_format="torch_dist"),
            train=SimpleNamespace(),
        )

    def flag(self, cfg: Any) -> bool:
        old = not self.new and cfg.dist.use_megatron_fsdp
        return bool(old or cfg.ddp.use_megatron_fsdp)

    def look(self, cfg: Any) -> None:
        if cfg is not None:
            self.seen.append(self.flag(cfg))

    def names(self) -> dict[str, Any]:
        def ddp(**keywords: Any) -> SimpleNamespace:
            made = {"use_megatron_fsdp": False, "average_in_collective": False}
            return SimpleNamespace(**({"data_parallel_sharding_strategy": "no_shard"} | made | keywords))

        def dist(**keywords: Any) -> SimpleNamespace:
            return SimpleNamespace(**(({} if self.new else {"use_megatron_fsdp": False}) | keywords))

        def again(number: int) -> bool:
            self.turns[number] = self.turns.get(number, 0) + 1
            return self.turns[number] <= int(self.conditions[number]) + 1

        def fail(number: int) -> None:
            if self.conditions[number]:
                raise ValueError

        def call(e: Any) -> bool:
            self.seen.append("called")
            return bool(e.a)

        def container(**sections: Any) -> SimpleNamespace:
            return SimpleNamespace(train=SimpleNamespace(), **sections)

        def checkpoint(**keywords: Any) -> SimpleNamespace:
            return SimpleNamespace(**({"ckpt_format": "torch_dist"} | keywords))

        def replace(section: SimpleNamespace, **changed: Any) -> SimpleNamespace:
            return SimpleNamespace(**(vars(section) | changed))

        return {
            "ConfigContainer": container,
            "Checkpoint": checkpoint,
            "CheckpointConfig": checkpoint,
            "replace": replace,
            "manager": nullcontext,
            "model": SimpleNamespace(),
            "keywords": {},
            "trainer": SimpleNamespace(strategy=SimpleNamespace(ddp=SimpleNamespace())),
            "get_model": lambda **_: None,
            "base": lambda e: self.config(self.base_dist, self.base_ddp),
            "other": lambda e: self.config(self.base_dist, self.base_ddp),
            "cond": lambda n: self.conditions[n],
            "count": lambda n: 2 if self.conditions[n] else 1,
            "again": again,
            "fail": fail,
            "look": self.look,
            "call": call,
            "DDP": ddp,
            "DistributedDataParallelConfig": ddp,
            "Dist": dist,
            "DistributedInitConfig": dist,
        }

    def run(self, code: Any) -> tuple[list[object], SimpleNamespace]:
        names = self.names()
        exec(code, names)  # the generated recipe
        cfg = names["recipe"](SimpleNamespace(a=self.a, b=self.b))
        self.look(cfg)
        return self.seen, cfg


def settings(cfg: Any) -> dict[str, object]:
    return {
        "strategy": cfg.ddp.data_parallel_sharding_strategy,
        "average": cfg.ddp.average_in_collective,
        "format": cfg.checkpoint.ckpt_format,
    }


def worlds(conditions: int = 6) -> list[tuple[tuple[bool, ...], bool, bool, bool, bool]]:
    """Enough worlds to tell programs apart: all bases and expressions, and a spread of conditions."""
    spread = [tuple(bool(n >> i & 1) for i in range(conditions)) for n in (0, 63, 21, 42, 11)]
    return [(c, a, b, dist, ddp) for c in spread for a, b, dist, ddp in product((False, True), repeat=4)]
