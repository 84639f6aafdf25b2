"""FSDP139: Fully sharded training always overlaps its communication."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import STRATEGY

_FORCED = ("ddp.overlap_grad_reduce", "ddp.overlap_param_gather")


def judge(config: Config) -> Iterator[Conflict]:
    if not config.fsdp:
        return
    forced = {"optim_grads": _FORCED[:1], "optim_grads_params": _FORCED}
    for path in forced.get(str(config.get(STRATEGY)), ()):
        if config.is_any(path, False):
            yield Conflict(path, Severity.INFO, f"{path} = False has no effect: FSDP switches it on", "take it out")


RULE = Rule(
    code="FSDP139",
    name="forced-overlap",
    summary="overlap is switched off where FSDP switches it on",
    explanation="""\
optim_grads and optim_grads_params switch overlap_grad_reduce on, the latter overlap_param_gather too, on the config
itself. False has no effect, but for the bucket size, which was chosen before.""",
    safety="None: it has no effect.",
    source="megatron-core 0.19.0, core/distributed/fsdp/src/megatron_fsdp/megatron_fsdp.py:330 and 333",
    check=check(judge),
    traceable=True,
    valid=examples(
        {"ddp.overlap_grad_reduce": True},
        {"ddp.overlap_param_gather": False, "ddp.data_parallel_sharding_strategy": "optim"},
    ),
    invalid=examples({"ddp.overlap_param_gather": False}),
)
