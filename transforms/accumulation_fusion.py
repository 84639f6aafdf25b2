"""FSDP108: Gradient accumulation fusion needs a recent TransformerEngine under FSDP."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    if config.fsdp and config.is_any("model.gradient_accumulation_fusion", True):
        yield Conflict(
            "model.gradient_accumulation_fusion",
            Severity.INFO if config.traced else Severity.WARNING,
            "with FSDP, model.gradient_accumulation_fusion needs TransformerEngine 2.10 or later",
            "check the version that you train with, or set it to False",
            False,
        )


RULE = Rule(
    code="FSDP108",
    name="gradient-accumulation-fusion",
    summary="model.gradient_accumulation_fusion with FSDP on",
    explanation="""\
Bridge up to 0.3.1 switched it off. Since 0.4 it stays, and Megatron-Core asserts TransformerEngine 2.10 or later.""",
    safety="Unsafe: switches the fusion off, which costs speed where TransformerEngine is new enough.",
    source=(
        "megatron-core 0.17.1, core/distributed/fsdp/mcore_fsdp_adapter.py:111 (0.19.0: 147); megatron-bridge 0.3.1, "
        "training/config.py:1485"
    ),
    check=check(judge),
    traceable=True,
    valid=examples({"model.gradient_accumulation_fusion": False}),
    invalid=examples({"model.gradient_accumulation_fusion": True}),
)
