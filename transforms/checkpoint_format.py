"""FSDP012: FSDP saves and loads fsdp_dtensor checkpoints only.

Source: megatron-bridge 0.6.2, training/config.py:1099 and 1391.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Rule
from fsdp_migrate.companions import VALID, lacking, missing
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import CKPT_FORMAT


def check(case: Case) -> Iterator[Draft]:
    yield from missing(case, CKPT_FORMAT)
    if case.refusal:
        return
    for kept in case.decision.companions:
        if kept.name == CKPT_FORMAT and kept.how == "keep" and kept.anchor in case.spots:
            yield Draft(
                Severity.WARNING,
                "checkpoint.ckpt_format is an expression while Megatron FSDP is always on",
                case.spots[kept.anchor].place,
                why='make sure that it is "fsdp_dtensor" whenever the flag is True',
            )
    spot = case.spots.get(case.decision.leak or -1)
    if spot is not None:
        yield Draft(
            Severity.WARNING,
            """\
FSDP may be off here, and checkpoint.ckpt_format = "fsdp_dtensor" is inherited from the base""",
            spot.place,
            why='validate() refuses that format without FSDP; set checkpoint.ckpt_format = "torch_dist" there',
        )


RULE = Rule(
    code="FSDP012",
    name="ckpt-format",
    summary="Megatron FSDP is on and the checkpoint format is not fsdp_dtensor",
    explanation="""\
With checkpoint.save or checkpoint.load set, validate() stops unless ckpt_format is "fsdp_dtensor". A legacy format
is no choice about FSDP and is changed where it stands, if every path from there has FSDP on.""",
    safety="Safe; unsafe where only checkpoint.pretrained_checkpoint is set: that directory has its own format.",
    source="megatron-bridge 0.6.2, training/config.py:1099 and 1391",
    check=check,
    valid=VALID,
    invalid=lacking(CKPT_FORMAT),
)
