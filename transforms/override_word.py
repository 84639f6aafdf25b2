"""FSDP004: a Hydra override ``dist.use_megatron_fsdp=...`` in a string, a list of strings or on a command line."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import MOVE, WORDS, Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    if case.refusal:
        return
    for spot in case.flags("dist"):
        if spot.form in WORDS:
            yield Draft(Severity.ERROR, "the override names dist; it is ddp.use_megatron_fsdp", spot.place, MOVE)


RULE = Rule(
    code="FSDP004",
    name="override-word",
    summary="an override names dist.use_megatron_fsdp",
    explanation="""\
Without the field, `dist.use_megatron_fsdp=true` stops with OverridesError, and with `+` or `++` it is skipped with one
log line, so that training runs without FSDP. One list of words is one scope; the last word wins, as in Hydra.""",
    safety="Safe: the words of one list are run in order, as Hydra does.",
    source="megatron-bridge 0.6.2, training/utils/omegaconf_utils.py, with hydra-core 1.3",
    check=check,
    outdated=True,
    valid=(
        Example('ARGS = ["ddp.use_megatron_fsdp=true"]\n'),
        Example('ARGS = ["engine.use_megatron_fsdp=true", "--use_megatron_fsdp", "true"]\n'),
        Example('KEY = "use_megatron_fsdp"\n'),
        Example("python run.py --use_megatron_fsdp true engine.use_megatron_fsdp=True\n", language="shell"),
    ),
    invalid=(
        Example('ARGS = ["dist.use_megatron_fsdp=false"]\n', 'ARGS = ["ddp.use_megatron_fsdp=false"]\n'),
        Example(
            'ARGS = ["a.b=1", "dist.use_megatron_fsdp=true", "ddp.use_megatron_fsdp=false"]\n',
            'ARGS = ["a.b=1", "ddp.use_megatron_fsdp=true"]\n',
        ),
        Example(
            "torchrun train.py \\\n    ddp.use_megatron_fsdp=false \\\n    +dist.use_megatron_fsdp=false\n",
            "torchrun train.py \\\n    ddp.use_megatron_fsdp=false\n",
            "shell",
        ),
        Example(
            "dist.use_megatron_fsdp: false\nddp.use_megatron_fsdp: false\n", "ddp.use_megatron_fsdp: false\n", "yaml"
        ),
    ),
)
