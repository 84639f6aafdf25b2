"""A project's own names for roots and sections, from its settings.

A text that uses them is read under Bridge's names, and edits are written under the project's: one mechanism for every
language, and nothing behind it knows more than one name for a section. It needs one naming per text: where two meet,
the flag is reported and left.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from fsdp_migrate.cases import Case, Spot
from fsdp_migrate.findings import Edit, apply_edits
from fsdp_migrate.languages import Found
from fsdp_migrate.lines import Lines
from fsdp_migrate.prose import Text
from fsdp_migrate.segments import Segment
from fsdp_migrate.upstream import FLAG, OLD_SECTION, SECTIONS

_SECTION = rf"(?:{'|'.join(SECTIONS)})"


@dataclass(frozen=True, slots=True)
class Names:
    """Other names: of roots, dotted (``policy.megatron_cfg``); of sections, by Bridge's name."""

    roots: tuple[str, ...] = ()
    sections: tuple[tuple[str, tuple[str, ...]], ...] = ()


def named(segments: Iterable[Segment], names: Names) -> Iterator[Segment]:
    """The segments under Bridge's names, and those that a root of another name makes."""
    for segment in segments:
        if FLAG not in segment.text or not (names.roots or names.sections):
            yield segment
            continue
        naming = _naming(segment, names)
        translated: Segment = Translated(segment, naming) if isinstance(naming, Naming) and naming.pieces else segment
        yield translated
        if names.roots and translated.language in ("yaml", "json"):
            from fsdp_migrate.config.roots import below

            yield from below(translated, names.roots)


def unread(segment: Segment, names: Names) -> Sequence[Found] | None:
    """What to say about a text that has two namings, instead of reading it; None where there is nothing in the way."""
    if FLAG not in segment.text or not (names.roots or names.sections):
        return None
    naming = _naming(segment, names)
    if isinstance(naming, Naming):
        return None
    lines = Lines(segment.text)
    old = "|".join((OLD_SECTION, *(o for s, others in names.sections if s == OLD_SECTION for o in others)))
    remarks = []
    for match in re.finditer(rf"[\w.]*\b(?:{old})\b[^\n]{{0,20}}\b{FLAG}\b", segment.text):
        remarks.append(Spot(0, "refused", OLD_SECTION, lines.place(*match.span()), match[0], naming))
    return [Text(Case("text", "", remarks=tuple(remarks)))]


# ── Which names a text uses ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Naming:
    """How a text names things: `pieces` are (start, end, Bridge's name), `sections` the way back, `root` the prefix."""

    pieces: tuple[tuple[int, int, str], ...] = ()
    sections: tuple[tuple[str, str], ...] = ()
    root: str = ""


def _naming(segment: Segment, names: Names) -> Naming | str:
    """How a text names things; or why that cannot be told, and what to do."""
    text = segment.text
    pieces: list[tuple[int, int, str]] = []
    used: dict[str, str] = {}
    for section, others in names.sections:
        for other in others:
            found = list(re.finditer(rf"(?<!\w){re.escape(other)}(?!\w)", text))
            if not found:
                continue
            if section in used or _is_section(section, text):
                both = f"{used.get(section, section)} and {other}"
                return f"{both} name the {section} section in one text; move the flag by hand, or use one name"
            used[section] = other
            pieces += [(*m.span(), section) for m in found]
    if used:
        # What the text does not name yet is named like the rest of it.
        fresh = {s: o[0] for s, o in names.sections if o and s not in used and not _is_section(s, text)}
        used = {**fresh, **used}
    # In Python a dotted name is a path, which is understood as it is; in a string it is an override.
    begin = r"(?:(?<=[\"'])|(?<=[\"'][+~])|(?<=[\"']\+\+))" if segment.language == "python" else r"(?<![\w.])"
    bare = re.search(rf"{begin}{_SECTION}\.{FLAG}\b", text)
    roots = {r: list(re.finditer(rf"{begin}{re.escape(r)}\.(?={_SECTION}\b)", text)) for r in names.roots}
    roots = {root: found for root, found in roots.items() if found}
    if len(roots) + (bare is not None) > 1:
        return "overrides for several roots stand in one text; move the flag by hand"
    for found in roots.values():
        pieces += [(*m.span(), "") for m in found]
    return Naming(tuple(sorted(pieces)), tuple(used.items()), next(iter(roots), ""))


def _is_section(name: str, text: str) -> bool:
    """Whether a text uses Bridge's own name for a section."""
    attribute, key = rf"\.{name}\b(?!\()", rf"[\"']{name}[\"'.]"
    plain = rf"(?<![\w.]){name}(?:[ \t]*[:=](?!=)|\.{FLAG}\b)"
    return re.search(f"{attribute}|{key}|{plain}", text) is not None


# ── There and back ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Translated:
    """A segment under Bridge's names."""

    outer: Segment
    naming: Naming

    @property
    def language(self) -> str:
        return self.outer.language

    @property
    def whole(self) -> bool:
        return self.outer.whole

    @property
    def quotes(self) -> bool:
        return self.outer.quotes

    @cached_property
    def text(self) -> str:
        return apply_edits(self.outer.text, (Edit(*piece) for piece in self.naming.pieces))

    def label_at(self, position: int) -> str:
        return self.outer.label_at(self._outer(position))

    def offset(self, position: int) -> int:
        return self.outer.offset(self._outer(position))

    def edit(self, edit: Edit) -> Edit:
        """Whole names change, never a part of one."""
        text, start, end = edit.text, edit.start, edit.end
        for first, last in self._names:
            if first < start < last:
                text, start = self.text[first:start] + text, first
            if first < end < last:
                text, end = text + self.text[end:last], last
        takes_root = start < end and (start, start) in self._names
        return self.outer.edit(Edit(self._outer(start), self._outer(end), self._back(text, takes_root)))

    def _back(self, text: str, takes_root: bool) -> str:
        """New text under the project's names. `takes_root`: it replaces a root that stood at its beginning."""
        for section, other in self.naming.sections:
            text = re.sub(rf"(?<!\w){section}(?!\w)", other, text)
        if self.naming.root:
            section = f"(?:{'|'.join(dict(self.naming.sections).get(s, s) for s in SECTIONS)})"
            begin = r"(?<=[\"'+~])" if self.language == "python" else r"(?<![\w.])"
            begin = rf"(?:\A|{begin})" if takes_root else begin
            text = re.sub(rf"{begin}(?={section}(?:[.\]]|$))", f"{self.naming.root}.", text)
        return text

    @cached_property
    def _names(self) -> list[tuple[int, int]]:
        """Where the translated names stand, here."""
        moved = accumulate((len(new) - (end - start) for start, end, new in self.naming.pieces), initial=0)
        return [
            (start + by, start + by + len(new)) for (start, _, new), by in zip(self.naming.pieces, moved, strict=False)
        ]

    def _outer(self, position: int) -> int:
        """The character of the outer segment. A root that is left out stands behind the position."""
        number = bisect_right(self._names, (position, -1)) - 1
        if number < 0:
            return position
        (first, last), (start, end, _) = self._names[number], self.naming.pieces[number]
        return (
            end + position - last
            if position >= last and position > first
            else start + min(position - first, end - start)
        )
