"""FSDP144: Fine-tuning with adapters loads the base before FSDP wraps it."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, traced
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    kind = config.get("peft", None)
    named = isinstance(kind, str) and kind.lower() != "none"
    if not config.fsdp or not (named or config.sets("peft.dim")):
        return
    yield Conflict(
        "peft",
        Severity.WARNING,
        "adapters and Megatron FSDP: the base can only be loaded from a Hugging Face directory",
        "set checkpoint.pretrained_checkpoint to one, and check the first loss",
    )


RULE = Rule(
    code="FSDP144",
    name="peft",
    summary="PEFT with FSDP on",
    explanation="""\
The base is loaded before the model is wrapped, with the same checkpoint.ckpt_format: a torch_dist base is refused,
and an fsdp_dtensor base gives tensors that are not sharded. A Hugging Face directory as pretrained_checkpoint is
the one way left. No published recipe does it.""",
    safety="None: the base has to come from a Hugging Face directory.",
    source=(
        "megatron-bridge 0.6.2, training/setup.py (_create_peft_pre_wrap_hook) and checkpointing.py:2598, read; none "
        "of its 96 PEFT recipes has FSDP"
    ),
    check=check(judge),
    traceable=True,
    valid=examples({"checkpoint.pretrained_checkpoint": "/hf/llama"}) + traced({"peft": None}),
    invalid=examples({"peft.dim": 8}) + traced({"peft.dim": 8, "peft.alpha": 16}),
)
