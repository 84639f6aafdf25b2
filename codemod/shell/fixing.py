"""Turn a decision about words into edits of a script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fsdp_migrate import overrides
from fsdp_migrate.cases import MOVE
from fsdp_migrate.conflicts import replacements
from fsdp_migrate.findings import Edit, apply_edits
from fsdp_migrate.prose import PROSE
from fsdp_migrate.shell.analyse import ShellCase, Site, value_of
from fsdp_migrate.shell.words import Script, Word, WordList, script_of
from fsdp_migrate.transforms import plan
from fsdp_migrate.upstream import COMPANIONS, NEW_SECTION, OLD_SECTION


def edits_of(found: ShellCase, parts: frozenset[str]) -> tuple[Edit, ...]:
    """The edits that carry out these parts of a case's fix.

    Raises:
        RuntimeError: the result would be less of a script than the source.
    """
    edits: list[Edit] = []
    if MOVE in parts:
        edits += _moves(found)
    edits += _companions(found, parts)
    edits += [
        _change(found.settings[path], overrides.spell("", value)[1:]) for path, value in replacements(parts).items()
    ]
    if PROSE in parts:
        edits += [Edit(start, start + len(OLD_SECTION), NEW_SECTION) for start, _ in found.paths]
    edits = sorted(edits)
    if edits and script_of(apply_edits(found.script.text, edits)).faults > found.script.faults:
        raise RuntimeError("the result would not be a script any more")
    return tuple(edits)


def _moves(found: ShellCase) -> Iterator[Edit]:
    gone: dict[int, tuple[WordList, set[Word]]] = {}
    removed = list(found.removed)
    for number, action in found.case.decision.actions.items():
        site = found.sites[number]
        match action:
            case plan.Delete():
                removed.append(site)
            case plan.Rename(value):
                yield _set(found, site, value, renamed=True)
            case plan.Put(value):
                if value != value_of(site.word):
                    yield _set(found, site, value, renamed=False)
            case _:
                raise RuntimeError(f"a word cannot be changed by {action}")
    for site in removed:
        gone.setdefault(site.list.node, (site.list, set()))[1].add(site.word)
    for words, deleted in gone.values():
        yield from _deletions(found.script, words, deleted)


def _set(found: ShellCase, site: Site, value: plan.Expression | None, *, renamed: bool) -> Edit:
    word = site.word
    text = overrides.renamed(word.text) if renamed else word.text
    if value is not None and value != value_of(word):
        text = _with_value(found, text, value)
    return Edit(word.start, word.end, text)


def _with_value(found: ShellCase, text: str, value: plan.Expression) -> str:
    """A flag word with another value. An expression is taken from the word that has it, with that word's quotes."""
    if value in (plan.TRUE, plan.FALSE):
        quote = text[0] if text[0] in "'\"" and text[-1] == text[0] else ""
        return re.sub(r"=.*", "=" + ("true" if value else "false"), text, count=1, flags=re.DOTALL) + quote
    source = next(
        s.word
        for s in found.sites.values()
        if s.word.override and s.word.override.is_flag and value_of(s.word) == value
    )
    return overrides.renamed(source.text)


def _companions(found: ShellCase, parts: frozenset[str]) -> Iterator[Edit]:
    added: dict[int, list[str]] = {}
    for companion in found.case.decision.companions:
        value = COMPANIONS[companion.name]
        if companion.how == "insert" and companion.name in parts:
            added.setdefault(companion.anchor, []).append(overrides.spell(companion.name, value))
        elif (companion.how == "change" and companion.name in parts) or (
            companion.how == "keep" and f"{companion.name}!" in parts
        ):
            yield _change(found.sites[companion.anchor].word, overrides.spell("", value)[1:])
    for anchor, words in added.items():
        site = found.sites[anchor]
        space = _space_before(found.script, site)
        yield Edit(site.word.end, site.word.end, "".join(space + word for word in words))


def _change(word: Word, value: str) -> Edit:
    """Another value, in the quotes that stand there."""
    assert word.override is not None and word.override.value is not None
    old = word.override.value
    at = word.text.rindex(old.strip("'\""))
    return Edit(word.start + at, word.start + at + len(old.strip("'\"")), value)


def _space_before(script: Script, site: Site) -> str:
    """What separates a word that stands alone on its line from the one before, for more words like it."""
    words = site.list.words
    i = words.index(site.word)
    before = words[i - 1].end if i else site.list.start
    gap = script.text[before : site.word.start]
    following = words[i + 1].start if i + 1 < len(words) else site.list.end
    shares = i + 1 < len(words) and "\n" not in script.text[site.word.end : following]
    if "\n" not in gap or shares or (site.list.kind == "string" and "\\" not in gap):
        return " "
    indent = gap[gap.rindex("\n") + 1 :]
    if site.list.kind == "array":
        return _line_feed(script) + indent
    return gap if gap.strip() == "\\" else " "


def _line_feed(script: Script) -> str:
    return "\r\n" if "\r\n" in script.text else "\n"


# ── Taking words out ────────────────────────────────────────────────────────────────────────────────────────────────


def _deletions(script: Script, found: WordList, gone: set[Word]) -> Iterator[Edit]:
    """Take words out of a list with the blanks and continuations that led to them."""
    words = found.words
    i = 0
    while i < len(words):
        if words[i] not in gone:
            i += 1
            continue
        j = i
        while j + 1 < len(words) and words[j + 1] in gone and "#" not in script.text[words[j].end : words[j + 1].start]:
            j += 1
        before = words[i - 1].end if i else found.start
        after = words[j + 1].start if j + 1 < len(words) else found.end
        yield Edit(*_extent(script.text, found, words[i : j + 1], before, after, i == 0), "")
        i = j + 1


def _extent(text: str, found: WordList, run: Sequence[Word], before: int, after: int, first: bool) -> tuple[int, int]:
    """The characters that go with a run of words between `before` and `after`."""
    start, end = run[0].start, run[-1].end
    gap, rest = text[before:start], text[end:after]
    comment = re.match(r"[ \t]*#", rest) if found.kind == "array" else None
    if comment:
        # The comment stays, on a line of its own where the word stood on one.
        return start, end + comment.end() - 1
    if "#" in gap and found.kind == "array":
        before = text.rindex("\n", before, start)
        before -= text[before - 1] == "\r"
        gap = text[before:start]
    same_line = "\n" not in rest and after > end
    if same_line and ("\n" in gap or first):
        return start, end + len(rest) if after < found.end else end
    if first and found.kind == "string":
        return start, end + len(rest)
    return before, end
