"""FSDP136: Activations can be offloaded or recomputed, and only on one stage."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.transforms.plan import UNKNOWN


def judge(config: Config) -> Iterator[Conflict]:
    path = "model.cpu_offloading"
    if not config.fsdp or not config.is_any(path, True):
        return
    if config.exceeds("model.pipeline_model_parallel_size", 1):
        yield Conflict(path, Severity.ERROR, f"{path} is refused with pipeline parallelism", "leave one of the two out")
    elif config.get("model.recompute_granularity", None) not in (None, UNKNOWN):
        yield Conflict(path, Severity.ERROR, f"{path} is refused with recomputation", "leave one of the two out")


RULE = Rule(
    code="FSDP136",
    name="cpu-offloading",
    summary="CPU offloading with pipeline parallelism or recomputation",
    explanation="""\
The model's config raises a ValueError, with or without FSDP. People switch both on when FSDP alone does not fit.""",
    safety="None: which of the two is meant is the author's to say.",
    source="megatron-core 0.19.2, core/transformer/transformer_config.py:1714 and 1719",
    check=check(judge),
    traceable=True,
    valid=examples({"model.cpu_offloading": True, "model.pipeline_model_parallel_size": 1}),
    invalid=examples(
        {"model.cpu_offloading": True, "model.pipeline_model_parallel_size": 2},
        {"model.cpu_offloading": True, "model.recompute_granularity": "full"},
    ),
)
