"""FSDP011: FSDP scales gradients itself.

Source: megatron-bridge 0.4.0 and later, training/config.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Rule
from fsdp_migrate.companions import VALID, lacking, missing
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import AVERAGE


def check(case: Case) -> Iterator[Draft]:
    yield from missing(case, AVERAGE)
    for kept in case.decision.companions:
        if kept.name == AVERAGE and kept.how == "keep" and kept.anchor in case.spots and not case.refusal:
            yield Draft(
                Severity.WARNING,
                "average_in_collective is True while Megatron FSDP is on",
                case.spots[kept.anchor].place,
                part=f"{AVERAGE}!",
                safe=False,
                why="the recipe sets it on purpose or by habit; set it to False, or use --unsafe-fixes",
            )


RULE = Rule(
    code="FSDP011",
    name="average-in-collective",
    summary="Megatron FSDP is on and average_in_collective is left to the base",
    explanation="""\
Bridge's common recipes set ddp.average_in_collective to True. Releases up to 0.3.1 always switched it off under FSDP;
since 0.4.0 they do so only unless ddp.disable_symmetric_registration is set.""",
    safety="Safe to add. Changing an explicit True is unsafe: somebody wrote it.",
    source="megatron-bridge 0.4.0 and later, training/config.py",
    check=check,
    valid=VALID,
    invalid=lacking(AVERAGE),
)
