"""FSDP124: Sharding across groups of ranks needs fully sharded groups."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import NO_SHARD, OUTER_STRATEGY, STRATEGIES, STRATEGY


def judge(config: Config) -> Iterator[Conflict]:
    inner = config.get(STRATEGY, NO_SHARD)
    if config.fsdp and config.is_any(OUTER_STRATEGY, "optim") and inner in STRATEGIES and inner != "optim_grads_params":
        yield Conflict(
            OUTER_STRATEGY,
            Severity.ERROR,
            f'{OUTER_STRATEGY} = "optim" works with {STRATEGY} = "optim_grads_params" only',
            "change one of the two",
        )


RULE = Rule(
    code="FSDP124",
    name="outer-strategy",
    summary="an outer sharding strategy without optim_grads_params inside",
    explanation="""\
Megatron-Core raises a NotImplementedError when it makes its buffers.""",
    safety="None: which of the two is meant is the author's to say.",
    source="megatron-core 0.19.0, core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py:2501",
    check=check(judge),
    traceable=True,
    valid=examples(
        {"ddp.outer_dp_sharding_strategy": "optim", "ddp.num_distributed_optimizer_instances": 2},
        {"ddp.outer_dp_sharding_strategy": "no_shard", "ddp.data_parallel_sharding_strategy": "optim"},
    ),
    invalid=examples(
        {
            "ddp.outer_dp_sharding_strategy": "optim",
            "ddp.num_distributed_optimizer_instances": 2,
            "ddp.data_parallel_sharding_strategy": "optim_grads",
        }
    ),
)
