"""FSDP205: ``ddp.preserve_fp32_weights`` became a data type."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import FP32_WEIGHTS
from fsdp_migrate.neighbours.sighting import check

_BRIDGE = "from megatron.bridge.training.config import ConfigContainer\n"
_CORE = "from megatron.core.distributed import DistributedDataParallelConfig\n"

RULE = Rule(
    code="FSDP205",
    name="fp32-weights",
    summary="ddp.preserve_fp32_weights is ddp.megatron_fsdp_main_params_dtype",
    explanation="""\
Bridge 0.4 (Megatron-Core 0.17) replaced the switch by a type: True was torch.float32, which is the default, and False
was None, the model's own type. The old keyword raises TypeError, an attribute of that name does nothing.""",
    safety="""\
Safe for a keyword True, which goes; unsafe for a literal False. Everything else is reported only, in files that are not
Python it is not looked for.""",
    source="megatron-core 0.17.1, distributed/distributed_data_parallel_config.py:176",
    check=check(FP32_WEIGHTS, Severity.ERROR, "{old} is gone since Megatron-Core 0.17; it is {new}"),
    default=False,
    needles=(b"preserve_fp32_weights",),
    valid=(
        Example(f"{_BRIDGE}cfg.ddp.megatron_fsdp_main_params_dtype = None\n"),
        Example(f"{_BRIDGE}cfg.megatron.preserve_fp32_weights = False\n"),
        Example("cfg.ddp.preserve_fp32_weights = False\n"),
        Example("from nemo import DistributedDataParallelConfig as Config\nd = Config(preserve_fp32_weights=True)\n"),
        Example(f"{_BRIDGE}try:\n    cfg.ddp.preserve_fp32_weights = False\nexcept AttributeError:\n    pass\n"),
    ),
    invalid=(
        Example(
            f"{_CORE}d = DistributedDataParallelConfig(preserve_fp32_weights=True, bucket_size=1)\n",
            f"{_CORE}d = DistributedDataParallelConfig(bucket_size=1)\n",
        ),
        Example(
            f"{_CORE}d = DistributedDataParallelConfig(\n    bucket_size=1,\n    preserve_fp32_weights=True,\n)\n",
            f"{_CORE}d = DistributedDataParallelConfig(\n    bucket_size=1,\n)\n",
        ),
        Example(
            f"{_CORE}d = DistributedDataParallelConfig(preserve_fp32_weights=True)\n",
            f"{_CORE}d = DistributedDataParallelConfig()\n",
        ),
        Example(
            f"{_CORE}d = DistributedDataParallelConfig(preserve_fp32_weights=False)\n",
            f"{_CORE}d = DistributedDataParallelConfig(megatron_fsdp_main_params_dtype=None)\n",
        ),
        Example(
            f"{_BRIDGE}cfg.ddp.preserve_fp32_weights = False\n",
            f"{_BRIDGE}cfg.ddp.megatron_fsdp_main_params_dtype = None\n",
        ),
        Example(f"{_BRIDGE}cfg.ddp.preserve_fp32_weights = args.fp32\n"),
        Example(f"{_CORE}d = DistributedDataParallelConfig(preserve_fp32_weights=True, **more)\n"),
    ),
)
