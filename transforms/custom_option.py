"""FSDP202: the option ``--use-custom-fsdp`` became ``--use-megatron-fsdp``."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import CUSTOM_OPTION
from fsdp_migrate.neighbours.sighting import check

RULE = Rule(
    code="FSDP202",
    name="custom-option",
    summary="--use-custom-fsdp is --use-megatron-fsdp",
    explanation="""\
Megatron-Core 0.14 took the option away, and Megatron-LM's entry points stop at it. Forks for Ascend have a feature of
this name of their own: a script that speaks of one is left.""",
    safety="""\
Unsafe, since the checkpoint format and the strategy belong to it. Only where every command that gets the option runs a
pretrain_*.py; reported otherwise.""",
    source="megatron-core 0.14.0, training/arguments.py",
    check=check(CUSTOM_OPTION, Severity.ERROR, "{old} is gone since Megatron-Core 0.14; it is {new}"),
    default=False,
    needles=(b"use-custom-fsdp",),
    valid=(
        Example("torchrun pretrain_gpt.py --use-megatron-fsdp\n", language="shell"),
        Example("export ASCEND_LAUNCH=1\ntorchrun pretrain_gpt.py --use-custom-fsdp\n", language="shell"),
        Example("# MindSpeed\ntorchrun pretrain_gpt.py --use-custom-fsdp\n", language="shell"),
        Example("torchrun pretrain_gpt.py --use-custom-fsdp-too\n", language="shell"),
        Example('parser.add_argument("--use-custom-fsdp")\n'),
    ),
    invalid=(
        Example(
            "torchrun --nproc-per-node 8 pretrain_gpt.py --use-custom-fsdp --bf16\n",
            "torchrun --nproc-per-node 8 pretrain_gpt.py --use-megatron-fsdp --bf16\n",
            "shell",
        ),
        Example(
            "ARGS=(\n    --bf16\n    --use-custom-fsdp\n)\ntorchrun ${MEGATRON}/pretrain_vlm.py ${ARGS[@]}\n",
            "ARGS=(\n    --bf16\n    --use-megatron-fsdp\n)\ntorchrun ${MEGATRON}/pretrain_vlm.py ${ARGS[@]}\n",
            "shell",
        ),
        Example("python train.py --use-custom-fsdp\n", language="shell"),
        Example('ARGS="--use-custom-fsdp --bf16"\nrun $ARGS\n', language="shell"),
        Example("torchrun pretrain_gpt.py --use-custom-fsdp --use-megatron-fsdp\n", language="shell"),
    ),
)
