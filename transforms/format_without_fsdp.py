"""FSDP103: fsdp_dtensor checkpoints need Megatron FSDP."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import CKPT_FORMAT


def judge(config: Config) -> Iterator[Conflict]:
    if config.fsdp or not config.is_any(CKPT_FORMAT, "fsdp_dtensor"):
        return
    keeps = config.keeps_checkpoints
    if keeps is False:
        return
    yield Conflict(
        CKPT_FORMAT,
        Severity.ERROR if keeps else Severity.WARNING,
        'checkpoint.ckpt_format is "fsdp_dtensor" and FSDP is off',
        'validate() refuses that once checkpoint.save or checkpoint.load is set; use "torch_dist"',
        "torch_dist",
    )


RULE = Rule(
    code="FSDP103",
    name="fsdp-format-without-fsdp",
    summary="the checkpoint format is fsdp_dtensor and FSDP is off",
    explanation="""\
With checkpoint.save or checkpoint.load set, validate() stops: the format only supports Megatron FSDP. It is what is
left over when a recipe is switched back to plain DDP.""",
    safety="Unsafe: writes torch_dist, and checkpoints in the old format cannot be loaded any more.",
    source="megatron-bridge 0.6.2, training/config.py:1391 (in every release from 0.2)",
    check=check(judge),
    traceable=True,
    valid=examples(
        {},
        {"ddp.use_megatron_fsdp": False, "checkpoint.ckpt_format": "torch_dist"},
    ),
    invalid=examples({"ddp.use_megatron_fsdp": False, "checkpoint.save": "/out"}),
)
