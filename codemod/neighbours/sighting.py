"""A place that an older migration left, as a case for the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fsdp_migrate.cases import Case, Draft, Neighbour
from fsdp_migrate.findings import Edit, Severity
from fsdp_migrate.lines import Lines

_RENAME = "rename"


@dataclass(frozen=True, slots=True)
class Sighting:
    """One place with the edits that bring it up to date."""

    case: Case
    changes: tuple[Edit, ...]

    def edits(self, parts: frozenset[str]) -> tuple[Edit, ...]:
        return self.changes if _RENAME in parts else ()


def sighting(
    language: str,
    lines: Lines,
    topic: str,
    span: tuple[int, int],
    new: str,
    changes: tuple[Edit, ...] = (),
    *,
    safe: bool = True,
    why: str = "",
    later: bool = False,
) -> Sighting:
    """A sighting; without `changes` it is only reported, and `why` says what to do by hand."""
    text = lines.text[slice(*span)]
    seen = Neighbour(topic, lines.place(*span), text, new, bool(changes), safe, why, later)
    return Sighting(Case(language, "", neighbour=seen), changes)


def check(topic: str, severity: Severity, message: str) -> Callable[[Case], Iterator[Draft]]:
    """The check of a rule that owns a topic. ``{old}`` and ``{new}`` in the message are the two spellings."""

    def drafts(case: Case) -> Iterator[Draft]:
        seen = case.neighbour
        if seen is None or seen.topic != topic:
            return
        said = message.format(old=" ".join(seen.old.split()), new=seen.new)
        kind = Severity.INFO if seen.later else severity
        yield Draft(kind, said, seen.place, _RENAME if seen.can_fix else "", seen.safe, seen.why)

    return drafts
