"""FSDP115: Before Bridge 0.5, FSDP checkpoints cannot be saved asynchronously."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, for_release
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    if config.fsdp and config.is_any("checkpoint.async_save", True) and not config.is_since("0.5"):
        yield Conflict(
            "checkpoint.async_save",
            Severity.ERROR,
            "before Bridge 0.5 checkpoint.async_save is refused with FSDP",
            "set it to False, or upgrade Bridge",
            False,
        )


RULE = Rule(
    code="FSDP115",
    name="async-save",
    summary="checkpoint.async_save with FSDP before Bridge 0.5",
    explanation="""\
Bridge 0.4 asserts torch_dist for it, and FSDP needs fsdp_dtensor.""",
    safety="Unsafe: saves synchronously.",
    source="megatron-bridge 0.4.2, training/config.py:1159 (allowed since 0.5.0, pull request 3339)",
    check=check(judge),
    traceable=True,
    valid=examples({"checkpoint.async_save": False}, {"checkpoint.async_save": True}),
    invalid=for_release("0.4", examples({"checkpoint.async_save": True})),
)
