"""FSDP143: Before Bridge 0.5 a loaded model counts from the second step on."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, for_release
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    for path in ("checkpoint.load", "checkpoint.pretrained_checkpoint"):
        value = config.get(path)
        if config.fsdp and isinstance(value, str) and value and not config.is_since("0.5"):
            yield Conflict(
                path,
                Severity.WARNING,
                "before Bridge 0.5 the first step after loading runs with random weights under FSDP",
                "upgrade Bridge",
            )
            return


RULE = Rule(
    code="FSDP143",
    name="first-step-after-load",
    summary="FSDP loads a checkpoint before Bridge 0.5",
    explanation="""\
Loading is skipped for what computes the first step, so that step runs with random weights, and its gradients go
into the optimizer.""",
    safety="None: upgrade Bridge.",
    source="megatron-bridge 0.4.2, training/setup.py:279 (fixed in 0.5.0, setup.py:299, pull request 3397)",
    check=check(judge),
    traceable=True,
    valid=examples({"checkpoint.load": "/runs/fsdp"}),
    invalid=for_release("0.4", examples({"checkpoint.load": "/runs/fsdp"})),
)
