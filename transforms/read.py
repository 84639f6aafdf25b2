"""FSDP003: the flag is read from ``dist``, in a condition, an assert or as another call's keyword value."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import MOVE, Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    if case.refusal:
        return
    for spot in case.reads:
        message = f"use_megatron_fsdp is read from dist; read {case.root}.ddp.use_megatron_fsdp"
        yield Draft(Severity.ERROR, message, spot.place, MOVE)


RULE = Rule(
    code="FSDP003",
    name="moved-read",
    summary="use_megatron_fsdp is read from dist instead of ddp",
    explanation="""\
A read means the effective flag. Without the field it raises AttributeError, and getattr(..., False) is False in
silence. `x or x` that comes out of the rename is written once, and an assert that repeats its neighbour goes.""",
    safety="Safe: validate() sets both flags alike before anybody reads them.",
    source="megatron-bridge 0.6.2, training/config.py:1070, training/setup.py:535, training/train.py:621",
    check=check,
    outdated=True,
    valid=(
        Example("def f(cfg):\n    return cfg.ddp is not None and cfg.ddp.use_megatron_fsdp\n"),
        Example("def f(cfg):\n    return cfg.dist.use_torch_fsdp2\n"),
        Example("def f(args):\n    return args.use_megatron_fsdp\n"),
    ),
    invalid=(
        Example(
            "def f(cfg):\n    return wrap(use_megatron_fsdp=cfg.dist.use_megatron_fsdp)\n",
            "def f(cfg):\n    return wrap(use_megatron_fsdp=cfg.ddp.use_megatron_fsdp)\n",
        ),
        Example(
            "def f(cfg):\n    return cfg.dist.use_megatron_fsdp or cfg.ddp.use_megatron_fsdp\n",
            "def f(cfg):\n    return cfg.ddp.use_megatron_fsdp\n",
        ),
    ),
)
