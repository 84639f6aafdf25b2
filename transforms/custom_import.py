"""FSDP204: the folder ``custom_fsdp`` of Megatron-Core became ``fsdp``."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import CUSTOM_IMPORT
from fsdp_migrate.neighbours.sighting import check

RULE = Rule(
    code="FSDP204",
    name="custom-import",
    summary="an import from megatron.core.distributed.custom_fsdp",
    explanation="""\
Megatron-Core 0.14 renamed the folder; the import raises ImportError. An import that is tried and may fail is left:
somebody supports both.""",
    safety="Safe where FullyShardedDataParallel is all that is imported; reported otherwise.",
    source="megatron-core 0.14.0, distributed/fsdp/mcore_fsdp_adapter.py",
    check=check(CUSTOM_IMPORT, Severity.ERROR, "{old} is gone since Megatron-Core 0.14; it is {new}"),
    default=False,
    needles=(b"custom_fsdp",),
    valid=(
        Example("from megatron.core.distributed.fsdp.mcore_fsdp_adapter import FullyShardedDataParallel\n"),
        Example("from mindspeed.core.distributed.custom_fsdp import FullyShardedDataParallel\n"),
        Example(
            "try:\n    from megatron.core.distributed.custom_fsdp import FullyShardedDataParallel\n"
            "except ImportError:\n    FullyShardedDataParallel = None\n"
        ),
    ),
    invalid=(
        Example(
            "from megatron.core.distributed.custom_fsdp import FullyShardedDataParallel as FSDP\n",
            "from megatron.core.distributed.fsdp.mcore_fsdp_adapter import FullyShardedDataParallel as FSDP\n",
        ),
        Example("from megatron.core.distributed.custom_fsdp.param_and_grad_buffer import ParamAndGradBuffer\n"),
    ),
)
