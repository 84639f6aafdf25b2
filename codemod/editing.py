"""Fixes of one open text, for editors: which findings touch a place, what fixes them, and where that is in their terms.

An editor counts lines and columns from 0, columns in UTF-16 code units unless it says otherwise, and a carriage return
alone ends a line as well (Language Server Protocol 3.17, "Text Documents").
"""

from __future__ import annotations

import difflib
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fsdp_migrate.api import Options, migrate_source
from fsdp_migrate.discover import frozen_reason
from fsdp_migrate.findings import Applicability, Edit, Finding, Fix, Result, apply_edits
from fsdp_migrate.lines import Lines
from fsdp_migrate.segments import container

_LINE_END = re.compile(r"\r\n|\n|\r")
_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}

Position = dict[str, int]
Range = dict[str, Position]


@dataclass(frozen=True)
class Positions:
    """A text as an editor counts it. `encoding` is utf-8, utf-16 or utf-32."""

    text: str
    encoding: str = "utf-16"

    @cached_property
    def starts(self) -> list[int]:
        return [0, *(m.end() for m in _LINE_END.finditer(self.text))]

    def position(self, offset: int) -> Position:
        """Where the character at `offset` is."""
        line = bisect_right(self.starts, offset) - 1
        name, size = _UNITS[self.encoding]
        before = self.text[self.starts[line] : offset]
        return {"line": line, "character": len(before.encode(name, "surrogatepass")) // size}

    def range(self, start: int, end: int) -> Range:
        return {"start": self.position(start), "end": self.position(end)}

    def offset(self, line: int, character: int) -> int:
        """The character at a position; what lies behind the end of a line or the text is its end."""
        if line >= len(self.starts):
            return len(self.text)
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
        name, size = _UNITS[self.encoding]
        units = self.text[self.starts[line] : end].encode(name, "surrogatepass")[: character * size]
        return self.starts[line] + len(units.decode(name, "ignore"))

    def text_edits(self, edits: Iterable[Edit]) -> list[dict[str, object]]:
        return [{"range": self.range(edit.start, edit.end), "newText": edit.text} for edit in sorted(set(edits))]


@dataclass(frozen=True)
class Analysis:
    """What is known of one text. `path` need not exist."""

    result: Result
    text: str
    options: Options

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.text)

    def span(self, finding: Finding) -> tuple[int, int]:
        return self.lines.offsets(finding.place)

    def touching(self, start: int, end: int) -> list[Finding]:
        """The findings that overlap a range of characters, or touch it where it is empty."""
        return [f for f in self.result.findings if (s := self.span(f))[0] <= end and s[1] >= start]

    def on_line(self, line: int, column: int = 0) -> list[Finding]:
        """The findings on a line, counted from 1; with a column (of characters, from 1) only those there."""
        found = [f for f in self.result.findings if f.place.line <= line <= f.place.end_line]
        if not column:
            return found
        at = self.lines.starts[line - 1] + column - 1
        return [f for f in found if self.span(f)[0] <= at <= self.span(f)[1]]

    @property
    def safe_edits(self) -> tuple[Edit, ...]:
        """Everything that --write would change."""
        return tuple({edit for f in self.result.fixed if f.fix for edit in f.fix.edits})

    def applied(self, edits: Iterable[Edit]) -> str:
        return apply_edits(self.text, edits)

    def exempting(self, finding: Finding) -> tuple[Edit, ...]:
        """The edits that write the comment which exempts a finding, and all others on its line."""
        lines = ((finding.place.line, finding.place.line),)
        options = replace(self.options, add_ignores=True)
        done = migrate_source(self.result.source, self.result.path, options, lines=lines)
        return tuple(_difference(self.text, decoded(done.path, done.output))) if done.changed else ()


def analyse(source: bytes, path: str, options: Options) -> Analysis:
    """Look at a text. One that is history, or generated, has findings but no fixes."""
    result = migrate_source(source, path, options)
    if result.error or frozen_reason(path, source):
        findings = tuple(replace(f, fix=None) for f in result.findings)
        result = replace(result, output=source, findings=findings, fixed=())
    return Analysis(result, decoded(path, source), options)


def analyse_text(text: str, path: str, options: Options) -> Analysis:
    """Look at a text that an editor holds. Places count its characters, whatever encoding its first lines declare."""
    source = text.encode("utf-8", "surrogatepass")
    if decoded(path, source) != text:
        # An editor has decoded the file already: UTF-8 read as Latin-1, say, would shift every edit behind an umlaut.
        with suppress(ValueError):  # Characters that its encoding lacks: no fix then, see below.
            source = encoded(path, text.encode("ascii", "replace"), text)
    analysis = analyse(source, path, options)
    if analysis.text == text:
        return analysis
    error = "is not what its declared encoding makes of it: change the declaration"
    return Analysis(Result(path, source, source, error=error), text, options)


def decoded(path: str, source: bytes) -> str:
    """The text of a file, as the engine counts it."""
    kind = container(path, source)
    try:
        return kind.decode(source).text if kind else source.decode("utf-8", "surrogateescape")
    except ValueError:
        return source.decode("utf-8", "surrogateescape")


def encoded(path: str, source: bytes, text: str) -> bytes:
    """A changed text in the encoding that the file has."""
    kind = container(path, source)
    return kind.decode(source).encode(text) if kind else text.encode("utf-8", "surrogateescape")


def fixes_of(findings: Iterable[Finding], *, unsafe: bool) -> list[Fix]:
    """The different fixes of some findings, the safe ones first."""
    fixes = [f.fix for f in findings if f.fix is not None and f.fix.edits]
    wanted = [fix for fix in dict.fromkeys(fixes) if unsafe or fix.applicability is Applicability.SAFE]
    return sorted(wanted, key=lambda fix: fix.applicability is Applicability.UNSAFE)


def file_uri(path: str) -> str:
    return Path(os.path.abspath(path)).as_uri()


def _difference(old: str, new: str) -> Iterator[Edit]:
    """Edits from one text to another, line by line."""
    a, b = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in a:
        starts.append(starts[-1] + len(line))
    for kind, i, j, k, m in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            yield Edit(starts[i], starts[j], "".join(b[k:m]))
