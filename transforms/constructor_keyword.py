"""FSDP002: ``DistributedInitConfig(use_megatron_fsdp=...)``.

Source: the class is a keyword-only dataclass (megatron-bridge 0.6.2, training/config.py:146); without the field, the
keyword raises TypeError.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import KEYWORDS, MOVE, Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    for spot in case.remarks:
        if spot.form == "orphan":
            message = "DistributedInitConfig has no use_megatron_fsdp; False never had an effect"
            yield Draft(Severity.ERROR, message, spot.place, MOVE)
    if case.refusal:
        return
    for spot in case.flags("dist"):
        if spot.form in KEYWORDS and not spot.double:
            message = "DistributedInitConfig has no use_megatron_fsdp: it belongs to DistributedDataParallelConfig"
            yield Draft(Severity.ERROR, message, spot.place, MOVE)


RULE = Rule(
    code="FSDP002",
    name="constructor-keyword",
    summary="use_megatron_fsdp is passed to DistributedInitConfig",
    explanation="""\
The keyword moves to the DistributedDataParallelConfig of the same container, through local variables and helpers that
pass keywords on. If that object also serves another container, or is not made in sight, nothing is changed: it would
switch FSDP on somewhere else.""",
    safety="Safe: the keyword only moves to an object that this container alone uses.",
    source="megatron-bridge 0.6.2, training/config.py:146",
    check=check,
    outdated=True,
    valid=(
        Example(
            "from megatron.core.distributed import DistributedDataParallelConfig\n"
            "ddp = DistributedDataParallelConfig(use_megatron_fsdp=True)\n"
        ),
        Example(
            "from flagscale.train.config import DistributedInitConfig\n"
            "x = DistributedInitConfig(use_megatron_fsdp=True)\n"
        ),
        Example("import megatron.bridge.training.config as c\ncfg = c.DistributedInitConfig(use_torch_fsdp2=True)\n"),
    ),
    invalid=(
        Example(
            "from megatron.bridge.training.config import ConfigContainer, DistributedDataParallelConfig\n"
            "from megatron.bridge.training.config import DistributedInitConfig\n\n\n"
            "def make(model, on):\n"
            "    return ConfigContainer(\n"
            "        model=model,\n"
            "        dist=DistributedInitConfig(use_megatron_fsdp=on),\n"
            "        ddp=DistributedDataParallelConfig(overlap_grad_reduce=True),\n"
            "    )\n",
            "from megatron.bridge.training.config import ConfigContainer, DistributedDataParallelConfig\n"
            "from megatron.bridge.training.config import DistributedInitConfig\n\n\n"
            "def make(model, on):\n"
            "    return ConfigContainer(\n"
            "        model=model,\n"
            "        dist=DistributedInitConfig(),\n"
            "        ddp=DistributedDataParallelConfig(overlap_grad_reduce=True, use_megatron_fsdp=on),\n"
            "    )\n",
        ),
    ),
)
