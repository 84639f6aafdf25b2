"""FSDP010: FSDP without a sharding strategy shards nothing.

Source: megatron-core 0.19.2, core/distributed/distributed_data_parallel_config.py; megatron-bridge up to 0.6.2 never
validates it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Rule
from fsdp_migrate.companions import VALID, lacking, missing
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import STRATEGY


def check(case: Case) -> Iterator[Draft]:
    yield from missing(case, STRATEGY)
    for kept in case.decision.companions:
        if kept.name == STRATEGY and kept.how == "keep" and kept.anchor in case.spots and not case.refusal:
            yield Draft(
                Severity.WARNING,
                """\
data_parallel_sharding_strategy is "no_shard": Megatron FSDP is on and shards nothing""",
                case.spots[kept.anchor].place,
                why='choose "optim", "optim_grads" or "optim_grads_params", or switch FSDP off',
            )


RULE = Rule(
    code="FSDP010",
    name="sharding-strategy",
    summary="Megatron FSDP is on and nothing chooses what is sharded",
    explanation="""\
The class default of ddp.data_parallel_sharding_strategy is "no_shard": every rank keeps all weights, gradients and
optimizer state, and nothing says so. A strategy that the recipe sets is kept; "no_shard" gets a warning.""",
    safety="Safe: nothing in the scope, its helpers or its base had chosen a strategy for FSDP.",
    source="megatron-core 0.19.2, core/distributed/distributed_data_parallel_config.py",
    check=check,
    valid=VALID,
    invalid=lacking(STRATEGY),
)
