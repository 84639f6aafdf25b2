"""FSDP123: Sharding across groups of ranks needs more than one group."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, traced
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import NO_SHARD, OUTER_STRATEGY


def judge(config: Config) -> Iterator[Conflict]:
    instances = config.get("ddp.num_distributed_optimizer_instances", 1)
    if config.fsdp and config.is_any(OUTER_STRATEGY, "optim") and instances == 1:
        yield Conflict(
            OUTER_STRATEGY,
            Severity.ERROR,
            f'{OUTER_STRATEGY} = "optim" needs ddp.num_distributed_optimizer_instances above 1',
            'set the number of groups of ranks, or "no_shard"',
            NO_SHARD,
        )


RULE = Rule(
    code="FSDP123",
    name="outer-instances",
    summary="an outer sharding strategy with a single optimizer instance",
    explanation="""\
With ddp.num_distributed_optimizer_instances left at 1 there is no outer group, and the first forward pass ends in
an AttributeError.""",
    safety="Unsafe: writes no_shard.",
    source="megatron-core 0.18.0 and 0.19.2, run; perf_recipes/nemotronh/common.py:217 of megatron-bridge 0.6.2",
    check=check(judge),
    traceable=True,
    valid=examples(
        {"ddp.outer_dp_sharding_strategy": "optim", "ddp.num_distributed_optimizer_instances": 4},
        {"ddp.outer_dp_sharding_strategy": "no_shard", "ddp.num_distributed_optimizer_instances": 1},
    ),
    invalid=examples({"ddp.outer_dp_sharding_strategy": "optim", "ddp.num_distributed_optimizer_instances": 1})
    + traced({"ddp.outer_dp_sharding_strategy": "optim"}),
)
