"""FSDP133: One weight for all experts cannot be sharded by FSDP."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    for path in ("model.moe_single_grouped_weight", "model.moe_single_grouped_bias"):
        if config.fsdp and config.is_any(path, True) and config.is_since("0.6"):
            yield Conflict(path, Severity.ERROR, f"{path} does not go with Megatron FSDP", "set it to False", False)


RULE = Rule(
    code="FSDP133",
    name="grouped-weights",
    summary="a single grouped weight for experts with FSDP on",
    explanation="""\
Megatron-LM refuses it since 0.19, when the field came. Bridge does not look.""",
    safety="Unsafe: every expert gets its own weight, which changes the checkpoint.",
    source="megatron-core 0.19.0, training/arguments.py:1115 (ValueError); megatron-bridge does not look",
    check=check(judge),
    traceable=True,
    valid=examples({"model.moe_single_grouped_weight": False}),
    invalid=examples({"model.moe_single_grouped_weight": True}),
)
