"""FSDP105: A recipe with FSDP on that ends up with average_in_collective."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, traced
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import AVERAGE


def judge(config: Config) -> Iterator[Conflict]:
    if not (config.traced and config.fsdp and config.is_any(AVERAGE, True)):
        return
    stays = config.is_any("ddp.disable_symmetric_registration", True)
    after = "and stays so" if stays else "and Bridge sets it to False"
    yield Conflict(
        AVERAGE,
        Severity.WARNING if stays else Severity.INFO,
        f"FSDP is on and ddp.average_in_collective ends up as True, {after}",
        "set ddp.average_in_collective = False in this recipe",
    )


RULE = Rule(
    code="FSDP105",
    name="traced-average-in-collective",
    summary="a recipe turns FSDP on and ends up with average_in_collective",
    explanation="""\
From Bridge 0.4 it is set back to False, unless ddp.disable_symmetric_registration is set: then it stays, and
Megatron FSDP honours it. FSDP011 says the same about what one scope can see.""",
    safety="None: FSDP011 fixes it where the recipe sets the flag.",
    source="megatron-bridge 0.6.2, training/config.py:1086 (set to False in all cases up to 0.3.1)",
    check=check(judge),
    traceable=True,
    same_as="FSDP011",
    valid=traced(
        {}, {"ddp.use_megatron_fsdp": False, "ddp.average_in_collective": True}, {"ddp.average_in_collective": False}
    ),
    invalid=traced({"ddp.average_in_collective": True}),
)
