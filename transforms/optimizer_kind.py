"""FSDP126: Megatron FSDP knows Adam and SGD."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import OPTIMIZERS


def judge(config: Config) -> Iterator[Conflict]:
    value = config.get("optimizer.optimizer")
    if config.fsdp and isinstance(value, str) and value not in OPTIMIZERS:
        yield Conflict(
            "optimizer.optimizer",
            Severity.ERROR,
            f"Megatron FSDP does not know the optimizer {value!r}",
            "it is one of " + " and ".join(OPTIMIZERS),
        )


RULE = Rule(
    code="FSDP126",
    name="optimizer-kind",
    summary="an optimizer that Megatron FSDP does not know",
    explanation="""\
Megatron-LM asserts one of the two. Bridge does not look; other optimizers work on whole matrices, and FSDP gives
them slices.""",
    safety="None: another optimizer is another training run.",
    source="megatron-core 0.18, training/arguments.py (muon: 0.16.1, line 1186); megatron-bridge does not look",
    check=check(judge),
    traceable=True,
    valid=examples({"optimizer.optimizer": "adam"}, {"optimizer.optimizer": "sgd"}),
    invalid=examples({"optimizer.optimizer": "muon"}),
)
