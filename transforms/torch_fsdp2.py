"""FSDP101: Megatron FSDP and torch FSDP2 exclude each other."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    if config.fsdp and config.is_any("dist.use_torch_fsdp2", True):
        yield Conflict(
            "dist.use_torch_fsdp2",
            Severity.ERROR,
            "Megatron FSDP and torch FSDP2 are both on",
            "validate() or the model's wrapping refuses the two together; switch one of them off",
            value=False,
        )


RULE = Rule(
    code="FSDP101",
    name="torch-fsdp2",
    summary="Megatron FSDP and torch FSDP2 are both on",
    explanation="""\
validate() raises a ValueError when it sees both on dist. With Megatron FSDP on ddp only, as the migration writes
it, it stops at the checkpoint format instead, or later, when the model is wrapped.""",
    safety="Unsafe: switches torch FSDP2 off.",
    source="megatron-bridge 0.4.2 to 0.6.2, training/config.py:1342 and 1392 of 0.6.2",
    check=check(judge),
    traceable=True,
    valid=examples({"dist.use_torch_fsdp2": False}),
    invalid=examples({"dist.use_torch_fsdp2": True}),
)
