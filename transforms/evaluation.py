"""FSDP210: evaluation settings moved from ``train`` to ``validation``."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import EVALUATION
from fsdp_migrate.neighbours.sighting import check

_BRIDGE = "from megatron.bridge.training.config import ConfigContainer\n"

RULE = Rule(
    code="FSDP210",
    name="evaluation",
    summary="train.eval_iters, eval_interval or skip_train belongs to validation",
    explanation="""\
Since Bridge 0.4 the fields of train default to None; what is set there is copied over what validation has, with a
warning.""",
    safety="Unsafe: a base recipe that still sets the old field overrules the new one.",
    source="megatron-bridge 0.4.2, training/config.py:549",
    check=check(EVALUATION, Severity.WARNING, "{old} is deprecated since Bridge 0.4; it is {new}"),
    default=False,
    needles=(
        b"eval_iters",
        b"eval_interval",
        b"skip_train",
    ),
    valid=(
        Example(f"{_BRIDGE}cfg.validation.eval_iters = 10\n"),
        Example("cfg.train.eval_iters = 10\n"),
        Example(f"{_BRIDGE}args.eval_iters = 10\n"),
        Example("train:\n  eval_iters: 10\nmodel:\n  layers: 2\n", language="yaml"),
        Example("python train.py train.eval_iters=10\n", language="shell"),
    ),
    invalid=(
        Example(f"{_BRIDGE}cfg.train.eval_iters = 10\n", f"{_BRIDGE}cfg.validation.eval_iters = 10\n"),
        Example(
            "# Megatron-Bridge\ntrain:\n  train_iters: 5\n  eval_iters: 10\n  eval_interval: 3\n",
            "# Megatron-Bridge\ntrain:\n  train_iters: 5\nvalidation:\n  eval_iters: 10\n  eval_interval: 3\n",
            "yaml",
        ),
        Example(
            "# Megatron-Bridge\nrun.sh train.eval_iters=10\n",
            "# Megatron-Bridge\nrun.sh validation.eval_iters=10\n",
            "shell",
        ),
    ),
)
