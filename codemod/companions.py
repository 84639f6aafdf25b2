"""What the three companion rules have in common: how a missing companion is reported."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Example
from fsdp_migrate.findings import Severity
from fsdp_migrate.transforms.plan import Companion
from fsdp_migrate.upstream import COMPANIONS

_WHY = {
    "paths": "it is set on some paths only, or for other paths as well; set it where the flag is decided",
    "unresolved": "where it is set cannot be seen from here; set it in the config that this container gets",
}


def missing(case: Case, name: str) -> Iterator[Draft]:
    """Findings about one companion: what is added or changed, and what is only reported."""
    if case.refusal or case.companions == "none":
        return
    for companion in case.decision.companions:
        if companion.name == name and companion.how in ("insert", "keyword", "change", "none"):
            yield _draft(case, companion)


def _draft(case: Case, companion: Companion) -> Draft:
    value = COMPANIONS[companion.name]
    wanted = f"{companion.name} = {value!r}".replace("'", '"')
    spot = case.spots[companion.anchor]
    message = f"Megatron FSDP is on and needs {wanted}"
    overlay = spot.form in ("word", "key", "dotted-key") and companion.how != "change"
    reported = case.companions == "report" or (case.companions == "overlay" and companion.how != "change")
    if reported or companion.how == "none":
        fixable = overlay and companion.how == "insert" and spot.form == "word"
        why = case.companions_why or _WHY[companion.why or "unresolved"]
        severity = Severity.WARNING if overlay or companion.how == "none" else Severity.INFO
        if case.companions == "report" and not overlay:
            severity = Severity.INFO
        part = companion.name if fixable else ""
        return Draft(severity, message, spot.place, part=part, safe=False, why=why)
    if companion.how == "change":
        message = f"{spot.text} does not go with Megatron FSDP, which needs {wanted}"
    why = (
        ""
        if companion.safe
        else "checkpoint.pretrained_checkpoint may have the old format; convert it, then --unsafe-fixes"
    )
    return Draft(Severity.WARNING, message, spot.place, part=companion.name, safe=companion.safe, why=why)


# ── Examples: the same recipe, complete, off, in library code, and without the companion at hand ────────────────────

_FLAG_LINE = "    cfg.ddp.use_megatron_fsdp = True"
_LINES = {name: f"    cfg.{name} = {value!r}".replace("'", '"') for name, value in COMPANIONS.items()}


def _recipe(*lines: str) -> str:
    return "\n".join(["def recipe():", "    cfg = base()", *lines, "    return cfg", ""])


VALID = (
    Example(_recipe(_FLAG_LINE, *_LINES.values())),
    Example(_recipe("    cfg.ddp.use_megatron_fsdp = False")),
    Example("class C:\n    def on(self):\n        self.ddp.use_megatron_fsdp = True\n"),
)


def lacking(name: str) -> tuple[Example, ...]:
    """A recipe that lacks one companion, and what becomes of it."""
    rest = [line for other, line in _LINES.items() if other != name]
    return (Example(_recipe(_FLAG_LINE, *rest), _recipe(_FLAG_LINE, _LINES[name], *rest)),)
