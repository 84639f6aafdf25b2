"""Decide what may move. The heart of the tool: events in, actions out, no syntax.

Old Bridge computed ``dist OR ddp`` and set both (``ConfigContainer.validate`` of every release that had the flag). So a
rewrite is right if, at every observation point of a root, ``ddp`` after it equals ``dist OR ddp`` before it, for every
state a base recipe may leave behind, and nothing else changes. `decide` tries rewrites in the order of how little they
touch and keeps the first for which an abstract run of the whole scope holds that invariant.

The abstract run keeps a set of states, one for each way through branches, loops and exceptions. A flag's value is an
OR of symbols: the empty set is False, ``{"True"}`` is True, an expression is a symbol made of its text and of the
moment at which its names were last stored, and an unknown base contributes one symbol per section.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, NamedTuple

from fsdp_migrate.upstream import (
    AVERAGE,
    CKPT_FORMAT,
    COMPANIONS,
    LEGACY_FORMATS,
    LOAD,
    NO_SHARD,
    PRETRAINED,
    SAVE,
    STRATEGY,
    VERSION,
    WATCHED,
    is_fsdp_value,
)

# ── Values ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Symbol:
    """An expression that the plan does not look into.

    Two symbols are the same expression if their `key` is. `source` is how it is written, fit to stand beside an ``or``.
    `reads` are the dotted names it depends on; a `pure` expression gives the same value until one of them is stored.
    """

    key: str
    source: str = field(compare=False)
    reads: frozenset[str] = frozenset()
    pure: bool = True


@dataclass(frozen=True, slots=True)
class Flag:
    """The flag of the same root, read inside a value: ``cfg.ddp.f = cfg.dist.f or x``.

    `alone`: what that very section holds, as ``cfg.dist.f |= x`` takes it.
    """

    section: str
    alone: bool = False


Atom = Symbol | Flag | bool
Expression = tuple[Atom, ...]
"""An OR of atoms. ``()`` is False."""

TRUE: Expression = (True,)
FALSE: Expression = ()

Value = frozenset[str]
_ON: Final[Value] = frozenset({"True"})
_OFF: Final[Value] = frozenset()
_UNSET: Final = "unset"
_UNKNOWN_DDP: Final = "?ddp"
_UNKNOWN_DIST: Final = "?dist"


class Unknown:
    """A setting's value that is not a literal."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


def either(*values: Value) -> Value:
    """OR of flag values."""
    union = frozenset().union(*values)
    return _ON if "True" in union else union


def disjunction(*expressions: Expression) -> Expression:
    """OR of expressions, without repetition; True absorbs."""
    atoms = tuple(dict.fromkeys(atom for expression in expressions for atom in expression if atom is not False))
    return TRUE if True in atoms else atoms


# ── Events: what a language reads out of one scope for one root ─────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Store:
    """The flag is stored in `section`.

    `can` is what its syntax allows: ``delete``, ``rename``, ``set`` to another value, ``or`` of several expressions,
    ``after``: a store may follow it; ``keyword`` marks a keyword of the section right before it.
    """

    id: int
    section: str
    value: Expression
    can: frozenset[str] = frozenset({"delete", "rename", "set", "or", "after"})


@dataclass(frozen=True, slots=True)
class Setting:
    """A watched setting other than the flag is stored."""

    id: int
    name: str
    value: object
    can_set: bool = True


@dataclass(frozen=True, slots=True)
class Section:
    """A section is bound to a new object whose flag is `flag` (None: not known).

    `takes_keywords`: the flag or a companion can be added where it is made. `then_store`: a statement after it may
    store into it, because nobody else holds the object. `double`: a mock, whose unset attributes are truthy.
    `keeps`: no new object, a place that lies over what is there (a section of an overlay file).
    """

    id: int
    name: str
    flag: Expression | None = FALSE
    settings: tuple[tuple[str, object], ...] = ()
    takes_keywords: bool = False
    then_store: bool = False
    double: bool = False
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Base:
    """One state in which a base recipe may leave a root: old flags, migrated flag, watched settings.

    `here`: the base moves together with whoever derives from it, so what it held on dist is known to be as old.
    """

    dist: Value
    ddp: Value
    new: Value
    settings: tuple[tuple[str, object], ...] = ()
    here: bool = True


@dataclass(frozen=True, slots=True)
class Root:
    """The root is bound to another object. Without `bases` nothing is known about it. `double` as in `Section`."""

    id: int
    bases: tuple[Base, ...] = ()
    double: bool = False


@dataclass(frozen=True, slots=True)
class Observe:
    """Somebody may look at the flag here. `leaves`: the scope ends here with the root as it is."""

    id: int
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """A call that receives the root and cannot be seen into: it looks at the flag and may set it."""

    id: int


@dataclass(frozen=True, slots=True)
class Helper:
    """A call that receives the root and runs `body`, which is somebody else's to migrate."""

    id: int
    body: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Touch:
    """Names that an expression may depend on are stored or handed to a call."""

    id: int
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Branch:
    """Exactly one arm runs."""

    arms: tuple[tuple[Event, ...], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    body: tuple[Event, ...]
    orelse: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Try:
    body: tuple[Event, ...]
    handlers: tuple[tuple[Event, ...], ...]
    orelse: tuple[Event, ...] = ()
    final: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class MayRaise:
    """Inside a ``try``: an exception may leave the body here. A plain store does not raise."""


@dataclass(frozen=True, slots=True)
class Leave:
    """``return``, ``raise``, ``break`` or ``continue``."""

    kind: str


Event = Store | Setting | Section | Root | Observe | Opaque | Helper | Touch | Branch | Loop | Try | MayRaise | Leave
Block = tuple[Event, ...]


def children(event: Event) -> tuple[Block, ...]:
    """The blocks inside an event that belong to the same scope."""
    match event:
        case Branch(arms):
            return arms
        case Loop(body, orelse):
            return (body, orelse)
        case Try(body, handlers, orelse, final):
            return (body, *handlers, orelse, final)
        case _:
            return ()


def walk(block: Block) -> Iterator[Event]:
    """All events of a scope, without those of its helpers."""
    for event in block:
        yield event
        for inner in children(event):
            yield from walk(inner)


# ── Actions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Delete:
    """The store goes."""


@dataclass(frozen=True, slots=True)
class Rename:
    """The dist store becomes a ddp store, with another value if one is given."""

    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """A ddp store gets this value, or a new ddp section this flag keyword."""

    value: Expression


@dataclass(frozen=True, slots=True)
class MoveAfter:
    """The dist store becomes a ddp store of `value` right after the section `anchor`, which is bound later."""

    anchor: int
    value: Expression


Action = Delete | Rename | Put | MoveAfter


@dataclass(frozen=True, slots=True)
class Companion:
    """What happens to one missing or wrong companion.

    `how` is ``insert`` (a store after `anchor`), ``keyword`` (into the section `anchor`), ``change`` (the setting
    `anchor`), ``none`` (only to report, `why` says why) or ``keep`` (the author's choice, worth a warning).
    """

    name: str
    how: str
    anchor: int
    why: str = ""
    safe: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with one root of one scope.

    `actions` by event; all of them or none. `refused` is the event that stands in the way, if nothing may move.
    `declared` are dist stores whose move makes a value count that an unknown base may have overruled before. `leak` is
    the event after which FSDP may be off with a base's fsdp_dtensor.
    """

    actions: Mapping[int, Action] = field(default_factory=dict)
    refused: int | None = None
    declared: frozenset[int] = frozenset()
    companions: tuple[Companion, ...] = ()
    leak: int | None = None
    exits: frozenset[State] = frozenset()


# ── The abstract run ────────────────────────────────────────────────────────────────────────────────────────────────


Cell = tuple[int | None, object]


class State(NamedTuple):
    """One way to have come here. `by` is the event that last decided `new`; cells are (event, value) by name."""

    dist: Value
    ddp: Value
    new: Value
    by: int | None
    sure: bool
    cells: tuple[tuple[int | None, object], ...]
    clock: tuple[tuple[str, str], ...]


class ViolationError(Exception):
    """The invariant does not hold at an observation point; `by` is the event that decided the wrong value."""

    def __init__(self, by: int | None) -> None:
        super().__init__(by)
        self.by = by


class TooManyStatesError(ViolationError):
    """The scope has more ways through it than the run is ready to follow."""


_STATES_AT_MOST: Final = 2048
_RUNS_AT_MOST: Final = 3000
_INDEX: Final = {name: i for i, name in enumerate(WATCHED)}
_NOTHING_SET: Final[tuple[Cell, ...]] = tuple((None, UNKNOWN) for _ in WATCHED)


@dataclass(slots=True)
class _Flow:
    normal: set[State]
    breaks: set[State] = field(default_factory=set)
    continues: set[State] = field(default_factory=set)


@dataclass(slots=True)
class _Run:
    """One abstract run of a scope, before and after at once."""

    actions: Mapping[int, Action]
    inserted: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    changed: frozenset[int] = frozenset()
    forget_bases: bool = False
    strict: bool = True
    dependencies: frozenset[str] = frozenset()
    exits: set[State] = field(default_factory=set)
    declared: set[int] = field(default_factory=set)
    renamed: frozenset[int] = frozenset()
    local: frozenset[int] = frozenset()
    foreign: bool = False
    turn: str = ""
    raised: list[set[State]] = field(default_factory=list)

    # Values

    def value(self, expression: Expression, at: int, state: State, *, after: bool) -> Value:
        parts: list[Value] = []
        for atom in expression:
            match atom:
                case bool():
                    parts.append(_ON if atom else _OFF)
                case Flag(section, alone=True) if not after:
                    parts.append(state.dist if section == "dist" else state.ddp)
                case Flag():
                    # Reading either flag means the effective one: before the move, Bridge had set both alike.
                    parts.append(state.new if after else either(state.dist, state.ddp))
                case Symbol(key, _, reads, pure):
                    if not pure:
                        parts.append(frozenset({f"{key}@{at}{self.turn}"}))
                        continue
                    when = ",".join(stamp for name, stamp in state.clock if name in reads)
                    parts.append(frozenset({f"{key}@{when}"}))
        return either(*parts)

    # The invariant

    def check(self, state: State) -> None:
        old = either(state.dist, state.ddp)
        if state.new == old or not self.strict:
            return
        if state.by is not None and state.by not in self.renamed and state.new == _without(old, _UNKNOWN_DIST):
            # A ddp store over a base that may have dist on: nothing moves here, so nothing is decided here.
            return
        known = _without(old, _UNKNOWN_DDP)
        if state.by in self.renamed and state.new == known:
            self.declared.add(state.by)
            return
        raise ViolationError(state.by)

    # Events

    def block(self, events: Block, states: set[State]) -> _Flow:
        flow = _Flow(set(states))
        for event in events:
            if not flow.normal:
                break
            throws = self.raised and isinstance(event, MayRaise | Opaque | Helper)
            if throws:
                self.raised[-1] |= flow.normal
            step = self.event(event, flow.normal)
            if throws:
                self.raised[-1] |= step.normal
            if len(step.normal) > _STATES_AT_MOST:
                raise TooManyStatesError(None)
            flow = _Flow(step.normal, flow.breaks | step.breaks, flow.continues | step.continues)
        return flow

    def event(self, event: Event, states: set[State]) -> _Flow:
        match event:
            case Branch(arms):
                flows = [self.block(arm, states) for arm in arms]
                return _Flow(
                    set().union(*(f.normal for f in flows)),
                    set().union(*(f.breaks for f in flows)),
                    set().union(*(f.continues for f in flows)),
                )
            case Loop(body, orelse):
                return self.loop(body, orelse, states)
            case Try():
                return self.attempt(event, states)
            case MayRaise():
                return _Flow(states)
            case Leave(kind):
                if kind == "raise" and self.raised:
                    self.raised[-1] |= states
                return self.leave(kind, states)
            case Helper(_, body):
                return _Flow(self.helper(body, states))
            case Observe(_, leaves):
                for state in states:
                    self.check(state)
                if leaves and not self.foreign:
                    self.exits |= states
                return _Flow(states)
            case Opaque(number):
                for state in states:
                    self.check(state)
                return _Flow(states | {self.havoc(number, state) for state in states})
            case Root(number, bases, double):
                for state in states:
                    self.check(state)
                return _Flow({new for state in states for new in self.rebind(number, bases, double, state)})
            case _:
                return _Flow({self.step(event, state) for state in states})

    def step(self, event: Event, state: State) -> State:
        match event:
            case Store(number, section, value):
                return self.store(number, section, value, state)
            case Setting(number, name, value):
                if number in self.changed:
                    value = COMPANIONS[name]
                return self.put(state, number, name, value)
            case Section():
                return self.section(event, state)
            case Touch(number, names):
                moment = f"{number}{self.turn}"
                hit = {d for d in self.dependencies if any(overlap(d, name) for name in names)}
                clock = tuple((n, moment if n in hit else stamp) for n, stamp in state.clock)
                return state._replace(clock=clock)
            case _:
                raise TypeError(event)

    def store(self, number: int, section: str, value: Expression, state: State) -> State:
        before = self.value(value, number, state, after=False)
        action = None if self.foreign else self.actions.get(number)
        new, by = state.new, state.by
        match action:
            case Rename(other):
                new, by = self.value(value if other is None else other, number, state, after=True), number
            case Put(other):
                new, by = self.value(other, number, state, after=True), number
            case None if section == "ddp":
                new, by = self.value(value, number, state, after=True), number
        state = state._replace(new=new, by=by)
        state = state._replace(dist=before) if section == "dist" else state._replace(ddp=before)
        return self.insertions(number, state)

    def section(self, event: Section, state: State) -> State:
        if event.keeps:
            match None if self.foreign else self.actions.get(event.id):
                case Put(other):
                    state = state._replace(new=self.value(other, event.id, state, after=True), by=event.id)
            return self.insertions(event.id, state)
        flag = event.flag
        value = frozenset({f"?{event.name}@{event.id}{self.turn}"})
        if flag is not None:
            value = self.value(flag, event.id, state, after=False)
        cells = list(state.cells)
        for name, i in _INDEX.items():
            if name.startswith(event.name + "."):
                cells[i] = (None, UNKNOWN)
        state = state._replace(cells=tuple(cells))
        for name, setting in event.settings:
            state = self.put(state, event.id, name, setting)
        if event.name == "dist":
            # Whether an unknown base was on through the old section cannot be known; nothing in this scope says so.
            return state._replace(dist=value, new=_without(state.new, _UNKNOWN_DIST))
        if event.name != "ddp":
            return self.insertions(event.id, state)
        new = frozenset({_UNSET}) if event.double else value
        state = state._replace(ddp=value, new=new, by=event.id)
        match None if self.foreign else self.actions.get(event.id):
            case Put(other):
                state = state._replace(new=self.value(other, event.id, state, after=True))
        for number, action in self.actions.items():
            if isinstance(action, MoveAfter) and action.anchor == event.id:
                state = state._replace(new=self.value(action.value, event.id, state, after=True), by=number)
        return self.insertions(event.id, state)

    def put(self, state: State, number: int, name: str, value: object) -> State:
        cells = list(state.cells)
        cells[_INDEX[name]] = (number, value)
        return state._replace(cells=tuple(cells))

    def insertions(self, number: int, state: State) -> State:
        for name in self.inserted.get(number, ()):
            state = self.put(state, -1 - number, name, COMPANIONS[name])
        return state

    def havoc(self, number: int, state: State) -> State:
        dist = frozenset({f"{_UNKNOWN_DIST}@{number}{self.turn}"})
        ddp = frozenset({f"{_UNKNOWN_DDP}@{number}{self.turn}"})
        return state._replace(dist=dist, ddp=ddp, new=dist | ddp, by=None, sure=False)

    def rebind(self, number: int, bases: tuple[Base, ...], double: bool, state: State) -> Iterator[State]:
        if double:
            new = frozenset({_UNSET})
            yield state._replace(dist=_OFF, ddp=_OFF, new=new, by=None, sure=True, cells=_NOTHING_SET)
            return
        if not bases or self.forget_bases:
            fresh = self.havoc(number, state)
            yield fresh._replace(sure=True, cells=_NOTHING_SET)
            return
        for base in bases:
            cells: list[Cell] = list(_NOTHING_SET)
            for name, value in base.settings:
                cells[_INDEX[name]] = (None, value)
            yield state._replace(
                dist=_renamed(base.dist, number),
                ddp=_renamed(base.ddp, number),
                new=_renamed(base.new, number),
                by=None,
                sure=True,
                cells=tuple(cells),
            )

    def helper(self, body: Block, states: set[State]) -> set[State]:
        """Run somebody else's body: what it does to the old flags, its own migration does to the new one."""
        for state in states:
            self.check(state)
        outer, self.foreign = self.foreign, True
        caught = self.raised
        self.raised = []
        returns: set[State] = set()
        try:
            leaving, self.leave_into = self.leave_into, returns
            flow = self.block(body, states)
            self.leave_into = leaving
        finally:
            self.foreign, self.raised = outer, caught
        ended = flow.normal | returns
        return {s._replace(new=either(s.dist, s.ddp), by=s.by if s.by in self.local else None) for s in ended}

    leave_into: set[State] | None = None

    def leave(self, kind: str, states: set[State]) -> _Flow:
        if kind == "break":
            return _Flow(set(), breaks=states)
        if kind == "continue":
            return _Flow(set(), continues=states)
        if self.foreign:
            if kind == "return" and self.leave_into is not None:
                self.leave_into |= states
            return _Flow(set())
        for state in states:
            self.check(state)
        if kind == "return":
            self.exits |= states
        return _Flow(set())

    def loop(self, body: Block, orelse: Block, states: set[State]) -> _Flow:
        outer = self.turn
        once = self.block(body, states)
        self.turn = outer + "'"
        twice = self.block(body, once.normal | once.continues)
        self.turn = outer
        through = states | once.normal | once.continues | twice.normal | twice.continues
        after = self.block(orelse, through)
        return _Flow(after.normal | once.breaks | twice.breaks, after.breaks, after.continues)

    def attempt(self, event: Try, states: set[State]) -> _Flow:
        self.raised.append(set())
        body = self.block(event.body, states)
        thrown = self.raised.pop()
        if self.raised:
            self.raised[-1] |= thrown
        flows = [self.block(event.orelse, body.normal)]
        flows += [self.block(handler, thrown) for handler in event.handlers]
        merged = _Flow(
            set().union(*(f.normal for f in flows)),
            body.breaks.union(*(f.breaks for f in flows)),
            body.continues.union(*(f.continues for f in flows)),
        )
        if not event.final:
            return merged
        last = self.block(event.final, merged.normal)
        return _Flow(
            last.normal,
            last.breaks | self.block(event.final, merged.breaks).normal,
            last.continues | self.block(event.final, merged.continues).normal,
        )


def overlap(a: str, b: str) -> bool:
    """Whether one dotted name contains the other: storing one may change the other."""
    return a == b or a.startswith(b + ".") or b.startswith(a + ".")


def _without(value: Value, unknown: str) -> Value:
    return frozenset(symbol for symbol in value if not symbol.startswith(unknown))


def _renamed(value: Value, number: int) -> Value:
    return frozenset(s if s == "True" else f"{s}~{number}" for s in value)


def _dependencies(block: Block) -> frozenset[str]:
    found: set[str] = set()
    for event in _everything(block):
        if isinstance(event, Store):
            expression: Expression = event.value
        elif isinstance(event, Section) and event.flag is not None:
            expression = event.flag
        else:
            continue
        for atom in expression:
            if isinstance(atom, Symbol):
                found |= atom.reads
    return frozenset(found)


def _everything(block: Block) -> Iterator[Event]:
    for event in walk(block):
        yield event
        if isinstance(event, Helper):
            yield from _everything(event.body)


def _simulate(
    block: Block,
    actions: Mapping[int, Action],
    *,
    inserted: Mapping[int, tuple[str, ...]] | None = None,
    changed: frozenset[int] = frozenset(),
    forget_bases: bool = False,
    strict: bool = True,
) -> _Run:
    """Run the scope with these actions.

    Raises:
        ViolationError: the invariant does not hold somewhere.
    """
    dependencies = _dependencies(block)
    run = _Run(
        actions,
        inserted or {},
        changed,
        forget_bases,
        strict,
        dependencies,
        local=frozenset(e.id for e in walk(block) if isinstance(e, Store | Section)),
        renamed=frozenset(n for n, a in actions.items() if isinstance(a, Rename | MoveAfter))
        | frozenset(e.id for e in walk(block) if isinstance(e, Section) and e.keeps and e.id in actions),
    )
    start = State(
        frozenset({_UNKNOWN_DIST}),
        frozenset({_UNKNOWN_DDP}),
        frozenset({_UNKNOWN_DIST, _UNKNOWN_DDP}),
        None,
        True,
        _NOTHING_SET,
        tuple((name, "") for name in sorted(dependencies)),
    )
    flow = run.block(block, {start})
    for state in flow.normal:
        run.check(state)
    run.exits |= flow.normal
    return run


# ── Candidates ──────────────────────────────────────────────────────────────────────────────────────────────────────

Candidate = dict[int, Action]


def _neighbours(block: Block) -> dict[int, tuple[Event | None, Event | None]]:
    """The twin before and after each dist store: the nearest ddp store or section in the same statement list, with
    nothing between that looks at the flag or decides it."""
    found: dict[int, tuple[Event | None, Event | None]] = {}

    def scan(events: Iterable[Event]) -> Event | None:
        for event in events:
            match event:
                case Store(_, "ddp"):
                    return event
                case Section(_, "ddp"):
                    return event
                case Setting() | Touch() | Section():
                    continue
                case _:
                    return None
        return None

    def visit(events: Block) -> None:
        for i, event in enumerate(events):
            if isinstance(event, Store) and event.section == "dist":
                after = scan(events[i + 1 :])
                if isinstance(after, Section):
                    # A keyword of that very section stands next in the event list.
                    follower = events[events.index(after) + 1 :][:1]
                    if follower and isinstance(follower[0], Store) and follower[0].section == "ddp":
                        keyword = follower[0]
                        after = keyword if "keyword" in keyword.can else after
                found[event.id] = (scan(reversed(events[:i])), after)
            for inner in children(event):
                visit(inner)

    visit(block)
    return found


def twins(block: Block) -> dict[int, tuple[int, ...]]:
    """The ddp stores or sections next to each dist store, the later one first."""
    return {
        number: tuple(e.id for e in (after, before) if isinstance(e, Store | Section))
        for number, (before, after) in _neighbours(block).items()
    }


def _candidates(store: Store, before: Event | None, after: Event | None) -> Iterator[Candidate]:
    """Rewrites of one dist store, the preferred first. Whether one is right is for the run to say."""
    mine, value = store.id, store.value
    deletable, renamable = "delete" in store.can, "rename" in store.can
    if deletable:
        yield from _into_twin(mine, value, after)
        match after:
            case Section(twin, then_store=True):
                yield {mine: MoveAfter(twin, value)}
        if isinstance(before, Store):
            merged = disjunction(value, before.value)
            here: Candidate = {mine: Rename(merged), before.id: Delete()}
            at_mine = renamable and "delete" in before.can and _writable(merged, store)
            # An expression is evaluated where it stands; True is the same anywhere.
            if at_mine and value != TRUE and before.value == FALSE:
                yield here
            yield from _into_twin(mine, value, before)
            if at_mine and value != TRUE:
                yield here
        else:
            yield from _into_twin(mine, value, before)
    if renamable:
        yield {mine: Rename()}
        if isinstance(after, Store):
            yield from _candidate(after, {mine: Rename()}, disjunction((Flag("ddp"),), after.value))
        if isinstance(before, Store):
            widened = disjunction((Flag("ddp"),), value)
            if _writable(widened, store):
                yield {mine: Rename(widened)}
    if deletable:
        yield {mine: Delete()}


def _into_twin(mine: int, value: Expression, twin: Event | None) -> Iterator[Candidate]:
    match twin:
        case Store():
            yield from _candidate(twin, {mine: Delete()}, disjunction(value, twin.value))
        case Section(number, flag=flag, takes_keywords=True, keeps=keeps) if flag is not None or keeps:
            yield {mine: Delete(), number: Put(disjunction(value, flag or FALSE))}


def _candidate(twin: Store, others: Candidate, merged: Expression) -> Iterator[Candidate]:
    # A call in the old value must still be made, and an `or` in front of it could skip it.
    calls = any(isinstance(atom, Symbol) and not atom.pure for atom in twin.value)
    if "set" in twin.can and _writable(merged, twin) and (merged == twin.value or not calls):
        yield {**others, twin.id: Put(merged)}


def _writable(value: Expression, store: Store) -> bool:
    """Whether an OR can stand there. Behind an `or`, a call might not be made any more."""
    skipped = any(isinstance(atom, Symbol) and not atom.pure for atom in value[1:])
    return len(value) < 2 or ("or" in store.can and not skipped)


def _holds(block: Block, actions: Candidate, *, forget_bases: bool = False) -> _Run | None:
    try:
        return _simulate(block, actions, forget_bases=forget_bases)
    except ViolationError:
        return None


def _combine(parts: Iterable[Candidate]) -> Candidate | None:
    """All candidates at once, or None if two of them want different things of one event."""
    combined: Candidate = {}
    for part in parts:
        for number, action in part.items():
            if combined.setdefault(number, action) != action:
                return None
    return combined


def _move(block: Block) -> tuple[Candidate | None, frozenset[int], int | None]:
    """Actions that move every dist store, the declared ones among them, and what stands in the way of any."""
    stores = [e for e in walk(block) if isinstance(e, Store)]
    dist = [s for s in stores if s.section == "dist"]
    # Only over a base that moves in this run: elsewhere a ddp store may be what an earlier run made of a dist store.
    bases_on_dist = any(
        base.here and not symbol.startswith("?")
        for e in walk(block)
        if isinstance(e, Root)
        for base in e.bases
        for symbol in base.dist
    )
    copies = [s for s in stores if s.section == "ddp" and s.value == (Flag("dist"),) and "delete" in s.can]
    # Without a ddp store or a new section, what makes a store redundant is another dist store: both are kept.
    covered = any(s.section == "ddp" for s in stores) or any(
        isinstance(e, Section) and e.name in ("dist", "ddp") for e in walk(block)
    )
    neighbours = _neighbours(block)
    choices: list[list[Candidate]] = []
    for store in dist:
        options = list(_candidates(store, *neighbours.get(store.id, (None, None))))
        if len(dist) > 4:
            options = options[:2]
        if "delete" in store.can and covered:
            options.insert(0, {store.id: Delete()})
        choices.append(options)
    choices += [[{s.id: Delete()}, {}] for s in copies]
    if bases_on_dist:
        # A base's dist flag overruled a ddp store that switches FSDP off: that line never had an effect.
        new = [s for s in stores if s.section == "ddp" and "delete" in s.can and s not in copies]
        choices += [[{}, {s.id: Delete()}] for s in new]
        # It also overruled the default of a ddp section made anew.
        sections = [e for e in walk(block) if isinstance(e, Section) and e.name == "ddp"]
        choices += [[{}, {e.id: Put(TRUE)}] for e in sections if e.takes_keywords and not e.keeps]
    tried = 0
    for parts in product(*choices):
        tried += 1
        if tried > _RUNS_AT_MOST:
            break
        actions = _combine(parts)
        if actions is None:
            continue
        # Deleted because the scope itself says so, not because of what a base happens to hold: that comes last.
        first = covered and any(
            part is choices[i][0] and "delete" in dist[i].can for i, part in enumerate(parts[: len(dist)])
        )
        run = _holds(block, actions, forget_bases=first)
        if run is not None and first:
            run = _holds(block, actions)
        if run is not None:
            return actions, frozenset(run.declared), None
    return None, frozenset(), _obstacle(block, dist)


def _obstacle(block: Block, dist: list[Store]) -> int | None:
    """The event that would decide the flag wrongly if every dist store were simply renamed."""
    try:
        _simulate(block, {s.id: Rename() for s in dist})
    except ViolationError as violation:
        return violation.by
    return None


# ── Companions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_on(state: State) -> bool:
    return state.sure and state.new == _ON and state.by is not None


def _missing(name: str, cell: tuple[int | None, object], version: object) -> bool:
    """Whether nobody has decided about a companion in a state in which the flag is on."""
    origin, value = cell
    if name == CKPT_FORMAT:
        if version == 2:
            return False
        return value in LEGACY_FORMATS if origin is not None else not is_fsdp_value(name, value)
    return origin is None and not is_fsdp_value(name, value)


def _cell(state: State, name: str) -> tuple[int | None, object]:
    return state.cells[_INDEX[name]]


def _companions(block: Block, actions: Candidate, run: _Run) -> Iterator[Companion]:
    events = {e.id: e for e in walk(block) if isinstance(e, Store | Setting | Section)}
    for name in COMPANIONS:
        yield from _companion(name, block, actions, run, events)


def _companion(
    name: str, block: Block, actions: Candidate, run: _Run, events: Mapping[int, Store | Setting | Section]
) -> Iterator[Companion]:
    on = {s for s in run.exits if _is_on(s)}
    lacking = {s for s in on if _missing(name, _cell(s, name), _cell(s, VERSION)[1])}
    yield from _kept(name, on - lacking)
    if not lacking:
        return
    changes = frozenset(
        origin
        for state in lacking
        for origin in [_cell(state, name)[0]]
        if origin is not None
        and isinstance(events.get(origin), Setting)
        and events[origin].can_set  # type: ignore[union-attr]
        and all(_is_on(s) for s in run.exits if s.sure and _cell(s, name)[0] == origin)
    )
    rest = {s for s in lacking if _cell(s, name)[0] not in changes}
    anchors = {s.by for s in rest if s.by is not None}
    tried = False
    for how, places in _places(name, anchors, block, actions, events):
        tried = True
        if _try(name, block, actions, run, changes, places):
            yield from _report(name, changes, places, how, lacking)
            return
    where = min((s.by for s in lacking if s.by is not None), default=0)
    why = "paths" if anchors and tried else "unresolved"
    yield Companion(name, "none", where, why)


def _places(
    name: str, anchors: set[int], block: Block, actions: Candidate, events: Mapping[int, Store | Setting | Section]
) -> Iterator[tuple[str, set[int]]]:
    """Where a companion could go: behind the flag, or into the constructors of its section."""
    if not anchors:
        yield "insert", set()
        return
    section = name.split(".")[0]
    made = {e.id for e in events.values() if isinstance(e, Section) and e.name == section and e.takes_keywords}
    statements = all(_takes_statement(number, actions, events) for number in anchors)
    in_constructor = any(
        isinstance(e, Section) or (isinstance(e, Store) and "keyword" in e.can)
        for n, e in events.items()
        if n in anchors
    )
    if statements and not (in_constructor and made):
        yield "insert", anchors
    if made:
        yield "keyword", made
    if statements and in_constructor and made:
        yield "insert", anchors


def _takes_statement(number: int, actions: Candidate, events: Mapping[int, Store | Setting | Section]) -> bool:
    event = events.get(number)
    if isinstance(event, Store):
        return "after" in event.can
    return isinstance(event, Section) and event.then_store


def _try(name: str, block: Block, actions: Candidate, run: _Run, changes: frozenset[int], anchors: set[int]) -> bool:
    """Whether these insertions give every path with the flag on its companion and leave every other path alone."""
    try:
        trial = _simulate(block, actions, inserted=dict.fromkeys(anchors, (name,)), changed=changes)
    except ViolationError:
        return False
    if any(_is_on(s) and _missing(name, _cell(s, name), _cell(s, VERSION)[1]) for s in trial.exits):
        return False

    def others(states: Iterable[State]) -> set[tuple[int | None, object]]:
        return {_cell(s, name) for s in states if s.sure and not _is_on(s)}

    def chosen(states: Iterable[State]) -> set[tuple[int | None, object]]:
        return {
            _cell(s, name)
            for s in states
            if _is_on(s) and not _missing(name, _cell(s, name), _cell(s, VERSION)[1]) and _cell(s, name)[0] is not None
        }

    return others(trial.exits) == others(run.exits) and chosen(run.exits) <= chosen(trial.exits)


def _report(
    name: str, changes: frozenset[int], anchors: set[int], how: str, lacking: set[State]
) -> Iterator[Companion]:
    for number in sorted(changes):
        reaching = [s for s in lacking if _cell(s, name)[0] == number]
        pretrained = all(_is_set(s, PRETRAINED) and not _is_set(s, SAVE) and not _is_set(s, LOAD) for s in reaching)
        yield Companion(name, "change", number, safe=not pretrained)
    for number in sorted(anchors):
        yield Companion(name, how, number)


def _is_set(state: State, name: str) -> bool:
    origin, value = _cell(state, name)
    return origin is not None and value is not None


def _kept(name: str, decided: set[State]) -> Iterator[Companion]:
    """Choices of the author that are worth a word."""
    cells = {_cell(s, name) for s in decided if _cell(s, VERSION)[1] != 2}
    for origin, value in sorted(cells, key=lambda cell: cell[0] or 0):
        if origin is None or origin < 0:
            continue
        if name == STRATEGY and value == NO_SHARD:
            yield Companion(name, "keep", origin, "no_shard")
        elif name == AVERAGE and value is True:
            yield Companion(name, "keep", origin, "true", safe=False)
        elif name == CKPT_FORMAT and value is UNKNOWN:
            yield Companion(name, "keep", origin, "expression")


def _conditional(block: Block, run: _Run) -> Iterator[Companion]:
    """Companions that only a conditional form could add: the flag is an expression at the end of the scope."""
    handled = {(s.by, name) for s in run.exits for name in COMPANIONS if _cell(s, name)[0] is not None}
    for state in sorted((s for s in run.exits if s.sure), key=lambda s: s.by or 0):
        if state.by is None or state.new in (_ON, _OFF) or any(s.startswith(("?", _UNSET)) for s in state.new):
            continue
        for name in COMPANIONS:
            origin, value = _cell(state, name)
            if name == CKPT_FORMAT and _cell(state, VERSION)[1] == 2:
                continue
            if origin is None and not is_fsdp_value(name, value) and (state.by, name) not in handled:
                yield Companion(name, "conditional", state.by)


# ── The decision ────────────────────────────────────────────────────────────────────────────────────────────────────


def decide(block: Block, *, companions: bool = True) -> Decision:
    """Decide about one root of one scope. Pure: the same events give the same decision.

    Args:
        block: the scope's events in the order of execution.
        companions: whether missing companions are looked for (not in library code).
    """
    actions, declared, obstacle = _move(block)
    if actions is None:
        return Decision(refused=obstacle if obstacle is not None else -1)
    run = _simulate(block, actions)
    decision = Decision(dict(actions), None, declared, (), None, frozenset(run.exits))
    if not companions:
        return decision
    found = tuple(dict.fromkeys((*_companions(block, actions, run), *_conditional(block, run))))
    inherited = (None, COMPANIONS[CKPT_FORMAT])
    maybe_off = (s for s in run.exits if s.sure and s.by is not None and s.new != _ON)
    leak = min((s.by or 0 for s in maybe_off if _cell(s, CKPT_FORMAT) == inherited), default=None)
    final = _with_companions(block, actions, found)
    return replace(decision, companions=found, leak=leak, exits=frozenset(final.exits))


def _with_companions(block: Block, actions: Candidate, found: Iterable[Companion]) -> _Run:
    inserted: dict[int, tuple[str, ...]] = {}
    changed: set[int] = set()
    for companion in found:
        if companion.how in ("insert", "keyword"):
            inserted[companion.anchor] = (*inserted.get(companion.anchor, ()), companion.name)
        elif companion.how == "change":
            changed.add(companion.anchor)
    return _simulate(block, actions, inserted=inserted, changed=frozenset(changed))


def needs_old_bases(block: Block) -> bool:
    """Whether a scope that is refused would no longer be once its bases have moved: then they must not move either."""

    def moved(event: Event) -> Event:
        match event:
            case Root(bases=bases):
                return replace(event, bases=tuple(map(moved_base, bases)))
            case Branch(arms):
                return Branch(tuple(tuple(map(moved, arm)) for arm in arms))
            case Loop(body, orelse):
                return Loop(tuple(map(moved, body)), tuple(map(moved, orelse)))
            case Try(body, handlers, orelse, final):
                inner = tuple(tuple(map(moved, handler)) for handler in handlers)
                return Try(tuple(map(moved, body)), inner, tuple(map(moved, orelse)), tuple(map(moved, final)))
            case Helper(number, body):
                return Helper(number, tuple(map(helped, body)))
            case _:
                return event

    def helped(event: Event) -> Event:
        return replace(event, section="ddp") if isinstance(event, Store) else moved(event)

    return _move(tuple(map(moved, block)))[0] is not None


def moved_base(base: Base) -> Base:
    """What a base holds once it has moved itself."""
    return replace(base, dist=_OFF, ddp=base.new)


def bases_of(block: Block) -> tuple[Base, ...]:
    """The states in which a recipe leaves its root, for whoever derives from it.

    The old flags are those of the code as it stands, the new flag and the companions those after its own migration.
    """
    decision = decide(block)
    exits = decision.exits
    here = decision.refused is None and all(b.here for e in walk(block) if isinstance(e, Root) for b in e.bases)
    if decision.refused is not None:
        exits = frozenset(_simulate(block, {}, strict=False).exits)
    bases = {
        Base(
            s.dist,
            s.ddp,
            either(s.dist, s.ddp),
            tuple((n, value) for n, (_, value) in zip(WATCHED, s.cells, strict=True) if value is not UNKNOWN),
            here,
        )
        for s in exits
    }
    return tuple(sorted(bases, key=repr))
