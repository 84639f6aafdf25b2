"""What is known about Megatron-Bridge and Megatron-Core: names, values and releases, as data.

Sources: ``megatron/bridge/training/config.py`` of megatron-bridge 0.3.0 to 0.6.2 and
``megatron/core/distributed/distributed_data_parallel_config.py`` of megatron-core 0.14 to 0.19.2.
"""

from __future__ import annotations

from functools import cache
from typing import Final

FLAG: Final = "use_megatron_fsdp"
OLD_SECTION: Final = "dist"
NEW_SECTION: Final = "ddp"
CHECKPOINT_SECTION: Final = "checkpoint"
SECTIONS: Final = (OLD_SECTION, NEW_SECTION, CHECKPOINT_SECTION)

OLD_CLASS: Final = "DistributedInitConfig"
NEW_CLASS: Final = "DistributedDataParallelConfig"
CHECKPOINT_CLASS: Final = "CheckpointConfig"
SECTION_CLASSES: Final = {OLD_CLASS: OLD_SECTION, NEW_CLASS: NEW_SECTION, CHECKPOINT_CLASS: CHECKPOINT_SECTION}

# Where the classes live. Bridge's recipes take the ddp class from Megatron-Core (recipes/common.py of 0.6.2).
BRIDGE_PACKAGE: Final = "megatron.bridge"
CORE_PACKAGE: Final = "megatron.core"
# Megatron-LM's own container: same class names, and its training.py still reads cfg.dist.use_megatron_fsdp.
LM_PACKAGE: Final = "megatron.training"

STRATEGY: Final = "ddp.data_parallel_sharding_strategy"
AVERAGE: Final = "ddp.average_in_collective"
CKPT_FORMAT: Final = "checkpoint.ckpt_format"
VERSION: Final = "ddp.megatron_fsdp_version"
SAVE: Final = "checkpoint.save"
LOAD: Final = "checkpoint.load"
PRETRAINED: Final = "checkpoint.pretrained_checkpoint"

# The settings a recipe needs beside the flag, in the order in which they are written.
FSDP_FORMAT: Final = "fsdp_dtensor"
COMPANIONS: Final = {STRATEGY: "optim_grads_params", AVERAGE: False, CKPT_FORMAT: FSDP_FORMAT}
# Settings whose value decides about a companion.
WATCHED: Final = (*COMPANIONS, VERSION, SAVE, LOAD, PRETRAINED)

# megatron-core, every release with the flag: "no_shard" is the class default and shards nothing.
STRATEGIES: Final = ("no_shard", "optim", "optim_grads", "optim_grads_params")
NO_SHARD: Final = "no_shard"
OUTER_STRATEGY: Final = "ddp.outer_dp_sharding_strategy"
# What other tools call the strategies: DeepSpeed's stages and torch FSDP's ShardingStrategy, in lower case.
FOREIGN_STRATEGIES: Final = {
    "zero1": "optim",
    "zero_1": "optim",
    "zero2": "optim_grads",
    "zero_2": "optim_grads",
    "shard_grad_op": "optim_grads",
    "zero3": "optim_grads_params",
    "zero_3": "optim_grads_params",
    "full_shard": "optim_grads_params",
}
# megatron-bridge 0.4 to 0.6: providers whose models FSDP cannot wrap.
MIMO_PROVIDERS: Final = (
    "MimoModelProvider",
    "LlavaMimoProvider",
    "MegatronMIMOProvider",
    "LlavaMegatronMIMOProvider",
)
# megatron-core 0.18, training/arguments.py: what it asserts under FSDP.
OPTIMIZERS: Final = ("adam", "sgd")
# megatron-bridge 0.6.2: fields of ddp that another section's setup() overwrites.
OVERWRITTEN: Final = {
    "comm_overlap": ("overlap_grad_reduce", "overlap_param_gather", "bucket_size", "align_param_gather"),
    "mixed_precision": (
        "grad_reduce_in_fp32",
        "fp8_param_gather",
        "fp4_param_gather",
        "reuse_grad_buf_for_mxfp8_param_ag",
    ),
}
# Checkpoint formats that validate() refuses together with Megatron FSDP once save or load is set.
LEGACY_FORMATS: Final = ("torch_dist", "zarr", "torch", "torch_dcp")

# Bridge releases that --target names. "main" is the release without dist.use_megatron_fsdp.
TARGETS: Final = ("0.4", "0.5", "0.6", "main")
NEWEST_PUBLISHED: Final = "0.6"


@cache
def release_of(target: str) -> str:
    """The one of `TARGETS` that a run is for: `target`, else the installed Bridge, else the newest published."""
    if target in TARGETS:
        return target
    if target:
        return _release(target)
    from importlib.metadata import PackageNotFoundError, version

    try:
        return _release(version("megatron-bridge"))
    except PackageNotFoundError:
        return NEWEST_PUBLISHED


def _release(version: str) -> str:
    parts = version.split(".")
    known = [r for r in TARGETS if r.split(".") == parts[:2]]
    minor = parts[1] if len(parts) > 1 else ""
    older = parts[0] == "0" and minor.isdecimal() and int(minor) < int(TARGETS[0].split(".")[1])
    return known[0] if known else TARGETS[0] if older else TARGETS[-1]


def is_fsdp_value(field: str, value: object) -> bool:
    """Whether a base recipe's `value` for a companion is a choice about FSDP, not plain DDP style."""
    if field == STRATEGY:
        return value in STRATEGIES and value != NO_SHARD
    return value == COMPANIONS[field] and type(value) is type(COMPANIONS[field])
