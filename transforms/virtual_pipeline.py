"""FSDP132: FSDP checkpoints know one model chunk per rank."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    path = "model.virtual_pipeline_model_parallel_size"
    if config.fsdp and config.exceeds(path, 1) and config.keeps_checkpoints:
        yield Conflict(
            path,
            Severity.ERROR,
            "fsdp_dtensor checkpoints cannot be saved or loaded with a virtual pipeline",
            "leave it out, or save and load nothing",
        )


RULE = Rule(
    code="FSDP132",
    name="virtual-pipeline",
    summary="FSDP checkpoints with a virtual pipeline",
    explanation="""\
With several chunks the state has model0, model1, ... and preparing it for fsdp_dtensor ends in a KeyError.""",
    safety="None: the schedule is the author's choice.",
    source=(
        "megatron-bridge 0.6.2, training/checkpointing.py:2062-2085; megatron-core 0.14, training/checkpointing.py:820"
    ),
    check=check(judge),
    traceable=True,
    valid=examples({"model.virtual_pipeline_model_parallel_size": 1, "checkpoint.save": "/out"}),
    invalid=examples({"model.virtual_pipeline_model_parallel_size": 2, "checkpoint.save": "/out"}),
)
