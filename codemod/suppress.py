"""Comments that exempt findings: ``# fsdp-migrate: ignore[CODES] reason`` and ``# fsdp-migrate: ignore-file[CODES]``.

A comment behind code covers its line, and the whole statement when it stands behind the last line of one (where a
formatter puts it). A comment on a line of its own covers the whole statement, entry, argument or block of code that
follows. Prefixes name groups, as on the command line. A comment without a code exempts nothing: it would also hide what
nobody has thought of yet, so it is an error that says to name one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fsdp_migrate.cases import Case, Spot
from fsdp_migrate.discover import LANGUAGES
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import Item, UnreadableError, commented
from fsdp_migrate.lines import Lines
from fsdp_migrate.prefilter import TOOL
from fsdp_migrate.segments import Segment

_PRAGMA = re.compile(
    r"(?:#+|//|/\*|<!--|\.\.)[ \t]*fsdp-migrate:[ \t]*(?P<word>ignore[\w-]*)(?:[ \t]*\[(?P<codes>[^\]\n]*)\])?"
    r"(?P<reason>(?:(?!#|-->|\*/)[^\r\n])*)"
)
_OPENS, _CLOSES = re.compile(r"\{?"), re.compile(r"\s*(?:-->|\*/\}?)?")
_CODE = re.compile(r"[^\s,]+")

LINE, FILE = "ignore", "ignore-file"


@dataclass(frozen=True, eq=False)
class Ignore:
    """One such comment. `start` and `end` are characters of its segment; `covers` of the file."""

    word: str
    prefixes: tuple[str, ...]
    reason: str
    covers: tuple[int, int]
    segment: Segment
    start: int
    end: int
    codes: tuple[int, int] | None
    """Where the codes stand, between the brackets."""

    def covers_finding(self, code: str, start: int, end: int) -> bool:
        first, last = self.covers
        return code.startswith(self.prefixes) and start < last and max(end, start + 1) > first

    def without(self, prefixes: Collection[str]) -> Edit:
        """The edit of the segment that takes these codes out, and the comment with the last of them."""
        kept = [p for p in self.prefixes if p not in prefixes]
        if kept and self.codes is not None:
            return Edit(*self.codes, ", ".join(kept))
        text = self.segment.text
        line = text.rfind("\n", 0, self.start) + 1
        feed = text.find("\n", self.end)
        stop = len(text) if feed < 0 else feed
        if more := text[self.end : stop].lstrip():
            return Edit(self.start, stop - len(more), "")
        before = text[line : self.start].rstrip(" \t")
        if before:
            return Edit(line + len(before), self.end, "")
        if feed >= 0:
            return Edit(line, feed + 1, "")
        begin = max(0, line - 1)
        return Edit(begin - (text[begin - 1 : begin + 1] == "\r\n"), stop, "")


def read(segment: Segment, path: str) -> list[Ignore]:
    """The comments of one segment of the file `path` that speak to this tool."""
    if TOOL not in segment.text:
        return []
    text = segment.text
    kind = kind_of_name(path)
    language = commented(segment.language)
    try:
        comments = language.comments(text, kind)
        pragmas = [(span, m) for span in comments for m in _PRAGMA.finditer(text, *span)]
        items = language.items(text, _lines(text, comments, pragmas)) if pragmas else []
    except UnreadableError:
        return []  # it is reported as what cannot be read
    return [_ignore(segment, kind, pragma, span, comments, items) for span, pragma in pragmas]


def _lines(
    text: str, comments: Sequence[tuple[int, int]], pragmas: Iterable[tuple[tuple[int, int], object]]
) -> set[int]:
    """The lines of these comments and of the code that follows them."""
    positions = (p for span, _ in pragmas for p in (span[0], _behind(text, span[0], dict(comments))))
    return {text.count("\n", 0, position) + 1 for position in positions}


def _behind(text: str, position: int, comments: Mapping[int, int]) -> int:
    """Where the code behind a comment begins. `comments` are ends by beginnings."""
    while position < len(text) and (position in comments or text[position].isspace()):
        position = comments.get(position, position + 1)
    return position


def kind_of_name(path: str) -> str:
    """What kind of file a name tells, as far as that changes what a comment is."""
    return LANGUAGES.get(PurePath(path).suffix.lower(), "")


def _ignore(
    segment: Segment,
    kind: str,
    pragma: re.Match[str],
    comment: tuple[int, int],
    comments: Sequence[tuple[int, int]],
    items: Sequence[Item],
) -> Ignore:
    text = segment.text
    start, end = pragma.start(), pragma.start() + len(pragma[0].rstrip())
    opens, closes = _OPENS.match(text, comment[0]), _CLOSES.fullmatch(text, end, comment[1])
    if opens and opens.end() == start and closes:
        start, end = comment
    codes = pragma.span("codes") if pragma["codes"] is not None else None
    prefixes = tuple(dict.fromkeys(word.upper() for word in _CODE.findall(pragma["codes"] or "")))
    if pragma["word"] == FILE:
        # A block of a document, or a heredoc, is a file of its own.
        everything = segment.whole or kind == "notebook"
        covers = (0, _EVERYTHING) if everything else (segment.offset(0), segment.offset(len(text)))
    else:
        first, last = covered(text, comment, comments, items)
        covers = segment.offset(first), segment.offset(max(first, last - 1)) + 1
    return Ignore(pragma["word"], prefixes, pragma["reason"].strip(" \t:-"), covers, segment, start, end, codes)


_EVERYTHING = 1 << 62


def covered(
    text: str, comment: tuple[int, int], comments: Sequence[tuple[int, int]], items: Iterable[Item]
) -> tuple[int, int]:
    """The characters that a comment is about, itself included."""
    start, end = comment
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].strip():
        ends_here = [item.start for item in items if item.simple and line < item.end <= start]
        return min([line, *ends_here]), end
    position = _behind(text, start, dict(comments))
    # Bullets of a list in YAML stand before their item.
    bare = re.compile(r"(?:-[ \t]+)*").match(text, position)
    begins = {position, bare.end() if bare else position}
    stop = text.find("\n", position)
    return start, max([len(text) if stop < 0 else stop, *(i.end for i in items if i.start in begins)])


# ── What is wrong with them ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Remarks:
    """What there is to say about the comments of a file, as a case of their own. Each has a part of the fix."""

    case: Case
    repairs: dict[str, Edit]

    def edits(self, parts: frozenset[str]) -> tuple[Edit, ...]:
        return tuple(self.repairs[part] for part in sorted(parts))


def remarks(
    ignores: Sequence[Ignore],
    used: Collection[tuple[int, str]],
    known: Collection[str],
    looked_at: Collection[str],
    lines: Lines,
) -> Remarks | None:
    """A case about comments that name no (known) code or that nothing needs; None if there is nothing to say.

    `used` are positions in `ignores` with a code that was exempted. A code is called unused only if the run looked at
    every rule that it names.
    """
    spots: list[Spot] = []
    repairs: dict[str, Edit] = {}
    for number, ignore in enumerate(ignores):
        exempted = {code for position, code in used if position == number}
        start, end = ignore.segment.offset(ignore.start), ignore.segment.offset(ignore.end - 1) + 1
        for form, text, unused in _wrong(ignore, exempted, known, looked_at):
            part = f"{form} {len(spots)}"
            spots.append(Spot(len(spots), form, "", lines.place(start, end), text, part))
            if unused:
                repairs[part] = ignore.segment.edit(ignore.without(unused))
    return Remarks(Case("comment", "", remarks=tuple(spots)), repairs) if spots else None


def _wrong(
    ignore: Ignore, exempted: Collection[str], known: Collection[str], looked_at: Collection[str]
) -> Iterator[tuple[str, str, list[str]]]:
    """Forms of what is wrong, the text to speak about, and the codes that may go."""
    if ignore.word not in (LINE, FILE):
        yield "unknown-ignore", ignore.word, []
        return
    if not ignore.prefixes:
        yield "bare-ignore", ignore.word, []
    unused = []
    for prefix in ignore.prefixes:
        named = {code for code in known if code.startswith(prefix)}
        if not named:
            yield "unknown-code", prefix, []
        elif named <= set(looked_at) and not named & set(exempted):
            unused.append(prefix)
    if unused:
        yield "unused-ignore", ", ".join(unused), unused
