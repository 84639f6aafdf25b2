"""FSDP134: Overlapped expert communication needs single buffers."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    path = "model.overlap_moe_expert_parallel_comm"
    if not config.fsdp or not config.is_any(path, True) or not config.is_since("0.5"):
        return
    if config.is_any("ddp.fsdp_double_buffer", True):
        yield Conflict(
            path,
            Severity.ERROR,
            f"{path} does not go with ddp.fsdp_double_buffer",
            "set one of the two to False",
        )


RULE = Rule(
    code="FSDP134",
    name="expert-overlap",
    summary="overlapped expert communication with double buffers or graphs of layers",
    explanation="""\
The adapter asserts it since Megatron-Core 0.18 (Bridge 0.5).""",
    safety="None: which of the two is meant is the author's to say.",
    source="megatron-core 0.18, core/distributed/fsdp/mcore_fsdp_adapter.py (0.19.0: 168-191)",
    check=check(judge),
    traceable=True,
    valid=examples({"model.overlap_moe_expert_parallel_comm": True, "ddp.fsdp_double_buffer": False}),
    invalid=examples({"model.overlap_moe_expert_parallel_comm": True, "ddp.fsdp_double_buffer": True}),
)
