"""FSDP109: The gradient buffer cannot hold gathered mxfp8 parameters under FSDP."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    for section in ("ddp", "optimizer", "mixed_precision"):
        path = f"{section}.reuse_grad_buf_for_mxfp8_param_ag"
        if config.fsdp and config.is_any(path, True):
            yield Conflict(
                path,
                Severity.INFO,
                f"{path} has no effect with FSDP on: Bridge sets it to False",
                "take it out",
            )
            return


RULE = Rule(
    code="FSDP109",
    name="mxfp8-buffer",
    summary="reuse_grad_buf_for_mxfp8_param_ag is set with FSDP on",
    explanation="""\
Bridge sets it to False. mixed_precision is applied first and copies its own value over the one on ddp and
optimizer.""",
    safety="None: it has no effect.",
    source="megatron-bridge 0.6.2, training/config.py:1091 and training/mixed_precision.py:127-135",
    check=check(judge),
    traceable=True,
    valid=examples({"ddp.reuse_grad_buf_for_mxfp8_param_ag": False}),
    invalid=examples({"ddp.reuse_grad_buf_for_mxfp8_param_ag": True}),
)
