"""FSDP135: Hybrid context parallelism is not made for FSDP."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    path = "model.hybrid_context_parallel"
    if config.fsdp and config.is_any(path, True):
        yield Conflict(
            path, Severity.ERROR, f"{path} does not go with Megatron FSDP", "use context parallelism without it"
        )


RULE = Rule(
    code="FSDP135",
    name="hybrid-context-parallel",
    summary="hybrid context parallelism with FSDP on",
    explanation="""\
Megatron-LM asserts that FSDP is off. Bridge does not look.""",
    safety="None: another parallelism is another training run.",
    source="megatron-core 0.16, training/arguments.py (assert); megatron-bridge does not look",
    check=check(judge),
    traceable=True,
    valid=examples({"model.hybrid_context_parallel": False}),
    invalid=examples({"model.hybrid_context_parallel": True}),
)
