"""What became of one repository. A value: it goes through pipes, into the state and into every report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

CHANGED, UNCHANGED, FAILED = "changed", "unchanged", "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """A command that was run after the migration, and the end of what it printed."""

    command: str
    passed: bool
    seconds: float
    output: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One repository.

    `state` is CHANGED, UNCHANGED or FAILED, for `reason`. `base` is the commit that was looked at, `commit` the new
    one. `files` are `(name, lines added, lines removed)`; `left` is what is still to do, a line each. `delivered` says
    how far it went: "", "pushed" or "opened", with `url`, what the pull-request command printed.
    """

    name: str
    key: str
    state: str
    reason: str = ""
    base: str = ""
    commit: str = ""
    branch: str = ""
    files: tuple[tuple[str, int, int], ...] = ()
    left: tuple[str, ...] = ()
    diff: str = ""
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    delivered: str = ""
    url: str = ""
    fingerprint: str = ""
    seconds: float = 0.0
    cached: bool = field(default=False, compare=False)

    @property
    def added(self) -> int:
        return sum(added for _, added, _ in self.files)

    @property
    def removed(self) -> int:
        return sum(removed for _, _, removed in self.files)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Row:
        data: dict[str, Any] = json.loads(text)
        data["files"] = tuple((str(name), int(added), int(removed)) for name, added, removed in data["files"])
        data["checks"] = tuple(Check(**check) for check in data["checks"])
        for key in ("left", "notes"):
            data[key] = tuple(data[key])
        return cls(**data)
