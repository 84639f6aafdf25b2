"""FSDP106: The precision-aware optimizer needs settings that Bridge 0.4 does not make."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    path = "optimizer.use_precision_aware_optimizer"
    if not config.fsdp or not config.is_any(path, True):
        return
    if config.is_any("optimizer.use_distributed_optimizer", False):
        yield Conflict(
            "optimizer.use_distributed_optimizer",
            Severity.ERROR,
            "the precision-aware optimizer needs optimizer.use_distributed_optimizer = True",
            "the optimizer's own check stops before Bridge turns it on; set it to True",
            True,
        )
    elif not config.is_since("0.5"):
        yield Conflict(
            path,
            Severity.WARNING,
            "before Bridge 0.5 the precision-aware optimizer sees no gradient under FSDP",
            "the weights would not move; set it to False, or upgrade Bridge",
        )


RULE = Rule(
    code="FSDP106",
    name="precision-aware-optimizer",
    summary="the precision-aware optimizer with FSDP before Bridge 0.5, or without the distributed optimizer",
    explanation="""\
Bridge 0.5 turns ddp.megatron_fsdp_use_decoupled_grad on for it. 0.3 and 0.4 do not: the optimizer then finds no
gradient and the weights never move, without an error. In every release it needs
optimizer.use_distributed_optimizer.""",
    safety="None: which of the two is meant is the author's to say.",
    source="megatron-bridge 0.4.2 and 0.5.1, training/config.py:1124 of 0.5.1; Megatron-LM pull requests 4426 and 4427",
    check=check(judge),
    traceable=True,
    valid=examples(
        {"optimizer.use_precision_aware_optimizer": True},
        {"optimizer.use_precision_aware_optimizer": False, "optimizer.use_distributed_optimizer": False},
    ),
    invalid=examples(
        {"optimizer.use_precision_aware_optimizer": True, "optimizer.use_distributed_optimizer": False},
    ),
)
