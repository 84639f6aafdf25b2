"""FSDP206: ``FullyShardedDataParallel`` is no class any more."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import FSDP_TYPE
from fsdp_migrate.neighbours.sighting import check

_CORE = "from megatron.core.distributed import FullyShardedDataParallel as FSDP\n"

RULE = Rule(
    code="FSDP206",
    name="fsdp-type",
    summary="Megatron-Core's FullyShardedDataParallel is used as a type",
    explanation="""\
Megatron-Core 0.20 makes it a function that chooses between FullyShardedDataParallelV1 and FullyShardedDataParallelV2.
isinstance and issubclass then raise TypeError, and so does a class that inherits from it. For a run with a target
before main this is information only.""",
    safety="Reported only: releases before 0.20 have no other name, so that no edit is right for both.",
    source="megatron-core 0.20.0, distributed/fsdp/mcore_fsdp_adapter.py",
    check=check(FSDP_TYPE, Severity.WARNING, "{old} is a function since Megatron-Core 0.20; the types are {new}"),
    default=False,
    needles=(b"FullyShardedDataParallel",),
    valid=(
        Example(f"{_CORE}model = FSDP(config, ddp, module)\n"),
        Example(
            "from torch.distributed.fsdp import FullyShardedDataParallel\nisinstance(m, FullyShardedDataParallel)\n"
        ),
        Example("isinstance(model, FullyShardedDataParallel)\n"),
        Example(f"{_CORE}try:\n    isinstance(model, FSDP)\nexcept TypeError:\n    pass\n"),
    ),
    invalid=(
        Example(f"{_CORE}\nok = isinstance(model, FSDP)\n"),
        Example(f"{_CORE}ok = isinstance(model, (DDP, FSDP))\n", target="main"),
        Example(f"{_CORE}class Mine(FSDP):\n    pass\n", target="main"),
        Example(
            "import megatron.core.distributed.fsdp.mcore_fsdp_adapter as fsdp\n"
            "ok = issubclass(kind, int | fsdp.FullyShardedDataParallel)\n"
        ),
    ),
)
