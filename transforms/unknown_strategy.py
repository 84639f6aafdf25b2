"""FSDP122: A sharding strategy that Megatron-Core does not know."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import NO_FIX, Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import FOREIGN_STRATEGIES, OUTER_STRATEGY, STRATEGIES, STRATEGY


def _meant(value: str) -> str:
    name = value.lower().replace("-", "_")
    near = get_close_matches(name, STRATEGIES, n=1, cutoff=0.75)
    return FOREIGN_STRATEGIES.get(name) or (near[0] if near else "")


def judge(config: Config) -> Iterator[Conflict]:
    for path in (STRATEGY, OUTER_STRATEGY):
        value = config.get(path)
        if not config.fsdp or not isinstance(value, str) or value in STRATEGIES:
            continue
        meant = _meant(value)
        yield Conflict(
            path,
            Severity.ERROR,
            f"{path} = {value!r} is no sharding strategy" + (f": did you mean {meant!r}?" if meant else ""),
            "it is one of " + ", ".join(STRATEGIES),
            meant or NO_FIX,
        )


RULE = Rule(
    code="FSDP122",
    name="unknown-strategy",
    summary="the sharding strategy is none that Megatron-Core knows",
    explanation="""\
Nothing looks at the name before the model is wrapped. Names from other tools (zero3, FULL_SHARD) end in a
ValueError there, on every GPU of the job.""",
    safety="Unsafe: writes the name of the strategy that is probably meant.",
    source="megatron-core 0.19.0, core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py:2341",
    check=check(judge),
    traceable=True,
    valid=examples(
        {"ddp.data_parallel_sharding_strategy": "optim"},
        {"ddp.data_parallel_sharding_strategy": "optim_grads"},
    ),
    invalid=examples(
        {"ddp.data_parallel_sharding_strategy": "FULL_SHARD"},
        {"ddp.data_parallel_sharding_strategy": "optim_grad_params"},
    ),
)
