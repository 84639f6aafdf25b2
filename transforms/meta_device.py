"""FSDP125: A model made on the meta device needs sharded weights."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import NO_SHARD, STRATEGY


def judge(config: Config) -> Iterator[Conflict]:
    path = "model.init_model_with_meta_device"
    if config.fsdp and config.is_any(path, True) and config.get(STRATEGY, NO_SHARD) == NO_SHARD:
        yield Conflict(
            path,
            Severity.ERROR,
            f"{path} needs a sharding strategy, and nothing is sharded",
            f'set {STRATEGY} = "optim_grads_params"',
        )


RULE = Rule(
    code="FSDP125",
    name="meta-device",
    summary="model.init_model_with_meta_device with nothing sharded",
    explanation="""\
Megatron-LM and fully_shard refuse it. Bridge does not look, and nothing gives the weights their values.""",
    safety="None: choose what is sharded, or make the model on the device.",
    source="megatron-core 0.18, training/arguments.py and fully_shard.py (ValueError); megatron-bridge does not look",
    check=check(judge),
    traceable=True,
    valid=examples({"model.init_model_with_meta_device": True}),
    invalid=examples({"model.init_model_with_meta_device": True, "ddp.data_parallel_sharding_strategy": "no_shard"}),
)
