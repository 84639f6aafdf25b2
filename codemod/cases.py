"""What the engine hands to the rules, and what a rule gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fsdp_migrate.findings import Place, Severity
from fsdp_migrate.transforms.plan import Decision

if TYPE_CHECKING:
    from fsdp_migrate.conflicts import Config

# Forms of the flag, whatever the language, by the rule that owns them.
STORES = frozenset({"store", "setattr", "replace", "update", "unpack", "subscript"})
KEYWORDS = frozenset({"keyword"})
READS = frozenset({"read", "getattr", "patch"})
WORDS = frozenset({"word", "dotted-key"})
KEYS = frozenset({"key"})
SERIALIZED = frozenset({"serialized-key"})


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file that a rule may speak about.

    `form` is the shape of what stands there, `text` the way it is written, `detail` what more there is to say.
    `double`: it belongs to a mock or a namespace in a test.
    """

    id: int
    form: str
    section: str
    place: Place
    text: str
    detail: str = ""
    double: bool = False


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A place that an older migration left: `topic` tells whose, `new` is what should stand there.

    `can_fix`: its case has edits for it. Without, or where they are not `safe`, `why` says what to look at.
    `later`: it still works with the release that the run is for.
    """

    topic: str
    place: Place
    old: str
    new: str
    can_fix: bool
    safe: bool = True
    why: str = ""
    later: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One root of one scope with the decision about it; or a file's loose remarks, with an empty root.

    `refusal` says why nothing of it may move. `companions` is ``write``, ``report`` (say what is missing, add nothing:
    `companions_why` says why), ``overlay`` (the same, but a wrong setting that stands here is changed) or ``none``.
    `config` is what is known of the settings, for the rules about conflicts; None where FSDP may be on or off.
    `scope` tells the scopes of one text apart; `rests_on` are those that must not move unless this one does.
    """

    language: str
    root: str
    decision: Decision = field(default_factory=Decision)
    spots: Mapping[int, Spot] = field(default_factory=dict)
    reads: tuple[Spot, ...] = ()
    remarks: tuple[Spot, ...] = ()
    refusal: str = ""
    companions: str = "write"
    companions_why: str = ""
    config: Config | None = None
    scope: int = 0
    rests_on: frozenset[int] = frozenset()
    neighbour: Neighbour | None = None

    def flags(self, section: str) -> Iterator[Spot]:
        """The stores of the flag in one section, in order of appearance."""
        for number in sorted(self.spots):
            if self.spots[number].section == section and self.spots[number].form in _FLAG_FORMS:
                yield self.spots[number]


_FLAG_FORMS = STORES | KEYWORDS | WORDS | KEYS | SERIALIZED

# Parts of a case's fix. A draft names the part that resolves it; the rest are names of companions.
MOVE = "move"


@dataclass(frozen=True, slots=True)
class Draft:
    """A finding before it has a code and a fix.

    `part` is the part of the case's fix that resolves it (empty: none does, `why` says why); `safe` whether that part
    may be applied without asking. `needed`: the part is not applied unless this finding is asked for.
    """

    severity: Severity
    message: str
    place: Place
    part: str = ""
    safe: bool = True
    why: str = ""
    needed: bool = True


@dataclass(frozen=True, slots=True)
class Example:
    """A piece of a file. `after` is what becomes of it; None if nothing is changed. `target` is a Bridge release.

    In the language ``traced``, the settings that a recipe was found to end up with, as JSON.
    """

    before: str
    after: str | None = None
    language: str = "python"
    target: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is known about a rule beside its code. `valid` examples give no finding of it, `invalid` ones do.

    `default`: it is on without being selected. `traceable`: it judges settings, so a trace may find more.
    `same_as`: the code that says the same about what the source shows. `needles`: it looks for other names than the
    flag, and a file that has one of them is looked at if the rule is selected. `outdated`: what it finds is an old
    spelling, which editors strike through.
    """

    code: str
    name: str
    summary: str
    explanation: str
    safety: str
    source: str
    check: Callable[[Case], Iterator[Draft]]
    valid: tuple[Example, ...]
    invalid: tuple[Example, ...]
    default: bool = True
    traceable: bool = False
    same_as: str = ""
    needles: tuple[bytes, ...] = ()
    outdated: bool = False
