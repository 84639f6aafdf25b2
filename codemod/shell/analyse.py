"""From a script to cases: every list of words that has something to do with the flag.

The words of a command are one scope, and so is everything that a variable collects. Hydra takes the last of two equal
keys, so the order of events is the order of words. Lists that meet in one command are looked at together: where they
disagree about the flag, nothing is moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fsdp_migrate import overrides
from fsdp_migrate.cases import Case, Spot
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import demand_few
from fsdp_migrate.lines import Lines
from fsdp_migrate.prose import OLD_PATH, PROSE
from fsdp_migrate.shell.heredocs import bodies
from fsdp_migrate.shell.settings import config_of
from fsdp_migrate.shell.words import Script, Word, WordList
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import COMPANIONS, FLAG, NEW_SECTION, OLD_SECTION, WATCHED

if TYPE_CHECKING:
    from tree_sitter import Node

_LIES_OVER = "a command line lies over a recipe that may set it; add it if the recipe does not"
_SECTION_VALUE = re.compile(rf"[+]{{0,2}}{OLD_SECTION}=\{{.*\b{FLAG}\b.*", re.DOTALL)
_ANY_CAN = frozenset({"delete", "rename", "set", "after"})


@dataclass(frozen=True, slots=True)
class Site:
    """A word that is an event, and the list it stands in."""

    id: int
    word: Word
    list: WordList


@dataclass(frozen=True, eq=False)
class ShellCase:
    """A case with the words it was read from."""

    case: Case
    script: Script
    sites: dict[int, Site] = field(default_factory=dict)
    block: plan.Block = ()
    removed: tuple[Site, ...] = ()
    paths: tuple[tuple[int, int], ...] = ()
    settings: Mapping[str, Word] = field(default_factory=dict)

    def edits(self, parts: frozenset[str]) -> tuple[Edit, ...]:
        from fsdp_migrate.shell.fixing import edits_of

        return edits_of(self, parts)


def analyse(script: Script, target: str) -> Sequence[ShellCase]:
    """All cases of a script."""
    lines = Lines(script.text)
    scopes = list(_scopes(script))
    groups = _groups(scopes)
    cases: list[ShellCase] = []
    seen: set[tuple[int, int]] = set()
    flagged = [scope for scope in scopes if scope.has_flag]
    demand_few(flagged)
    for scope in flagged:
        seen |= {(w.start, w.end) for found in scope.lists for w in found.words}
        case = _case(script, scope, groups[id(scope)], lines, target)
        if case is not None:
            cases.append(case)
    loose = _loose(script, scopes, seen, lines)
    return [*cases, loose] if loose is not None else cases


# ── Scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Item = WordList | plan.Event | list["Item"]


@dataclass(eq=False)
class Scope:
    """What one command gets, or what one variable collects in one function. `steps` are in the order of execution."""

    variable: str
    steps: list[Step] = field(default_factory=list)

    @property
    def lists(self) -> list[WordList]:
        return [step for step in _flat(self.steps) if isinstance(step, WordList)]

    @property
    def has_flag(self) -> bool:
        return any(found.flags for found in self.lists)

    @property
    def expands(self) -> frozenset[str]:
        return frozenset().union(*(found.expands for found in self.lists))


@dataclass(slots=True)
class Fork:
    """Steps of which some may run: the arms of an ``if``, the body of a loop."""

    kind: str
    arms: list[list[Step]]


@dataclass(frozen=True, slots=True)
class Used:
    """The variable's value is used here."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A name is given a value, or may be by a command."""

    name: str


Step = WordList | Fork | Used | Assigned


def _flat(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Fork):
            for arm in step.arms:
                yield from _flat(arm)
        else:
            yield step


def _scopes(script: Script) -> Iterator[Scope]:
    functions = [n for n in script.nodes if n.type == "function_definition"]
    for body in (script.tree.root_node, *functions):
        own = list(_own(body))
        variables: dict[str, list[Step]] = {}
        for node in own:
            for found in script.lists(node):
                if found.variable:
                    variables.setdefault(found.variable, []).append(found)
                elif found.flags or found.expands:
                    yield Scope("", [found])
        for variable, lists in variables.items():
            # Where nothing is an override, only what the variable is made of matters.
            matters = any(w.override for f in lists if isinstance(f, WordList) for w in f.words)
            yield Scope(variable, _steps(script, body.children, variable) if matters else lists)


def _own(body: Node) -> Iterator[Node]:
    """The nodes of a function, or of the script, without those of functions inside."""
    waiting = list(reversed(body.children))
    while waiting:
        node = waiting.pop()
        if node.type != "function_definition":
            yield node
            waiting += reversed(node.children)


def _steps(script: Script, nodes: Iterable[Node], variable: str) -> list[Step]:
    steps: list[Step] = []
    for node in nodes:
        match node.type:
            case "function_definition":
                continue
            case "if_statement":
                steps.append(Fork("branch", list(_arms(script, node, variable))))
            case "case_statement":
                arms = [_steps(script, n.children, variable) for n in node.children if n.type == "case_item"]
                steps.append(Fork("branch", [*arms, []]))
            case "for_statement" | "while_statement" | "c_style_for_statement":
                steps.append(Fork("loop", [_steps(script, node.children, variable)]))
            case "list":
                # What stands behind && or || may not run.
                first, *rest = [n for n in node.children if n.type not in ("&&", "||")]
                steps += _steps(script, [first], variable)
                steps.append(Fork("branch", [_steps(script, rest, variable), []]))
            case "variable_assignment":
                found = [f for f in script.lists(node) if f.variable == variable]
                if found:
                    steps += found
                elif node.children:
                    steps += _steps(script, node.children, variable)
                    steps.append(Assigned(script.of(node.children[0])))
            case "simple_expansion" | "expansion":
                if any(n.type == "variable_name" and script.of(n) == variable for n in node.children) or (
                    any(n.type == "subscript" and script.of(n).startswith(variable + "[") for n in node.children)
                ):
                    steps.append(Used())
            case _:
                steps += _steps(script, node.children, variable)
    return steps


def _arms(script: Script, node: Node, variable: str) -> Iterator[list[Step]]:
    """The arms of an ``if``, the one in which nothing runs included."""
    parts: list[list[Node]] = [[]]
    has_else = False
    for child in node.children:
        if child.type in ("elif_clause", "else_clause"):
            has_else = has_else or child.type == "else_clause"
            parts.append(list(child.children))
        else:
            parts[0].append(child)
    for part in parts:
        yield _steps(script, part, variable)
    if not has_else:
        yield []


# ── Lists that meet ─────────────────────────────────────────────────────────────────────────────────────────────────


def _groups(scopes: Sequence[Scope]) -> dict[int, list[Scope]]:
    """For each scope the scopes whose words may reach the same command as its own."""
    group: dict[int, list[Scope]] = {id(s): [s] for s in scopes}

    def join(a: Scope, b: Scope) -> None:
        first, second = group[id(a)], group[id(b)]
        if first is not second:
            first += second
            for scope in second:
                group[id(scope)] = first

    by_name: dict[str, Scope] = {}
    for scope in scopes:
        if scope.variable:
            join(by_name.setdefault(scope.variable, scope), scope)
    for scope in scopes:
        for name in scope.expands:
            if name in by_name:
                join(by_name[name], scope)
    return group


def _disagreement(scope: Scope, group: Sequence[Scope]) -> str:
    """Why the flag of one scope cannot be moved without looking at another one."""
    others = [s for s in group if s is not scope and s.has_flag]
    values = {
        overrides.stored(w.override.value or "")
        for s in (scope, *others)
        for f in s.lists
        for w in f.flags
        if w.override
    }
    if not others or values == {plan.TRUE} or values == {plan.FALSE}:
        return ""
    names = sorted({f"${s.variable}" for s in others if s.variable})
    where = ", ".join(names) or "the command that gets these words"
    return (
        f"{where} sets the flag as well and the values differ, while old Bridge OR-ed dist and ddp; decide which one "
        f"is meant and write it once, as {overrides.NEW_NAME}"
    )


# ── Cases ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _case(script: Script, scope: Scope, group: Sequence[Scope], lines: Lines, target: str) -> ShellCase | None:
    reader = _Reader(script, scope)
    block = (*_from_elsewhere(reader, scope, group), *reader.block(scope.steps))
    spots = {n: _spot(s, lines) for n, s in reader.sites.items()}
    old = [s for s in spots.values() if s.section == OLD_SECTION]
    refusal = _disagreement(scope, group)
    if refusal and not old:
        # Nothing moves here, and whether FSDP is on is decided elsewhere.
        return None
    refusal = refusal or (reader.refusal if old else "")
    decision = plan.decide(block)
    if decision.refused is not None and not refusal and old:
        refusal = (
            f"no rewrite keeps the flag's value; write {overrides.NEW_NAME} by hand with the value that dist OR ddp has"
        )
    for site in reader.removed:
        spots[site.id] = _spot(site, lines)
    certain = not any(isinstance(step, Fork) for step in scope.steps)
    others = [found for other in group if other is not scope for found in other.lists]
    config, settings = config_of(script, scope.lists, others, certain and len(group) == 1, lines, target)
    if not (old or reader.removed or decision.companions or config):
        return None
    root = f"${scope.variable}" if scope.variable else ""
    case = Case(
        "shell",
        root or "<command>",
        decision,
        spots,
        refusal=refusal,
        companions="overlay",
        companions_why=_LIES_OVER,
        config=config,
    )
    removed = tuple(reader.removed) if not refusal else ()
    return ShellCase(case, script, reader.sites, block, removed, settings=settings)


def _spot(site: Site, lines: Lines) -> Spot:
    word = site.word
    assert word.override is not None
    form = "word" if word.override.is_flag else "setting-word"
    section = word.override.section if word.override.is_flag else ""
    return Spot(site.id, form, section, lines.place(word.start, word.end), word.text)


class _Reader:
    """Turns the steps of a scope into events."""

    def __init__(self, script: Script, scope: Scope) -> None:
        self.script = script
        self.scope = scope
        self.sites: dict[int, Site] = {}
        self.removed: list[Site] = []
        self.refusal = ""
        self.count = 0
        self.started = False

    def new(self) -> int:
        self.count += 1
        return self.count

    def block(self, steps: Iterable[Step]) -> plan.Block:
        return tuple(event for step in steps for event in self.step(step))

    def step(self, step: Step) -> Iterator[plan.Event]:
        match step:
            case Fork("loop", [body]):
                yield plan.Loop(self.block(body))
            case Fork(_, arms):
                yield plan.Branch(tuple(self.block(arm) for arm in arms))
            case Used():
                yield plan.Observe(self.new())
            case Assigned(name):
                yield plan.Touch(self.new(), frozenset({name}))
            case WordList():
                if step.variable and not step.adds and self.started:
                    yield plan.Root(self.new())
                self.started = True
                if step.prepends and len(self.scope.lists) > 1:
                    self.refusal = f"words are put in front of ${step.variable}; say by hand which one is last"
                for word in step.words:
                    yield from self.word(word, step)

    def word(self, word: Word, found: WordList) -> Iterator[plan.Event]:
        override = word.override
        if override is None:
            return
        if override.is_flag and override.mark == "~":
            site = Site(self.new(), word, found)
            if override.section == OLD_SECTION and len(found.flags) == sum(_is_removal(w) for w in found.flags):
                self.removed.append(site)
            else:
                self.sites[site.id] = site
                self.refusal = f"{word.text} deletes a key that another word sets; write the words by hand"
                yield plan.Store(site.id, override.section, (plan.Symbol(word.text, ""),), frozenset())
        elif override.is_flag and override.value is not None:
            site = Site(self.new(), word, found)
            self.sites[site.id] = site
            yield plan.Store(site.id, override.section, value_of(word), _ANY_CAN)
        elif override.name in WATCHED and override.mark != "~" and override.value is not None:
            site = Site(self.new(), word, found)
            self.sites[site.id] = site
            known: object = plan.UNKNOWN if word.expands or "`" in word.text else overrides.literal(override.value)
            yield plan.Setting(site.id, override.name, known)


def _is_removal(word: Word) -> bool:
    return word.override is not None and word.override.mark == "~" and word.override.section == OLD_SECTION


def value_of(word: Word) -> plan.Expression:
    """The flag's value in a word."""
    assert word.override is not None and word.override.value is not None
    value = word.override.value
    if "$" not in value and "`" not in value:
        return overrides.stored(value)
    key = re.sub(r"\$\{(\w+)\}", r"$\1", value)
    return (plan.Symbol(key, value, word.expands, pure="$(" not in value and "`" not in value),)


def _from_elsewhere(reader: _Reader, scope: Scope, group: Sequence[Scope]) -> Iterator[plan.Event]:
    """Settings that other lists of the group give to the same command: nothing is missing that they have."""
    mine = {w.override.name for f in scope.lists for w in f.words if w.override}
    for other in group:
        if other is scope:
            continue
        for found in other.lists:
            for word in found.words:
                if word.override and word.override.name in WATCHED and word.override.name not in mine:
                    value = plan.UNKNOWN if word.expands else overrides.literal(word.override.value or "")
                    if other.has_flag and word.override.name in COMPANIONS:
                        # Whether it is right is looked at, and reported, where it stands.
                        value = COMPANIONS[word.override.name]
                    site = Site(reader.new(), word, found)
                    reader.sites[site.id] = site
                    yield plan.Setting(site.id, word.override.name, value, can_set=False)


# ── What is no override ─────────────────────────────────────────────────────────────────────────────────────────────


def _loose(script: Script, scopes: Sequence[Scope], seen: set[tuple[int, int]], lines: Lines) -> ShellCase | None:
    """The old path in comments, in words that are no overrides, and where the grammar does not understand."""
    comments = [script.span(node) for node in script.nodes if node.type == "comment"]
    elsewhere = [script.span(body) for body in bodies(script)]
    remarks: list[Spot] = []
    paths: list[tuple[int, int]] = []
    text = script.text
    for match in OLD_PATH.finditer(text):
        start, end = match.span()
        if _within(start, seen) or _within(start, elsewhere):
            continue
        if _within(start, comments):
            paths.append((start, end))
            remarks.append(Spot(0, PROSE, OLD_SECTION, lines.place(start, end), match[0]))
        else:
            remarks.append(Spot(0, "bare", OLD_SECTION, lines.place(start, end), match[0]))
    sections: list[tuple[int, int]] = []
    for scope in scopes:
        for found in scope.lists:
            for word in found.words:
                if _SECTION_VALUE.fullmatch(word.text.strip("'\"")) and not _within(word.start, sections):
                    sections.append((word.start, word.end))
                    remarks.append(
                        Spot(
                            0,
                            "refused",
                            OLD_SECTION,
                            lines.place(word.start, word.end),
                            word.text,
                            f"it gives the whole section; move {FLAG} to {NEW_SECTION} by hand",
                        )
                    )
    return ShellCase(Case("shell", "", remarks=tuple(remarks)), script, paths=tuple(paths)) if remarks else None


def _within(position: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= position < end for start, end in spans)
