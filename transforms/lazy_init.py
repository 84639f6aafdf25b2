"""FSDP209: ``dist.lazy_init`` became ``dist.lazy_mpu_init``."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import LAZY_INIT
from fsdp_migrate.neighbours.sighting import check

_BRIDGE = "from megatron.bridge.training.config import ConfigContainer\n"

RULE = Rule(
    code="FSDP209",
    name="lazy-init",
    summary="dist.lazy_init is dist.lazy_mpu_init",
    explanation="""\
Bridge 0.4 renamed the field. As a keyword it raises TypeError and as an override OverridesError; an attribute still
works, through a property.""",
    safety="Safe: the property makes both names the same.",
    source="megatron-bridge 0.4.2, training/config.py:136",
    check=check(LAZY_INIT, Severity.WARNING, "{old} has another name since Bridge 0.4; it is {new}"),
    default=False,
    needles=(b"lazy_init",),
    valid=(
        Example(f"{_BRIDGE}cfg.dist.lazy_mpu_init = True\n"),
        Example(f"{_BRIDGE}cfg.model.lazy_init = True\n"),
        Example("from nemo_deploy import DistributedInitConfig\nDistributedInitConfig(lazy_init=True)\n"),
        Example("dist:\n  lazy_init: true\n", language="yaml"),
    ),
    invalid=(
        Example(f"{_BRIDGE}cfg.dist.lazy_init = True\n", f"{_BRIDGE}cfg.dist.lazy_mpu_init = True\n"),
        Example(
            "from megatron.bridge.training.config import DistributedInitConfig\n"
            "d = DistributedInitConfig(lazy_init=True)\n",
            "from megatron.bridge.training.config import DistributedInitConfig\n"
            "d = DistributedInitConfig(lazy_mpu_init=True)\n",
        ),
        Example(
            "# Megatron-Bridge\ndist:\n  lazy_init: true\n", "# Megatron-Bridge\ndist:\n  lazy_mpu_init: true\n", "yaml"
        ),
        Example(
            "# Megatron-Bridge\nrun.sh dist.lazy_init=true\n",
            "# Megatron-Bridge\nrun.sh dist.lazy_mpu_init=true\n",
            "shell",
        ),
        Example(f'{_BRIDGE}ARGS = ["dist.lazy_init=true"]\n', f'{_BRIDGE}ARGS = ["dist.lazy_mpu_init=true"]\n'),
    ),
)
