"""FSDP201: ``use_custom_fsdp`` became ``use_megatron_fsdp``."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import CUSTOM_FLAG
from fsdp_migrate.neighbours.sighting import check

_BRIDGE = "from megatron.bridge.training.config import ConfigContainer\n"

RULE = Rule(
    code="FSDP201",
    name="custom-flag",
    summary="ddp.use_custom_fsdp is ddp.use_megatron_fsdp",
    explanation="""\
Megatron-Core 0.14 has both fields, and nothing reads the old one: FSDP is off, in silence. Other tools have a key of
this name in schemas of their own; only Bridge's ddp section and Megatron-Core's class count.""",
    safety="Safe for True. The old name did nothing, so that another value may overrule a base recipe: unsafe.",
    source="megatron-core 0.14.0, distributed/distributed_data_parallel_config.py",
    check=check(CUSTOM_FLAG, Severity.ERROR, "{old} does nothing since Megatron-Core 0.14; it is {new}"),
    default=False,
    needles=(b"use_custom_fsdp",),
    valid=(
        Example("from verl import get_model\nget_model(use_custom_fsdp=True)\n"),
        Example("from megatron.core import mpu\ncfg.megatron.use_custom_fsdp = True\n"),
        Example(f"{_BRIDGE}recipe.trainer.strategy.ddp.use_custom_fsdp = True\n"),
        Example(
            f"{_BRIDGE}try:\n    cfg.ddp.use_megatron_fsdp = True\n"
            "except AttributeError:\n    cfg.ddp.use_custom_fsdp = True\n"
        ),
        Example(
            "policy:\n  megatron_cfg:\n    distributed_data_parallel_config:\n      use_custom_fsdp: false\n",
            language="yaml",
        ),
        Example("mcore_config:\n  use_custom_fsdp: true\n", language="yaml"),
        Example("use_custom_fsdp: false\nuse_distributed_optimizer: true\n", language="yaml"),
    ),
    invalid=(
        Example(
            f"{_BRIDGE}cfg.ddp.use_custom_fsdp = True\n",
            f"{_BRIDGE}cfg.ddp.use_megatron_fsdp = True\n"
            'cfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"\n'
            "cfg.ddp.average_in_collective = False\n"
            'cfg.checkpoint.ckpt_format = "fsdp_dtensor"\n',
        ),
        Example(f"{_BRIDGE}cfg.ddp.use_custom_fsdp = False\n", f"{_BRIDGE}cfg.ddp.use_megatron_fsdp = False\n"),
        Example(
            "from megatron.core.distributed import DistributedDataParallelConfig\n"
            "ddp = DistributedDataParallelConfig(use_custom_fsdp=True)\n",
            "from megatron.core.distributed import DistributedDataParallelConfig\n"
            "ddp = DistributedDataParallelConfig(use_megatron_fsdp=True)\n",
        ),
        Example(
            "# Megatron-Bridge\nddp:\n  use_custom_fsdp: true\n",
            "# Megatron-Bridge\nddp:\n  use_megatron_fsdp: true\n"
            "  data_parallel_sharding_strategy: optim_grads_params\n  average_in_collective: false\n"
            "checkpoint:\n  ckpt_format: fsdp_dtensor\n",
            "yaml",
        ),
        Example(
            '{"ddp": {"use_custom_fsdp": true}, "train": {}, "checkpoint": {}}\n',
            '{"ddp": {"use_megatron_fsdp": true, "data_parallel_sharding_strategy": "optim_grads_params", '
            '"average_in_collective": false}, "train": {}, "checkpoint": {"ckpt_format": "fsdp_dtensor"}}\n',
            "json",
        ),
        Example(
            "# Megatron-Bridge\n[ddp]\nuse_custom_fsdp = false\n",
            "# Megatron-Bridge\n[ddp]\nuse_megatron_fsdp = false\n",
            "toml",
        ),
        Example("torchrun run.py ddp.use_custom_fsdp=true\n", "torchrun run.py ddp.use_megatron_fsdp=true\n", "shell"),
    ),
)
