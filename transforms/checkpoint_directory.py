"""FSDP141: A directory with checkpoints of the other format."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.checkpoint_directory import FSDP_DTENSOR, HUGGING_FACE, TORCH_DIST, is_one_checkpoint
from fsdp_migrate.conflicts import Config, Conflict, check, examples, traced
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import LOAD, PRETRAINED


def judge(config: Config) -> Iterator[Conflict]:
    for path in (LOAD, PRETRAINED):
        found = config.format_at(path)
        value = config.get(path)
        severity = Severity.WARNING if isinstance(value, str) and is_one_checkpoint(value) else Severity.ERROR
        if config.fsdp and found == TORCH_DIST:
            yield Conflict(
                path,
                severity,
                f"{path} holds {TORCH_DIST} checkpoints, and FSDP loads {FSDP_DTENSOR} only",
                "convert them with tools/checkpoint/checkpoint_inspector.py convert-torch-dist-to-fsdp-dtensor of "
                "Megatron-LM, or load nothing",
            )
        elif config.fsdp and found == HUGGING_FACE and path == LOAD:
            yield Conflict(
                path,
                Severity.ERROR,
                f"{path} is a Hugging Face directory, and a run cannot go on from one",
                f"set {PRETRAINED} to it (Bridge 0.6.2), or convert it with "
                "examples/conversion/mfsdp/convert_checkpoints_fsdp.py",
            )
        elif not config.fsdp and found == FSDP_DTENSOR:
            yield Conflict(
                path,
                severity,
                f"{path} holds {FSDP_DTENSOR} checkpoints, and FSDP is off",
                "no published tool converts them back; go on with FSDP, or convert them to Hugging Face with "
                "examples/conversion/mfsdp/convert_checkpoints_fsdp.py",
            )
        if found:
            # Where there is a checkpoint to go on from, the pretrained one is not read.
            return


RULE = Rule(
    code="FSDP141",
    name="checkpoint-directory",
    summary="checkpoint.load or pretrained_checkpoint holds checkpoints of the other format",
    explanation="""\
Loading stops when the format found in the directory is not checkpoint.ckpt_format. The directory is looked at where
it exists; on another machine nothing can be said.""",
    safety="None: the checkpoints have to be converted, which takes the GPUs of a job.",
    source=(
        "megatron-bridge 0.6.2, training/checkpointing.py:239 and 3633 (2567 in 0.4.2, 3074 in 0.5.1), 2670 for hf "
        "directories; megatron-core 0.14 and later, tools/checkpoint/checkpoint_inspector.py"
    ),
    check=check(judge),
    traceable=True,
    valid=examples({"checkpoint.load": "/runs/here"})
    + traced(
        {"checkpoint.load": "/runs/fsdp", "directory.checkpoint.load": FSDP_DTENSOR},
        {"checkpoint.pretrained_checkpoint": "/hf", "directory.checkpoint.pretrained_checkpoint": HUGGING_FACE},
    ),
    invalid=traced(
        {"checkpoint.load": "/runs/ddp", "directory.checkpoint.load": TORCH_DIST},
        {"checkpoint.load": "/hf", "directory.checkpoint.load": HUGGING_FACE},
        {
            "ddp.use_megatron_fsdp": False,
            "checkpoint.ckpt_format": "torch_dist",
            "checkpoint.pretrained_checkpoint": "/runs/fsdp",
            "directory.checkpoint.pretrained_checkpoint": FSDP_DTENSOR,
        },
    ),
)
