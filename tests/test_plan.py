"""The plan as a table: every pair of stores in every arrangement, judged by running the events with real booleans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product

import pytest

from fsdp_migrate.transforms.plan import (
    FALSE,
    TRUE,
    Action,
    Base,
    Block,
    Branch,
    Decision,
    Delete,
    Event,
    Expression,
    Flag,
    MoveAfter,
    Observe,
    Put,
    Rename,
    Root,
    Section,
    Store,
    Symbol,
    Touch,
    decide,
)

A: Expression = (Symbol("a", "a", frozenset({"a"})),)
B: Expression = (Symbol("b", "b", frozenset({"b"})),)
CALL: Expression = (Symbol("f()", "f()", pure=False),)
ON, OFF = frozenset({"True"}), frozenset[str]()

# ── The table ───────────────────────────────────────────────────────────────────────────────────────────────────────

VALUES: Mapping[str, Expression | None] = {"absent": None, "True": TRUE, "False": FALSE, "a": A, "b": B}
BASES: Mapping[str, tuple[bool, bool] | None] = {
    "unknown": None,
    "off": (False, False),
    "on_through_ddp": (False, True),
    "on_through_dist": (True, False),
    "on_through_both": (True, True),
}
ROOT, DIST, DDP, BETWEEN, END = 1, 2, 3, 4, 5
Pair = tuple[Block, Block, Block]


def same_block(first: Block, between: Block, second: Block) -> Block:
    return (*first, *between, *second)


def first_in_a_branch(first: Block, between: Block, second: Block) -> Block:
    return (Branch((first, ())), *between, *second)


def second_in_a_branch(first: Block, between: Block, second: Block) -> Block:
    return (*first, *between, Branch((second, ())))


def other_branch(first: Block, between: Block, second: Block) -> Block:
    return (Branch(((*first, *between), second)),)


SHAPES = (same_block, first_in_a_branch, second_in_a_branch, other_branch)


@dataclass(frozen=True)
class Row:
    """One program of the table: two stores, how they stand to each other, and where they start from."""

    dist: str
    ddp: str
    shape: str
    dist_first: bool
    observed: bool
    base: str

    def __str__(self) -> str:
        order = "dist_first" if self.dist_first else "ddp_first"
        between = "observed" if self.observed else "unobserved"
        return f"{self.dist}-{self.ddp}-{self.shape}-{order}-{between}-{self.base}"

    def block(self) -> Block:
        dist, ddp = VALUES[self.dist], VALUES[self.ddp]
        stores: tuple[Block, Block] = (
            () if dist is None else (Store(DIST, "dist", dist),),
            () if ddp is None else (Store(DDP, "ddp", ddp),),
        )
        first, second = stores if self.dist_first else reversed(stores)
        shape = {s.__name__: s for s in SHAPES}[self.shape]
        between: Block = (Observe(BETWEEN),) if self.observed else ()
        return (Root(ROOT, bases(self.base)), *shape(first, between, second), Observe(END, leaves=True))


def bases(name: str) -> tuple[Base, ...]:
    known = BASES[name]
    if known is None:
        return ()
    dist, ddp = (ON if on else OFF for on in known)
    return (Base(dist, ddp, dist | ddp),)


ROWS = [
    Row(dist, ddp, shape.__name__, dist_first, observed, base)
    for dist, ddp, shape, dist_first, observed, base in product(
        ("absent", "True", "False", "a"), VALUES, SHAPES, (True, False), (False, True), BASES
    )
]


@cache
def decided(row: Row) -> Decision:
    return decide(row.block(), companions=False)


# ── The oracle ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class World:
    """A run with real booleans: which arm is taken, what the names hold, what the base held."""

    arm: int
    names: Mapping[str, bool]
    base: tuple[bool, bool]
    actions: Mapping[int, Action] = field(default_factory=dict)
    dist: bool = False
    ddp: bool = False
    stored: frozenset[str] = frozenset()
    seen: list[frozenset[bool]] = field(default_factory=list)


def evaluate(expression: Expression, world: World, *, effective: bool) -> bool:
    def atom(it: Symbol | Flag | bool) -> bool:
        match it:
            case Symbol(key):
                return world.names[key]
            case Flag():
                return effective
        return it

    return any(atom(it) for it in expression)


def run_before(block: Iterable[Event], world: World, *, known: bool, declared: bool) -> None:
    """Old Bridge, which looks at ``dist or ddp``. Records what may be seen at each observation.

    Over an unknown base two more answers are right: that of a ddp store nobody moves, which a base's dist used to
    overrule, and, where it is declared, that of a dist store which a base's ddp used to overrule.
    """
    for event in block:
        match event:
            case Root():
                world.dist, world.ddp = world.base
            case Branch(arms):
                run_before(arms[world.arm], world, known=known, declared=declared)
            case Store(_, section, value):
                it = evaluate(value, world, effective=world.dist or world.ddp)
                world.stored |= {section}
                if section == "dist":
                    world.dist = it
                else:
                    world.ddp = it
            case Observe():
                right = {world.dist or world.ddp}
                if not known and world.stored == {"ddp"}:
                    right.add(world.ddp)
                if not known and declared and world.stored == {"dist"}:
                    right.add(world.dist)
                world.seen.append(frozenset(right))


def run_after(block: Iterable[Event], world: World) -> None:
    """New Bridge, which looks at ``ddp``. The base has been migrated, too."""
    for event in block:
        match event:
            case Root():
                world.ddp = any(world.base)
            case Branch(arms):
                run_after(arms[world.arm], world)
            case Store(number, section, value):
                match world.actions.get(number):
                    case Delete():
                        continue
                    case Rename(other) if section == "dist":
                        value = value if other is None else other
                    case Put(other) if section == "ddp":
                        value = other
                    case None if section == "ddp":
                        pass
                    case action:
                        raise AssertionError(f"{action} for a {section} store")
                world.ddp = evaluate(value, world, effective=world.ddp)
            case Observe():
                world.seen.append(frozenset({world.ddp}))


def worlds(base: str) -> Iterator[tuple[int, Mapping[str, bool], tuple[bool, bool]]]:
    known = BASES[base]
    states = [known] if known is not None else list(product((False, True), repeat=2))
    for arm, a, b, state in product((0, 1), (False, True), (False, True), states):
        yield arm, {"a": a, "b": b}, state


def wrong_worlds(row: Row, decision: Decision) -> list[str]:
    wrong = []
    for arm, names, base in worlds(row.base):
        before = World(arm, names, base)
        run_before(row.block(), before, known=row.base != "unknown", declared=bool(decision.declared))
        after = World(arm, names, base, decision.actions)
        run_after(row.block(), after)
        if not all(now <= then for then, now in zip(before.seen, after.seen, strict=True)):
            wrong.append(f"arm {arm}, {names}, base {base}: {after.seen} for {before.seen}")
    return wrong


# What no rewrite of one store can be right about: shape, order, whether somebody looks between : dist|ddp : bases.
# A store on dist that is True or an expression must not be undone by a ddp store that counts on its own from now on;
# the reverse holds for a ddp store that a base's dist overruled until a dist store said False.
REFUSED = """
same_block         dist_first observed   : True|False True|a True|b   : unknown off on_through_ddp
same_block         dist_first observed   : a|False                    : unknown off on_through_ddp on_through_both
same_block         dist_first observed   : a|b                        : any
same_block         ddp_first  observed   : False|a False|b            : on_through_dist on_through_both
same_block         ddp_first  observed   : a|b                        : any
first_in_a_branch  dist_first unobserved : False|a False|b            : on_through_dist on_through_both
first_in_a_branch  dist_first unobserved : True|False True|a True|b a|False : unknown off on_through_ddp
first_in_a_branch  dist_first unobserved : a|b                        : any
first_in_a_branch  dist_first observed   : False|False a|a            : on_through_both
first_in_a_branch  dist_first observed   : False|a False|b            : on_through_dist on_through_both
first_in_a_branch  dist_first observed   : True|False True|a True|b   : unknown off on_through_ddp
first_in_a_branch  dist_first observed   : a|False                    : unknown off on_through_ddp on_through_both
first_in_a_branch  dist_first observed   : a|b                        : any
first_in_a_branch  ddp_first  unobserved : a|False                    : on_through_ddp on_through_both
first_in_a_branch  ddp_first  unobserved : a|b                        : any
first_in_a_branch  ddp_first  unobserved : a|True                     : unknown off on_through_dist
first_in_a_branch  ddp_first  unobserved : False|True False|a False|b : unknown on_through_dist
first_in_a_branch  ddp_first  observed   : False|False a|a            : on_through_both
first_in_a_branch  ddp_first  observed   : a|False                    : on_through_ddp on_through_both
first_in_a_branch  ddp_first  observed   : a|b                        : any
first_in_a_branch  ddp_first  observed   : a|True                     : unknown off on_through_dist
first_in_a_branch  ddp_first  observed   : False|True                 : unknown on_through_dist
first_in_a_branch  ddp_first  observed   : False|a False|b            : unknown on_through_dist on_through_both
second_in_a_branch dist_first unobserved : True|False True|a True|b   : unknown off on_through_ddp
second_in_a_branch dist_first unobserved : a|False                    : unknown off on_through_ddp on_through_both
second_in_a_branch dist_first unobserved : a|b                        : any
second_in_a_branch dist_first observed   : True|False True|a True|b   : unknown off on_through_ddp
second_in_a_branch dist_first observed   : a|False                    : unknown off on_through_ddp on_through_both
second_in_a_branch dist_first observed   : a|b                        : any
second_in_a_branch ddp_first  unobserved : False|a False|b            : on_through_dist on_through_both
second_in_a_branch ddp_first  unobserved : a|b                        : any
second_in_a_branch ddp_first  observed   : False|a False|b            : on_through_dist on_through_both
second_in_a_branch ddp_first  observed   : a|b                        : any
"""


def refused_rows() -> Iterator[Row]:
    for line in REFUSED.strip().splitlines():
        arrangement, pairs, names = (part.split() for part in line.split(" : "))
        shape, order, between = arrangement
        for pair, base in product(pairs, BASES if names == ["any"] else names):
            yield Row(*pair.split("|"), shape, order == "dist_first", between == "observed", base)


def test_every_decision_keeps_what_everybody_sees() -> None:
    wrong = {}
    for row in ROWS:
        decision = decided(row)
        if decision.refused is None:
            wrong[str(row)] = wrong_worlds(row, decision)
    assert not {row: worlds for row, worlds in wrong.items() if worlds}


def test_every_dist_store_goes_or_the_scope_is_refused() -> None:
    kept = []
    for row in ROWS:
        decision = decided(row)
        if decision.refused is None and row.dist != "absent" and DIST not in decision.actions:
            kept.append(str(row))
        if decision.refused is not None and decision.actions:
            kept.append(str(row))
    assert not kept


def test_what_is_refused() -> None:
    refused = {row for row in ROWS if decided(row).refused is not None}
    assert sorted(map(str, refused)) == sorted(map(str, refused_rows()))


def test_a_plain_deletion_or_renaming_that_is_right_is_never_refused() -> None:
    missed = []
    for row in refused_rows():
        for action in (Delete(), Rename()):
            by_hand = Decision({DIST: action}, declared=frozenset({DIST}))
            if not wrong_worlds(row, by_hand):
                missed.append(f"{row}: {action}")
    assert not missed


def test_a_move_is_declared_only_where_a_base_could_have_overruled_it() -> None:
    declared = {row for row in ROWS if decided(row).declared}
    assert {row.base for row in declared} == {"unknown"}
    assert {row.dist for row in declared} == {"False", "a"}
    undeclared = Row("True", "absent", "same_block", True, False, "unknown")
    assert not decided(undeclared).declared
    for row in declared:
        silent = Decision(decided(row).actions)
        assert wrong_worlds(row, silent), f"{row}: nothing to declare"


def test_nothing_is_done_without_a_dist_store_over_a_base_that_is_not_on_through_dist() -> None:
    bases_without_dist = ("unknown", "off", "on_through_ddp")
    rows = [row for row in ROWS if row.dist == "absent" and row.base in bases_without_dist]
    assert not [str(row) for row in rows if decided(row).actions or decided(row).refused is not None]


# ── Twins ───────────────────────────────────────────────────────────────────────────────────────────────────────────

A_OR_B = A + B


@pytest.mark.parametrize(
    ("dist", "ddp", "dist_first", "actions"),
    [
        ("True", "absent", True, {DIST: Rename()}),
        ("True", "True", True, {DIST: Delete()}),
        ("True", "True", False, {DIST: Delete()}),
        ("True", "False", True, {DIST: Delete(), DDP: Put(TRUE)}),
        ("True", "False", False, {DIST: Delete(), DDP: Put(TRUE)}),
        ("True", "a", True, {DIST: Delete(), DDP: Put(TRUE)}),
        ("True", "a", False, {DIST: Delete(), DDP: Put(TRUE)}),
        ("False", "True", True, {DIST: Delete()}),
        ("False", "True", False, {DIST: Delete()}),
        ("False", "a", True, {DIST: Delete()}),
        ("False", "a", False, {DIST: Delete()}),
        ("False", "False", True, {DIST: Delete()}),
        ("False", "False", False, {DIST: Delete()}),
        ("False", "absent", True, {DIST: Rename()}),
        ("a", "absent", True, {DIST: Rename()}),
        ("a", "a", True, {DIST: Delete()}),
        ("a", "a", False, {DIST: Delete()}),
        ("a", "b", True, {DIST: Delete(), DDP: Put(A_OR_B)}),
        ("a", "False", True, {DIST: Delete(), DDP: Put(A)}),
        ("a", "False", False, {DIST: Rename(A), DDP: Delete()}),
        ("a", "True", True, {DIST: Delete()}),
        ("a", "True", False, {DIST: Delete()}),
        ("absent", "True", True, {}),
        ("absent", "False", True, {}),
        ("absent", "a", True, {}),
    ],
)
def test_twins(dist: str, ddp: str, dist_first: bool, actions: dict[int, Action]) -> None:
    row = Row(dist, ddp, "same_block", dist_first, False, "unknown")
    assert decided(row).actions == actions


# ── Bases ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("dist", "ddp", "base", "actions"),
    [
        ("False", "absent", "on_through_ddp", {DIST: Delete()}),
        ("False", "absent", "on_through_dist", {DIST: Rename()}),
        ("False", "absent", "on_through_both", {DIST: Delete()}),
        ("False", "absent", "off", {DIST: Rename()}),
        ("True", "absent", "on_through_ddp", {DIST: Rename()}),
        ("absent", "False", "on_through_dist", {DDP: Delete()}),
        ("absent", "False", "on_through_both", {DDP: Delete()}),
        ("absent", "False", "on_through_ddp", {}),
    ],
)
def test_known_bases(dist: str, ddp: str, base: str, actions: dict[int, Action]) -> None:
    row = Row(dist, ddp, "same_block", True, False, base)
    assert decided(row).actions == actions


# ── Hazards between two stores ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("block", "actions"),
    [
        pytest.param(
            (Store(1, "dist", TRUE), Section(2, "ddp", FALSE, takes_keywords=True)),
            {1: Delete(), 2: Put(TRUE)},
            id="ddp_made_later_gets_the_keyword",
        ),
        pytest.param(
            (Store(1, "dist", TRUE), Section(2, "ddp", None, then_store=True)),
            {1: MoveAfter(2, TRUE)},
            id="ddp_made_later_out_of_sight_gets_a_store",
        ),
        pytest.param(
            (Store(1, "dist", TRUE), Section(2, "ddp", None)),
            None,
            id="ddp_made_later_and_shared_is_refused",
        ),
        pytest.param(
            (Store(1, "dist", TRUE), Root(2), Store(3, "ddp", TRUE)),
            {1: Rename()},
            id="another_root_is_another_object",
        ),
        pytest.param(
            (Store(1, "dist", TRUE), Section(2, "dist", FALSE), Store(3, "ddp", FALSE)),
            {1: Delete()},
            id="a_new_dist_section_makes_the_store_dead",
        ),
        pytest.param(
            (Store(1, "dist", A), Touch(2, frozenset({"a"})), Store(3, "ddp", B)),
            {1: Rename(), 3: Put((Flag("ddp"), *B))},
            id="a_name_stored_between_is_evaluated_where_it_stood",
        ),
        pytest.param(
            (Store(1, "dist", CALL), Store(2, "ddp", B)),
            {1: Rename(), 2: Put((Flag("ddp"), *B))},
            id="a_call_is_made_once_where_it_stood",
        ),
        pytest.param(
            (Store(1, "dist", TRUE, frozenset()), Store(2, "ddp", FALSE)),
            None,
            id="syntax_that_allows_nothing_is_refused",
        ),
    ],
)
def test_between(block: Block, actions: dict[int, Action] | None) -> None:
    decision = decide(block, companions=False)
    if actions is None:
        assert decision.refused is not None
        assert not decision.actions
    else:
        assert decision.refused is None
        assert decision.actions == actions


def test_deciding_is_pure() -> None:
    block = Row("a", "b", "same_block", True, False, "unknown").block()
    assert decide(block) == decide(block)
