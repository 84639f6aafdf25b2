"""FSDP207: keywords that ``fully_shard`` and its two halves gave up."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import FULLY_SHARD
from fsdp_migrate.neighbours.sighting import check

_FSDP = "from megatron_fsdp import fully_shard, fully_shard_optimizer\n"

RULE = Rule(
    code="FSDP207",
    name="fully-shard",
    summary="a keyword that megatron_fsdp's fully_shard has no more",
    explanation="""\
Megatron-Core 0.17 (megatron-fsdp 0.6) put grad_reduce_in_fp32 and preserve_fp32_weights into one mixed_precision_policy
and renamed check_for_nan_in_grad. fully_shard_optimizer has no model argument since 0.16. All of them raise
TypeError.""",
    safety="Unsafe for check_for_nan_in_grad, whose default has changed; the rest is reported only.",
    source="megatron-core 0.17.1, distributed/fsdp/src/megatron_fsdp/fully_shard.py:75",
    check=check(FULLY_SHARD, Severity.ERROR, "{old} is gone from fully_shard since Megatron-Core 0.17; it is {new}"),
    default=False,
    needles=(b"fully_shard",),
    valid=(
        Example("from torch.distributed.fsdp import fully_shard\nfully_shard(model, check_for_nan_in_grad=True)\n"),
        Example(f"{_FSDP}fully_shard(model, optimizer, report_nan_in_param_grad=True)\n"),
        Example(f"{_FSDP}fully_shard_optimizer(optimizer, False)\n"),
        Example("fully_shard(model, grad_reduce_in_fp32=True)\n"),
    ),
    invalid=(
        Example(
            f"{_FSDP}fully_shard(model, optimizer, check_for_nan_in_grad=True)\n",
            f"{_FSDP}fully_shard(model, optimizer, report_nan_in_param_grad=True)\n",
        ),
        Example(f"{_FSDP}fully_shard(model, optimizer, grad_reduce_in_fp32=True)\n"),
        Example(f"{_FSDP}fully_shard(model, optimizer, check_for_nan_in_grad=True, **more)\n"),
        Example(f"{_FSDP}fully_shard_optimizer(model, optimizer)\n"),
        Example("import megatron_fsdp\nmegatron_fsdp.fully_shard_model(model, preserve_fp32_weights=False)\n"),
    ),
)
