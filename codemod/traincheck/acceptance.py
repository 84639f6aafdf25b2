"""Would the releases take this config as it stands? The rules about conflicts, before anything is fitted.

Fitting replaces some of the values they speak about, and the `mcore` backend has no such part as the others belong to;
the rest is judged by Megatron's own code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fsdp_migrate.cases import Draft
from fsdp_migrate.conflicts import Known, effective_flag, judged
from fsdp_migrate.findings import Severity
from fsdp_migrate.registry import rules
from fsdp_migrate.upstream import FLAG, NEW_SECTION, OLD_SECTION

Settings = Mapping[str, Any]

_OLD, _NEW = f"{OLD_SECTION}.{FLAG}", f"{NEW_SECTION}.{FLAG}"
# What is not among the settings of these has its class's default.
_COMPLETE = frozenset({"checkpoint", "comm_overlap", "ddp", "dist", "env_vars", "model", "optimizer", "peft", "train"})


def fsdp_is_on(settings: Settings) -> bool:
    """Whether the recipe asks for Megatron FSDP, in either section."""
    return effective_flag(_known(settings, {})) is True


def refusals(settings: Settings, unknown: Settings | None = None) -> tuple[str, ...]:
    """Why a release would stop on this config, or would ignore its switch. `unknown` names what was not evaluated."""
    found = [_told(code, d) for code, d in _drafts(settings, unknown or {}) if d.severity is Severity.ERROR]
    if settings.get(_NEW) is not True:
        old = (
            f"the switch is on {_OLD} only, which releases without that field ignore: run `fsdp-migrate --write` first"
        )
        return (old, *found)
    return tuple(found)


def notes(settings: Settings, unknown: Settings | None = None) -> tuple[str, ...]:
    """What a release accepts without a word and the author should know."""
    found = [_told(code, d) for code, d in _drafts(settings, unknown or {}) if d.severity is not Severity.ERROR]
    if settings.get(_OLD) is True and settings.get(_NEW) is True:
        found.append(f"the switch is also still on {_OLD}: run `fsdp-migrate --write`")
    return tuple(found)


def _drafts(settings: Settings, unknown: Settings) -> Iterator[tuple[str, Draft]]:
    case = judged(_known(settings, unknown), "", complete=_COMPLETE)
    if case is not None and case.config is not None and case.config.fsdp:
        for rule in rules():
            yield from ((rule.code, draft) for draft in rule.check(case))


def _known(settings: Settings, unknown: Settings) -> dict[str, Known]:
    return {path: Known() for path in unknown} | {path: Known(value) for path, value in settings.items()}


def _told(code: str, draft: Draft) -> str:
    return f"{draft.message}: {draft.why} ({code})" if draft.why else f"{draft.message} ({code})"
