"""FSDP113: Sharded weights have no replicas to compare."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.transforms.plan import UNKNOWN
from fsdp_migrate.upstream import STRATEGY


def judge(config: Config) -> Iterator[Conflict]:
    path = "train.check_weight_hash_across_dp_replicas_interval"
    value = config.get(path, None)
    sharded = config.is_any(STRATEGY, "optim_grads_params")
    if config.fsdp and sharded and value is not UNKNOWN and value is not None:
        late = config.is_since("0.5")
        yield Conflict(
            path,
            Severity.ERROR if late else Severity.WARNING,
            "with optim_grads_params there are no replicas whose weights could be compared",
            "validate() refuses it since Bridge 0.5; set it to None",
            None,
        )


RULE = Rule(
    code="FSDP113",
    name="weight-hash",
    summary="weights are compared across replicas although they are sharded",
    explanation="""\
With optim_grads_params every rank has another part of the weights. validate() stops since Bridge 0.5; before,
hashes of different things are compared.""",
    safety="Unsafe: the comparison is switched off.",
    source="megatron-bridge 0.5.1, training/config.py:1152 (0.6.2: 1112); 0.4.2 does not look",
    check=check(judge),
    traceable=True,
    valid=examples(
        {"train.check_weight_hash_across_dp_replicas_interval": None},
        languages=("python", "yaml"),
    )
    + examples(
        {
            "train.check_weight_hash_across_dp_replicas_interval": 20,
            "ddp.data_parallel_sharding_strategy": "optim_grads",
        }
    ),
    invalid=examples({"train.check_weight_hash_across_dp_replicas_interval": 20}),
)
