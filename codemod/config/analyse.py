"""From a configuration file to cases. Knows nodes, not syntax."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Protocol

from fsdp_migrate import overrides
from fsdp_migrate.cases import Case, Spot
from fsdp_migrate.config.changes import Change
from fsdp_migrate.config.tree import Data, Entry, Node, Path, aliases, anchors, data_of, walk
from fsdp_migrate.conflicts import Config, Known, effective_flag
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import demand_few
from fsdp_migrate.lines import Lines
from fsdp_migrate.prose import PROSE, mentions
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import CHECKPOINT_SECTION, FLAG, NEW_SECTION, OLD_SECTION, SECTIONS, WATCHED

MERGE = "<<"
# Keys and files that say that a program wrote the file: Bridge's instantiate_utils.py and checkpointing.py, 0.6.2.
_TARGET = "_target_"
_DUMPS = frozenset({"run_config.yaml"})

_OVERLAY = "a config file lies over a recipe that may set it; add it if the recipe does not"


class Syntax(Protocol):
    """What a file format knows how to do. `null` is how it writes that there is no value; empty if it cannot."""

    null: str

    def documents(self, text: str) -> Sequence[Node]:
        """The trees of a text.

        Raises:
            UnreadableError: it is not of this format.
        """
        ...

    def edits(self, text: str, documents: Sequence[Node], changes: Sequence[Change]) -> Sequence[Edit]: ...


@dataclass(frozen=True, slots=True)
class Site:
    """An entry or item that is an event, and its place in the data."""

    id: int
    section: str
    path: Path
    node: Node
    entry: Entry | None = None


@dataclass(frozen=True, eq=False)
class ConfigCase:
    """A case with the nodes it was read from. `shape` is nested, dotted, words or text."""

    case: Case
    syntax: Syntax
    text: str
    documents: Sequence[Node]
    shape: str
    root: Path = ()
    sites: dict[int, Site] = field(default_factory=dict)
    paths: tuple[tuple[int, int], ...] = ()
    settings: Mapping[str, Path] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> list[Data]:
        return [data_of(d, anchors(d)) for d in self.documents]

    def edits(self, parts: frozenset[str]) -> tuple[Edit, ...]:
        from fsdp_migrate.config.fixing import edits_of

        return edits_of(self, parts)


def analyse(
    text: str, syntax: Syntax, path: str, target: str, inside: Iterable[tuple[int, int]] = ()
) -> Sequence[ConfigCase]:
    """All cases of a file. `inside` are places that segments of another language cover."""
    documents = syntax.documents(text)
    reader = _Reader(text, syntax, documents, PurePath(path).name in _DUMPS, target)
    cases: list[ConfigCase] = []
    for number, document in enumerate(documents):
        cases += reader.document(document, number)
    demand_few(cases)
    loose = reader.loose(list(inside))
    return [*cases, loose] if loose is not None else cases


class _Reader:
    def __init__(self, text: str, syntax: Syntax, documents: Sequence[Node], dumped: bool, target: str) -> None:
        self.text = text
        self.syntax = syntax
        self.documents = documents
        self.dumped = dumped
        self.target = target
        self.lines = Lines(text)
        self.seen: list[tuple[int, int]] = []

    def document(self, document: Node, number: int) -> Iterator[ConfigCase]:
        if document.kind == "mapping":
            nested = self.nested(document, number)
            if nested is not None:
                yield nested
        for node, path in walk(document, (number,)):
            found = None
            if node.kind == "mapping" and any(e.name in overrides.FLAG_NAMES for e in node.entries):
                found = self.dotted(document, node, path)
            elif node.kind == "sequence":
                found = self.words(node, path)
            if found is not None:
                yield found

    # Nested keys at the root

    def nested(self, root: Node, number: int) -> ConfigCase | None:
        sections = {name: root.all(name) for name in SECTIONS}
        flags = {name: [f for s in sections[name] for f in s.value.all(FLAG)] for name in (OLD_SECTION, NEW_SECTION)}
        known = anchors(root)
        merged = self._merged_flag(root, known)
        if not any(flags.values()) and merged is None:
            return None
        scope = _Scope(self, (number,))
        block: list[plan.Event] = []
        serialized = self._is_serialized(root, sections)
        for section in (OLD_SECTION, NEW_SECTION):
            for flag in flags[section]:
                # In TOML the path itself may stand there.
                self.seen.append((self.text.rfind("\n", 0, flag.start) + 1, flag.end))
                can = {"delete", "rename", "after"} if section == OLD_SECTION else {"set", "after"}
                block += scope.store(section, flag, (number, section, FLAG), "key", frozenset(can))
        for section in SECTIONS:
            for owner in sections[section]:
                for entry in self._effective(owner.value, known):
                    name = f"{section}.{entry.name}"
                    if name in WATCHED:
                        own = entry in owner.value.entries
                        block += scope.setting(name, entry, (number, section, str(entry.name)), can_set=own)
        for owner in root.entries:
            if owner.value.kind in ("mapping", "alias"):
                for entry in self._effective(owner.value, known):
                    own = entry in owner.value.entries and not owner.value.anchor
                    path = (number, str(owner.name), str(entry.name))
                    scope.know(f"{owner.name}.{entry.name}", entry, path, own=own)
            else:
                scope.know(str(owner.name), owner, (number, str(owner.name)))
        refusal = ""
        if flags[OLD_SECTION] or merged is not None:
            refusal = self._obstacle(root, sections, flags, known)
        if merged is not None and not flags[OLD_SECTION]:
            refusal = refusal or "it comes from an anchor that other places may use as well; move it by hand"
            block += scope.store(OLD_SECTION, merged, (number, OLD_SECTION, FLAG), "key", frozenset())
        case = scope.case("nested", tuple(block), refusal, "write")
        if case is None:
            return None
        if serialized:
            spots = {
                n: replace(s, form="serialized-key" if s.form == "key" else s.form) for n, s in case.case.spots.items()
            }
            decision = replace(case.case.decision, declared=frozenset(), companions=())
            silent = replace(case.case, spots=spots, decision=decision, companions="none", config=None)
            return replace(case, case=silent)
        if case.case.companions == "write" and (why := self._closed(root, sections)):
            return replace(case, case=replace(case.case, companions="report", companions_why=why))
        return case

    def _merged_flag(self, root: Node, known: dict[str, Node]) -> Entry | None:
        """The old flag where it gets into the dist section by an alias or a merge."""
        for owner in _with_merges(root, known):
            if owner.name == OLD_SECTION:
                target = _resolved(owner.value, known)
                for entry in _with_merges(target, known):
                    if entry.name == FLAG and (entry not in owner.value.entries or owner not in root.entries):
                        return entry
        return None

    def _effective(self, section: Node, known: dict[str, Node]) -> list[Entry]:
        return _with_merges(_resolved(section, known), known)

    def _is_serialized(self, root: Node, sections: dict[str, list[Entry]]) -> bool:
        owners = [root, *(s.value for name in (OLD_SECTION, NEW_SECTION) for s in sections[name])]
        return self.dumped or any(owner.entry(_TARGET) is not None for owner in owners)

    def _obstacle(
        self, root: Node, sections: dict[str, list[Entry]], flags: dict[str, list[Entry]], known: dict[str, Node]
    ) -> str:
        """Why the flag cannot be moved inside this mapping, or an empty string."""
        used = aliases(root)
        for name in SECTIONS:
            if len(sections[name]) > 1:
                return f"{name} stands here twice; merge the two by hand"
        for name in (OLD_SECTION, NEW_SECTION):
            if len(flags[name]) > 1:
                return f"{name} has {FLAG} twice; write it once, by hand"
            for section in sections[name]:
                value = section.value
                if value.kind == "alias" or value.entry(MERGE) is not None:
                    return f"{name} takes its keys from an anchor; move the flag by hand where the anchor is"
                if value.anchor and value.anchor in used:
                    return f"other places use {name} through the anchor &{value.anchor}; move the flag by hand"
                if name == NEW_SECTION and value.kind != "mapping" and not value.is_null:
                    return f"{name} is no mapping; move the flag by hand"
            for flag in flags[name]:
                for node in (flag.key, flag.value):
                    if node.anchor and node.anchor in used:
                        return f"other places use the value through the anchor &{node.anchor}; move the flag by hand"
                if "\n" in self.text[flag.start : flag.end]:
                    return "it is written over several lines; move the flag by hand"
        if root.entry(MERGE) is not None:
            return (
                f"the document takes sections from an anchor, which a new {NEW_SECTION} would replace; move it by hand"
            )
        if any(e.name == overrides.OLD_NAME or e.name == overrides.NEW_NAME for e in root.entries):
            return f"{overrides.OLD_NAME} is written as a dotted and as a nested key here; write it once, by hand"
        return ""

    def _closed(self, root: Node, sections: dict[str, list[Entry]]) -> str:
        """Why no companion can be added here, or an empty string."""
        used = aliases(root)
        for name in (NEW_SECTION, CHECKPOINT_SECTION):
            for section in sections[name]:
                value = section.value
                shared = value.kind == "alias" or value.entry(MERGE) is not None or value.anchor in used
                if shared or (value.kind != "mapping" and not value.is_null):
                    return f"{name} shares its keys through an anchor or is no mapping; add it by hand where it belongs"
        if root.entry(MERGE) is not None:
            return "the document takes sections from an anchor; add it by hand where it belongs"
        return ""

    # Dotted keys in any mapping

    def dotted(self, document: Node, node: Node, path: Path) -> ConfigCase | None:
        scope = _Scope(self, path)
        block: list[plan.Event] = []
        flags = [e for e in node.entries if e.name in overrides.FLAG_NAMES]
        for entry in flags:
            assert entry.name is not None
            section = entry.name.split(".")[0]
            can = frozenset({"delete", "rename", "set", "after"})
            block += scope.store(section, entry, (*path, entry.name), "dotted-key", can)
        for entry in node.entries:
            scope.know(str(entry.name), entry, (*path, str(entry.name)))
            if entry.name in WATCHED:
                block += scope.setting(str(entry.name), entry, (*path, str(entry.name)))
        self.seen += [(e.start, e.end) for e in flags]
        refusal = ""
        if any(e.name == overrides.OLD_NAME for e in flags):
            used = aliases(document)
            names = [e.name for e in flags]
            if len(set(names)) < len(names):
                refusal = "the key stands here twice; write it once, by hand"
            elif node.entry(MERGE) is not None or (node.anchor and node.anchor in used):
                refusal = "this mapping shares its keys through an anchor; move the flag by hand"
            elif any(n.anchor and n.anchor in used for e in flags for n in (e.key, e.value)):
                refusal = "other places use the value through an anchor; move the flag by hand"
            elif any("\n" in self.text[e.start : e.end] for e in flags):
                refusal = "it is written over several lines; move the flag by hand"
            elif len(path) == 1 and any(
                s.value.all(FLAG) for s in node.entries if s.name in (OLD_SECTION, NEW_SECTION)
            ):
                refusal = "the flag is written as a dotted and as a nested key here; write it once, by hand"
        return scope.case("dotted", tuple(block), refusal, "write")

    # Lists of override words

    def words(self, node: Node, path: Path) -> ConfigCase | None:
        found = [
            (i, item, overrides.read(item.value)) for i, item in enumerate(node.items) if isinstance(item.value, str)
        ]
        if not any(o is not None and o.is_flag for _, _, o in found):
            return None
        scope = _Scope(self, path)
        block: list[plan.Event] = []
        refusal = ""
        for i, item, override in found:
            if override is None or override.value is None:
                if override is not None and override.is_flag and override.mark == "~":
                    refusal = f"{item.value} deletes the key; write the words by hand"
                continue
            scope.know_word(override, item, (*path, i))
            if override.is_flag:
                self.seen.append((item.start, item.end))
                can = frozenset({"delete", "rename", "set", "after"})
                block += scope.word_store(override, item, (*path, i), can)
            elif override.name in WATCHED and override.mark != "~":
                block += scope.word_setting(override, item, (*path, i))
            if item.anchor or item.tag or "\n" in self.text[item.start : item.end]:
                refusal = "a word of this list has an anchor, a tag or several lines; move the flag by hand"
        return scope.case("words", tuple(block), refusal, "overlay")

    # What is no key

    def loose(self, inside: list[tuple[int, int]]) -> ConfigCase | None:
        paths: list[tuple[int, int]] = []
        remarks: list[Spot] = []
        covered = [*self.seen, *inside]
        for start, end, is_path in mentions(self.text):
            if any(a <= start < b for a, b in covered):
                continue
            if is_path:
                paths.append((start, end))
            form = PROSE if is_path else "mention"
            remarks.append(Spot(0, form, OLD_SECTION, self.lines.place(start, end), self.text[start:end]))
        if not remarks:
            return None
        case = Case("config", "", remarks=tuple(remarks))
        return ConfigCase(case, self.syntax, self.text, self.documents, "text", paths=tuple(paths))


@dataclass
class _Scope:
    """Collects the events of one mapping or list."""

    reader: _Reader
    root: Path
    sites: dict[int, Site] = field(default_factory=dict)
    spots: dict[int, Spot] = field(default_factory=dict)
    settings: dict[str, Known] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)

    def know(self, name: str, entry: Entry, path: Path, *, own: bool = True) -> None:
        """Remember a setting for the rules about conflicts. `own`: no other place gets its value from this one."""
        value = entry.value
        plain = value.kind == "scalar" and not value.tag and not _is_expression(value.value) and value.value != "???"
        own = own and plain and not value.anchor and "\n" not in self.reader.text[value.start : value.end]
        place = self.reader.lines.place(entry.start, entry.end)
        self.settings[name] = Known(value.value if plain else plan.UNKNOWN, place, own)
        self.paths[name] = path

    def know_word(self, override: overrides.Override, item: Node, path: Path) -> None:
        value = override.value or ""
        known = plan.UNKNOWN if "$" in value else overrides.single(value)
        place = self.reader.lines.place(item.start, item.end)
        self.settings[override.name] = Known(known, place, known is not plan.UNKNOWN)
        self.paths[override.name] = path
        self.marks[override.name] = override.mark

    def config(self) -> Config | None:
        fsdp = effective_flag(self.settings)
        flags = [self.settings[name].place for name in overrides.FLAG_NAMES if name in self.settings]
        place = next((place for place in flags if place is not None), None)
        if fsdp is None or place is None:
            return None
        return Config(fsdp, place, self.settings, self.reader.target, has_null=bool(self.reader.syntax.null))

    def store(self, section: str, entry: Entry, path: Path, form: str, can: frozenset[str]) -> Iterator[plan.Event]:
        site = self._site(section, path, entry.value, form, entry)
        yield plan.Store(site.id, section, self._flag_value(entry.value), can)

    def setting(self, name: str, entry: Entry, path: Path, *, can_set: bool = True) -> Iterator[plan.Event]:
        site = self._site("", path, entry.value, "setting-key", entry)
        value = entry.value
        plain = value.kind == "scalar" and not value.tag and not _is_expression(value.value)
        simple = plain and not value.anchor and "\n" not in self.reader.text[value.start : value.end]
        yield plan.Setting(site.id, name, value.value if plain else plan.UNKNOWN, can_set=can_set and simple)

    def word_store(
        self, override: overrides.Override, item: Node, path: Path, can: frozenset[str]
    ) -> Iterator[plan.Event]:
        site = self._site(override.section, path, item, "word", None)
        yield plan.Store(site.id, override.section, overrides.stored(override.value or ""), can)

    def word_setting(self, override: overrides.Override, item: Node, path: Path) -> Iterator[plan.Event]:
        site = self._site("", path, item, "setting-word", None)
        value = override.value or ""
        yield plan.Setting(site.id, override.name, plan.UNKNOWN if "$" in value else overrides.literal(value))

    def case(self, shape: str, block: plan.Block, refusal: str, companions: str) -> ConfigCase | None:
        decision = plan.decide(block)
        old = any(s.section == OLD_SECTION for s in self.sites.values())
        if decision.refused is not None and old and not refusal:
            refusal = (
                f"the two sections have different expressions; write {overrides.NEW_NAME} by hand with the value that "
                "dist OR ddp has"
            )
        config = self.config()
        if not old and not decision.companions and config is None:
            return None
        case = Case(
            "config",
            ".".join(map(str, self.root[1:])) or "<document>",
            decision,
            self.spots,
            refusal=refusal,
            companions=companions,
            companions_why=_OVERLAY,
            config=config,
        )
        reader, sites = self.reader, self.sites
        return ConfigCase(
            case,
            reader.syntax,
            reader.text,
            reader.documents,
            shape,
            self.root,
            sites,
            settings=self.paths,
            marks=self.marks,
        )

    def _site(self, section: str, path: Path, node: Node, form: str, entry: Entry | None) -> Site:
        site = Site(len(self.sites) + 1, section, path, node, entry)
        self.sites[site.id] = site
        start, end = (entry.start, entry.end) if entry is not None else (node.start, node.end)
        place = self.reader.lines.place(start, end)
        text = " ".join(self.reader.text[start:end].split())
        if form == "key":
            text = f"{section}.{text}"
        self.spots[site.id] = Spot(site.id, form, section, place, text)
        return site

    def _flag_value(self, node: Node) -> plan.Expression:
        if node.kind == "scalar" and isinstance(node.value, bool) and not node.tag:
            return plan.TRUE if node.value else plan.FALSE
        source = self.reader.text[node.start : node.end]
        return (plan.Symbol(source, source),)


def _is_expression(value: object) -> bool:
    return isinstance(value, str) and ("${" in value or "{{" in value)


def _resolved(node: Node, known: dict[str, Node]) -> Node:
    return known.get(str(node.value), node) if node.kind == "alias" else node


def _with_merges(node: Node, known: dict[str, Node], depth: int = 0) -> list[Entry]:
    """The entries of a mapping, those that a merge key adds behind its own."""
    own = [e for e in node.entries if e.name != MERGE]
    names = {e.name for e in own}
    for merge in node.all(MERGE):
        sources = merge.value.items if merge.value.kind == "sequence" else [merge.value]
        for source in sources:
            target = _resolved(source, known)
            if depth < 20 and target.kind == "mapping":
                for entry in _with_merges(target, known, depth + 1):
                    if entry.name not in names:
                        own.append(entry)
                        names.add(entry.name)
    return own
