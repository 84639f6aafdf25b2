"""Turn a decision into changes of data, have the syntax carry them out, and prove that both agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fsdp_migrate import overrides
from fsdp_migrate.cases import MOVE
from fsdp_migrate.config.analyse import ConfigCase, Site
from fsdp_migrate.config.changes import Add, AddItems, Change, Remove, Rename, Set, Value, applied
from fsdp_migrate.config.tree import Entry, Node, anchors, data_of
from fsdp_migrate.conflicts import replacements
from fsdp_migrate.findings import Edit, apply_edits
from fsdp_migrate.prose import PROSE
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import CHECKPOINT_SECTION, COMPANIONS, FLAG, NEW_SECTION, OLD_SECTION


def edits_of(found: ConfigCase, parts: frozenset[str]) -> tuple[Edit, ...]:
    """The edits that carry out these parts of a case's fix.

    Raises:
        RuntimeError: the edited text does not mean what it should.
    """
    if found.shape == "text":
        wanted = found.paths if PROSE in parts else ()
        return tuple(Edit(start, start + len(OLD_SECTION), NEW_SECTION) for start, _ in wanted)
    changes = list({"nested": _nested, "dotted": _dotted, "words": _words}[found.shape](found, parts))
    changes += _replaced(found, parts)
    if not changes:
        return ()
    edits = tuple(sorted(found.syntax.edits(found.text, found.documents, changes)))
    after = found.syntax.documents(apply_edits(found.text, edits))
    if [data_of(d, anchors(d)) for d in after] != applied(found.data, changes):
        raise RuntimeError("the edited text would not load as it should")
    return edits


def _replaced(found: ConfigCase, parts: frozenset[str]) -> Iterator[Change]:
    """Settings that get the value that a rule about conflicts asks for."""
    for name, value in replacements(parts).items():
        path = found.settings[name]
        word = overrides.spell(found.marks.get(name, "") + name, value)
        yield Set(path, Value(word if found.shape == "words" else value))


# ── Nested keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _nested(found: ConfigCase, parts: frozenset[str]) -> Iterator[Change]:
    number = found.root[0]
    assert isinstance(number, int)
    root = found.documents[number]
    added: list[tuple[str, Value]] = []
    comment = ""
    renames = False
    if MOVE in parts:
        for event, action in found.case.decision.actions.items():
            site = found.sites[event]
            match action:
                case plan.Rename(value):
                    new = _value(found, site, value)
                    renames = _is_alone(root) and root.entry(NEW_SECTION) is None
                    if renames:
                        # The section has no other key: it becomes the new one, with its comments.
                        yield Rename((number, OLD_SECTION), NEW_SECTION)
                        continue
                    added.append((FLAG, new))
                    target = root.entry(NEW_SECTION)
                    takes_comment = not root.flow and (target is None or not target.value.flow)
                    comment = _comment(found.text, site.node) if takes_comment else ""
                    yield replace(_removal(root, number), with_comment=bool(comment))
                case plan.Put(value):
                    if value != _stored(found, site):
                        yield Set(site.path, _value(found, site, value))
                case plan.Delete():
                    yield _removal(root, number, heir=(number, NEW_SECTION, FLAG))
                case _:
                    raise RuntimeError(f"a key cannot be changed by {action}")
    sections: dict[str, list[tuple[str, Value]]] = {NEW_SECTION: added, CHECKPOINT_SECTION: []}
    for name in _inserted(found, parts):
        section, key = name.split(".")
        sections[section].append((key, Value(COMPANIONS[name])))
    yield from _changed(found, parts)
    flag = _has(root.entry(NEW_SECTION), FLAG)
    if sections[NEW_SECTION]:
        owner = OLD_SECTION if renames else NEW_SECTION
        after = FLAG if flag or renames else ""
        yield Add((number, owner), tuple(sections[NEW_SECTION]), after, OLD_SECTION, comment)
    if sections[CHECKPOINT_SECTION]:
        beside = NEW_SECTION if root.entry(NEW_SECTION) is not None else OLD_SECTION
        yield Add((number, CHECKPOINT_SECTION), tuple(sections[CHECKPOINT_SECTION]), "", beside)


def _is_alone(root: Node) -> bool:
    owner = root.entry(OLD_SECTION)
    return owner is not None and len(owner.value.entries) == 1


def _has(section: Entry | None, name: str) -> bool:
    return section is not None and section.value.entry(name) is not None


def _removal(root: Node, number: int, heir: tuple[str | int, ...] = ()) -> Remove:
    """The key goes, and the section with it if nothing else is in it: it would load as None."""
    return Remove((number, OLD_SECTION) if _is_alone(root) else (number, OLD_SECTION, FLAG), heir)


def _comment(text: str, node: Node) -> str:
    """The comment behind a value on its line."""
    end = text.find("\n", node.end)
    rest = text[node.end : end if end >= 0 else len(text)].strip()
    return rest if rest.startswith("#") else ""


# ── Dotted keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _dotted(found: ConfigCase, parts: frozenset[str]) -> Iterator[Change]:
    names = {s.section: s.path[-1] for s in found.sites.values() if s.section}
    if MOVE in parts:
        for event, action in found.case.decision.actions.items():
            site = found.sites[event]
            match action:
                case plan.Delete():
                    yield Remove(site.path, heir=(*site.path[:-1], overrides.NEW_NAME))
                case plan.Rename(value):
                    if value is not None and value != _stored(found, site):
                        yield Set(site.path, _value(found, site, value))
                    yield Rename(site.path, overrides.NEW_NAME)
                    names[NEW_SECTION] = site.path[-1]
                case plan.Put(value):
                    if value != _stored(found, site):
                        yield Set(site.path, _value(found, site, value))
                case _:
                    raise RuntimeError(f"a key cannot be changed by {action}")
    wanted = [(name, Value(COMPANIONS[name])) for name in _inserted(found, parts)]
    if wanted:
        yield Add(found.root, tuple(wanted), after=str(names.get(NEW_SECTION, names.get(OLD_SECTION, ""))))
    yield from _changed(found, parts)


# ── Words ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _words(found: ConfigCase, parts: frozenset[str]) -> Iterator[Change]:
    if MOVE in parts:
        for event, action in found.case.decision.actions.items():
            site = found.sites[event]
            word = str(site.node.value)
            match action:
                case plan.Delete():
                    yield Remove(site.path)
                case plan.Rename(value):
                    yield Set(site.path, Value(_word(found, site, overrides.renamed(word), value)))
                case plan.Put(value):
                    if value != _stored(found, site):
                        yield Set(site.path, Value(_word(found, site, word, value)))
                case _:
                    raise RuntimeError(f"a word cannot be changed by {action}")
    added: dict[int, list[str]] = {}
    for companion in found.case.decision.companions:
        wanted = COMPANIONS[companion.name]
        if companion.how == "insert" and companion.name in parts:
            added.setdefault(companion.anchor, []).append(overrides.spell(companion.name, wanted))
        elif _is_changed(companion, parts):
            site = found.sites[companion.anchor]
            override = overrides.read(str(site.node.value))
            assert override is not None
            yield Set(site.path, Value(overrides.spell(override.mark + override.name, wanted)))
    for anchor, words in added.items():
        yield AddItems(found.sites[anchor].path, tuple(words))


def _word(found: ConfigCase, site: Site, word: str, value: plan.Expression | None) -> str:
    if value is None or value == _stored(found, site):
        return word
    text = {plan.TRUE: "true", plan.FALSE: "false"}.get(value) or "".join(
        atom.source for atom in value if isinstance(atom, plan.Symbol)
    )
    return word.split("=", 1)[0] + "=" + text


# ── Small pieces ────────────────────────────────────────────────────────────────────────────────────────────────────


def _inserted(found: ConfigCase, parts: frozenset[str]) -> Iterator[str]:
    names = {c.name for c in found.case.decision.companions if c.how in ("insert", "keyword") and c.name in parts}
    return (name for name in COMPANIONS if name in names)


def _is_changed(companion: plan.Companion, parts: frozenset[str]) -> bool:
    return (companion.how == "change" and companion.name in parts) or (
        companion.how == "keep" and f"{companion.name}!" in parts
    )


def _changed(found: ConfigCase, parts: frozenset[str]) -> Iterator[Change]:
    for companion in found.case.decision.companions:
        if _is_changed(companion, parts):
            yield Set(found.sites[companion.anchor].path, Value(COMPANIONS[companion.name]))


def _stored(found: ConfigCase, site: Site) -> plan.Expression:
    if site.entry is None:
        override = overrides.read(str(site.node.value))
        return overrides.stored(override.value or "") if override is not None else ()
    if isinstance(site.node.value, bool) and not site.node.tag and site.node.kind == "scalar":
        return plan.TRUE if site.node.value else plan.FALSE
    source = found.text[site.node.start : site.node.end]
    return (plan.Symbol(source, source),)


def _value(found: ConfigCase, site: Site, value: plan.Expression | None) -> Value:
    """What a flag is set to, spelled as it is where it comes from."""
    if value is None or value == _stored(found, site):
        return Value(_data(site.node), found.text[site.node.start : site.node.end])
    if value in (plan.TRUE, plan.FALSE):
        return Value(bool(value))
    source = next(s for s in found.sites.values() if s.section and _stored(found, s) == value)
    return Value(_data(source.node), found.text[source.node.start : source.node.end])


def _data(node: Node) -> object:
    return data_of(node, {})
