"""FSDP116: A Hugging Face copy cannot be saved from fsdp_dtensor."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import CKPT_FORMAT


def judge(config: Config) -> Iterator[Conflict]:
    path = "checkpoint.also_save_hf_checkpoint"
    if config.is_any(path, True) and config.is_any(CKPT_FORMAT, "fsdp_dtensor") and config.is_since("0.6"):
        yield Conflict(
            path,
            Severity.ERROR,
            "checkpoint.also_save_hf_checkpoint is refused with fsdp_dtensor",
            "set it to False and convert afterwards: examples/conversion/mfsdp/convert_checkpoints_fsdp.py",
            False,
        )


RULE = Rule(
    code="FSDP116",
    name="hf-copy",
    summary="checkpoint.also_save_hf_checkpoint with fsdp_dtensor",
    explanation="""\
The field is new in Bridge 0.6, whose validate() refuses it for this format.""",
    safety="Unsafe: no Hugging Face copy is saved; convert it afterwards with convert_checkpoints_fsdp.py.",
    source="megatron-bridge 0.6.2, training/config.py:606 (pull request 3825)",
    check=check(judge),
    traceable=True,
    valid=examples(
        {"checkpoint.also_save_hf_checkpoint": False},
        {
            "ddp.use_megatron_fsdp": False,
            "checkpoint.ckpt_format": "torch_dist",
            "checkpoint.also_save_hf_checkpoint": True,
        },
    ),
    invalid=examples({"checkpoint.also_save_hf_checkpoint": True}),
)
