"""What the formats share: which findings count, where they are, and how to know one again."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from fsdp_migrate.findings import Edit, Finding, Fix, Place
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

    def fix(self, finding: Finding) -> Fix | None:
        """Its fix, if that is for the file as it is: of a file that was written, the fix of what is left is not."""
        is_stale = self.outcome.written and not self.is_fixed(finding)
        return None if is_stale else finding.fix

    def _fingerprint(self, finding: Finding, seen: Counter[str]) -> str:
        is_moved = self.outcome.written and not self.is_fixed(finding)
        line = (self._lines_after if is_moved else self.lines).line(finding.place.line).strip()
        key = "\0".join((finding.code, self.outcome.result.path.replace(os.sep, "/"), line))
        seen[key] += 1
        return hashlib.sha256(f"{key}\0{seen[key]}".encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @cached_property
    def lines(self) -> Lines:
        """The lines of the file as it was."""
        return self._decoded(self.outcome.result.source)

    @cached_property
    def _lines_after(self) -> Lines:
        return self._decoded(self.outcome.result.output)

    def _decoded(self, data: bytes) -> Lines:
        kind = container(self.outcome.result.path, data)
        try:
            return Lines(kind.decode(data).text if kind else "")
        except ValueError:
            return Lines("")

    def place(self, edit: Edit) -> Place:
        """Where an edit of the file is."""
        return self.lines.place(edit.start, edit.end)

    def advice(self, finding: Finding) -> str:
        """What fixes it, or why nothing does."""
        return "fixable: run fsdp-migrate --write" if self.is_fixed(finding) else self.why(finding)

    def why(self, finding: Finding) -> str:
        """Why it is not fixed, in sentences."""
        return "; ".join(reasons(self.outcome, finding))


def relative(path: str, to: str = os.curdir) -> str | None:
    """A path below a folder (the working directory), with slashes; None if it is elsewhere."""
    found = os.path.relpath(path, to).replace(os.sep, "/")
    return None if found == ".." or found.startswith("../") or os.path.isabs(found) else found


def uri(path: str) -> str:
    """The URI of a file: relative to the working directory, else absolute. Bytes that are not UTF-8 are kept."""
    inside = relative(path)
    if inside is not None:
        return quote(os.fsencode(inside))
    return "file://" + quote(os.fsencode(os.path.abspath(path).replace(os.sep, "/")))


def shown(path: str, root: str = "") -> str:
    """A path as text that holds no control characters.

    Relative to `root`, the environment variable with the folder of the checkout, if the file is below that folder; else
    to the working directory, if it is below that one.
    """
    folder = os.environ.get(root, "")
    return neutral((folder and relative(os.path.realpath(path), os.path.realpath(folder))) or relative(path) or path)
