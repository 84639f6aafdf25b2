"""What moved, as data. A rule of FSDP2xx owns a topic; every language reads the same rows.

Sources: the dataclasses of megatron-bridge 0.3.0 to 0.6.2 and megatron-core 0.14 to 0.19.2, field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fsdp_migrate.upstream import FLAG, TARGETS, release_of

CUSTOM_FLAG: Final = "custom-flag"
FP8_CACHE: Final = "fp8-cache"
LAZY_INIT: Final = "lazy-init"
EVALUATION: Final = "evaluation"
SEQUENCE_LENGTH: Final = "sequence-length"
CUSTOM_IMPORT: Final = "custom-import"
CUSTOM_OPTION: Final = "custom-option"
FP32_WEIGHTS: Final = "fp32-weights"
FSDP_TYPE: Final = "fsdp-type"
FULLY_SHARD: Final = "fully-shard"
RECIPE_KEYWORD: Final = "recipe-keyword"


@dataclass(frozen=True, slots=True)
class Moved:
    """A field of a section that has another name or section from release `since` (of `TARGETS`) on.

    `safe` are the literals with which the new name certainly says what the old one meant, None: any value. With others,
    `why` says what is to be looked at.
    """

    topic: str
    old: tuple[str, str]
    new: tuple[str, str]
    since: str = TARGETS[0]
    safe: tuple[object, ...] | None = None
    why: str = ""

    def holds(self, target: str) -> bool:
        return TARGETS.index(release_of(target)) >= TARGETS.index(self.since)

    def is_safe(self, value: object) -> bool:
        return self.safe is None or any(value is literal for literal in self.safe)


_OFF = "the old name did nothing, and the new one may overrule what a base recipe has"
_COPIED = "a base recipe that still sets it on train overrules validation"
_OTHER_CLASS = "a dataset class of another project may have a field of its own with this name"

FIELDS: Final = (
    Moved(CUSTOM_FLAG, ("ddp", "use_custom_fsdp"), ("ddp", FLAG), safe=(True,), why=_OFF),
    Moved(FP8_CACHE, ("ddp", "keep_fp8_transpose_cache_when_using_custom_fsdp"), ("ddp", "keep_fp8_transpose_cache")),
    Moved(LAZY_INIT, ("dist", "lazy_init"), ("dist", "lazy_mpu_init")),
    *(
        Moved(EVALUATION, ("train", name), ("validation", name), safe=(), why=_COPIED)
        for name in ("eval_iters", "eval_interval", "skip_train")
    ),
    Moved(
        SEQUENCE_LENGTH,
        ("dataset", "sequence_length"),
        ("dataset", "seq_length"),
        since="0.6",
        safe=(),
        why=_OTHER_CLASS,
    ),
)

# The classes of the sections, and the packages that they may be imported from.
CLASSES: Final = {
    "DistributedDataParallelConfig": ("ddp", ("megatron.core", "megatron.bridge")),
    "DistributedInitConfig": ("dist", ("megatron.bridge",)),
    "TrainingConfig": ("train", ("megatron.bridge",)),
    "GPTDatasetConfig": ("dataset", ("megatron.bridge",)),
}

# megatron-core 0.14 replaced the folder custom_fsdp by fsdp.
OLD_FOLDER: Final = "megatron.core.distributed.custom_fsdp"
ADAPTER: Final = "megatron.core.distributed.fsdp.mcore_fsdp_adapter"
ADAPTED: Final = "FullyShardedDataParallel"

# megatron-core 0.14 took the first option away and has the second.
OLD_OPTION: Final = "--use-custom-fsdp"
NEW_OPTION: Final = "--use-megatron-fsdp"

# megatron-core 0.17 replaced ddp's switch by a data type.
OLD_WEIGHTS: Final = "preserve_fp32_weights"
NEW_WEIGHTS: Final = "megatron_fsdp_main_params_dtype"

# megatron-core after 0.19 makes the class a function that chooses between two classes.
FSDP_MODULES: Final = ("megatron.core.distributed", "megatron.core.distributed.fsdp", ADAPTER)

# megatron-core 0.17, megatron_fsdp/fully_shard.py: the keywords that are gone.
SHARD_PACKAGES: Final = ("megatron_fsdp", "megatron.core.distributed.fsdp")
SHARD_FUNCTIONS: Final = ("fully_shard", "fully_shard_model", "fully_shard_optimizer")
NAN_KEYWORD: Final = "check_for_nan_in_grad"
NEW_NAN_KEYWORD: Final = "report_nan_in_param_grad"
POLICY: Final = {
    "grad_reduce_in_fp32": "main_grads_dtype of a MixedPrecisionPolicy: torch.float32 for True, None for False",
    "preserve_fp32_weights": "main_params_dtype of a MixedPrecisionPolicy: torch.float32 for True, None for False",
}

# megatron-bridge 0.3.1 took the parameters of its recipes away.
RECIPES: Final = "megatron.bridge.recipes"
