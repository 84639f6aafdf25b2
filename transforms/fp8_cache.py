"""FSDP203: ``keep_fp8_transpose_cache_when_using_custom_fsdp`` lost its tail."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import FP8_CACHE
from fsdp_migrate.neighbours.sighting import check

_BRIDGE = "from megatron.bridge.training.config import ConfigContainer\n"

RULE = Rule(
    code="FSDP203",
    name="fp8-cache",
    summary="keep_fp8_transpose_cache_when_using_custom_fsdp is keep_fp8_transpose_cache",
    explanation="""\
Megatron-Core 0.14 renamed the field. The old keyword raises TypeError, an attribute of that name does nothing.""",
    safety="Safe: the same field under another name.",
    source="megatron-core 0.14.0, distributed/distributed_data_parallel_config.py",
    check=check(FP8_CACHE, Severity.ERROR, "{old} is gone since Megatron-Core 0.14; it is {new}"),
    default=False,
    needles=(b"keep_fp8_transpose_cache_when_using_custom_fsdp",),
    valid=(
        Example(f"{_BRIDGE}cfg.ddp.keep_fp8_transpose_cache = True\n"),
        Example(f"{_BRIDGE}cfg.megatron.keep_fp8_transpose_cache_when_using_custom_fsdp = True\n"),
        Example("cfg.ddp.keep_fp8_transpose_cache_when_using_custom_fsdp = True\n"),
        Example("megatron:\n  keep_fp8_transpose_cache_when_using_custom_fsdp: true\n", language="yaml"),
    ),
    invalid=(
        Example(
            f"{_BRIDGE}cfg.ddp.keep_fp8_transpose_cache_when_using_custom_fsdp = True\n",
            f"{_BRIDGE}cfg.ddp.keep_fp8_transpose_cache = True\n",
        ),
        Example(
            "# Megatron-Bridge\nddp:\n  keep_fp8_transpose_cache_when_using_custom_fsdp: true\n",
            "# Megatron-Bridge\nddp:\n  keep_fp8_transpose_cache: true\n",
            "yaml",
        ),
        Example(
            "# Megatron-Bridge\nrun.sh ddp.keep_fp8_transpose_cache_when_using_custom_fsdp=true\n",
            "# Megatron-Bridge\nrun.sh ddp.keep_fp8_transpose_cache=true\n",
            "shell",
        ),
    ),
)
