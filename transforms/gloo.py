"""FSDP114: Before Bridge 0.5, FSDP checkpoints need gloo process groups."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, for_release
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    path = "dist.use_gloo_process_groups"
    if not config.fsdp or config.keeps_checkpoints is False:
        return
    undistributed = config.is_any("optimizer.use_distributed_optimizer", False)
    if config.is_any(path, False) and not undistributed and not config.is_since("0.5"):
        yield Conflict(
            path,
            Severity.ERROR if config.keeps_checkpoints else Severity.WARNING,
            "before Bridge 0.5 nothing can be saved or loaded with FSDP and without gloo",
            "set it to True, or upgrade Bridge",
            True,
        )


RULE = Rule(
    code="FSDP114",
    name="gloo",
    summary="gloo process groups are off with FSDP before Bridge 0.5",
    explanation="""\
Bridge 0.4 asserts torch_dist then, and FSDP needs fsdp_dtensor: no format is right once something is saved or
loaded. dist.use_decentralized_pg switches gloo off as well.""",
    safety="Unsafe: switches gloo on.",
    source="megatron-bridge 0.4.2, training/config.py:1184 (0.5.1: 1309 allows fsdp_dtensor)",
    check=check(judge),
    traceable=True,
    valid=examples({"dist.use_gloo_process_groups": True}, {"dist.use_gloo_process_groups": False}),
    invalid=for_release("0.4", examples({"dist.use_gloo_process_groups": False, "checkpoint.save": "/out"})),
)
