"""What the formats share: which findings count, where they are, and how to know one again."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from fsdp_migrate.findings import Edit, Finding, Place
from fsdp_migrate.lines import Lines
from fsdp_migrate.render import neutral, reasons
from fsdp_migrate.run import Outcome
from fsdp_migrate.segments import container


@dataclass(frozen=True)
class Listed:
    """The findings of one outcome, as a report lists them."""

    outcome: Outcome

    @cached_property
    def _fixed(self) -> set[int]:
        return set(map(id, self.outcome.result.fixed))

    def is_fixed(self, finding: Finding) -> bool:
        """Whether this run applies (or applied) its fix."""
        return id(finding) in self._fixed

    @property
    def findings(self) -> Iterator[tuple[Finding, str]]:
        """Every finding with its fingerprint: the same text in another line keeps it."""
        seen: Counter[str] = Counter()
        for finding in sorted(self.outcome.result.findings, key=lambda f: (f.place, f.code)):
            yield finding, self._fingerprint(finding, seen)

    @property
    def left(self) -> Iterator[tuple[Finding, str]]:
        """Those that something is left to do about, once the file is written: all of them as long as it is not."""
        for finding, fingerprint in self.findings:
            if not (self.outcome.written and self.is_fixed(finding)):
                yield finding, fingerprint

    def _fingerprint(self, finding: Finding, seen: Counter[str]) -> str:
        line = self.lines.line(finding.place.line).strip()
        key = "\0".join((finding.code, self.outcome.result.path.replace(os.sep, "/"), line))
        seen[key] += 1
        return hashlib.sha256(f"{key}\0{seen[key]}".encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @cached_property
    def lines(self) -> Lines:
        result = self.outcome.result
        kind = container(result.path, result.source)
        try:
            text = kind.decode(result.source).text if kind else ""
        except ValueError:
            text = ""
        return Lines(text)

    def place(self, edit: Edit) -> Place:
        """Where an edit of the file is."""
        return self.lines.place(edit.start, edit.end)

    def why(self, finding: Finding) -> str:
        """Why it is not fixed, in sentences."""
        return "; ".join(reasons(self.outcome, finding))


def relative(path: str) -> str | None:
    """A path below the working directory, with slashes; None if it is elsewhere."""
    found = os.path.relpath(path).replace(os.sep, "/")
    return None if found == ".." or found.startswith("../") or os.path.isabs(found) else found


def uri(path: str) -> str:
    """The URI of a file: relative to the working directory, else absolute. Bytes that are not UTF-8 are kept."""
    inside = relative(path)
    if inside is not None:
        return quote(os.fsencode(inside))
    return "file://" + quote(os.fsencode(os.path.abspath(path).replace(os.sep, "/")))


def shown(path: str) -> str:
    """A path as text that holds no control characters."""
    return neutral(relative(path) or path)
