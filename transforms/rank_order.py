"""FSDP104: Megatron FSDP needs the tp-dp-pp order of ranks."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    if config.fsdp and config.is_any("dist.use_tp_pp_dp_mapping", True):
        yield Conflict(
            "dist.use_tp_pp_dp_mapping",
            Severity.ERROR,
            "dist.use_tp_pp_dp_mapping does not go with Megatron FSDP",
            "validate() refuses it; set it to False",
            False,
        )


RULE = Rule(
    code="FSDP104",
    name="rank-order",
    summary="dist.use_tp_pp_dp_mapping is set with FSDP on",
    explanation="""\
validate() stops. Bridge's own performance scripts set it for PEFT with pipeline parallelism, except with FSDP.""",
    safety="Unsafe: the order of ranks changes, and with it which GPUs share a node.",
    source="megatron-bridge 0.6.2, training/config.py:1116 (1120 in 0.4.2, 1156 in 0.5.1)",
    check=check(judge),
    traceable=True,
    valid=examples({"dist.use_tp_pp_dp_mapping": False}),
    invalid=examples({"dist.use_tp_pp_dp_mapping": True}),
)
