"""FSDP121: A recipe with FSDP on that shards nothing."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, traced
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import NO_SHARD, STRATEGY, VERSION


def judge(config: Config) -> Iterator[Conflict]:
    if config.traced and config.fsdp and config.get(STRATEGY, NO_SHARD) == NO_SHARD and not config.is_any(VERSION, 2):
        inflated = "" if config.is_since("0.5") else "; before Bridge 0.5 its gradient norm is too high as well"
        yield Conflict(
            STRATEGY,
            Severity.WARNING,
            f"FSDP is on and nothing is sharded: {STRATEGY} ends up as no_shard{inflated}",
            f'set {STRATEGY} = "optim_grads_params" in this recipe',
        )


RULE = Rule(
    code="FSDP121",
    name="traced-no-shard",
    summary="a recipe turns FSDP on and ends up sharding nothing",
    explanation="""\
The class default is "no_shard": every rank keeps all weights, gradients and optimizer state, without an error. The
common bases for fine-tuning never set it. FSDP010 says the same about what one scope can see.""",
    safety="None: FSDP010 fixes it where the recipe sets the flag.",
    source=(
        "megatron-core, every release: distributed_data_parallel_config.py; _sft_common and _peft_common of "
        "megatron-bridge 0.6.2"
    ),
    check=check(judge),
    traceable=True,
    same_as="FSDP010",
    valid=traced(
        {}, {"ddp.data_parallel_sharding_strategy": "optim"}, {"ddp.data_parallel_sharding_strategy": "optim_grads"}
    ),
    invalid=traced({"ddp.data_parallel_sharding_strategy": "no_shard"}),
)
