"""What the tracer knows about Megatron-Bridge and its libraries. Checked against the releases 0.3.0 to 0.6.2."""

from __future__ import annotations

from typing import Final

NEWEST_RELEASE: Final = "0.6"
"""Assumed where no target is given and no Megatron-Bridge is installed."""

FRAMEWORKS: Final = frozenset(
    {
        "accelerate",
        "apex",
        "causal_conv1d",
        "datasets",
        "deepspeed",
        "diffusers",
        "einops",
        "emerging_optimizers",
        "flash_attn",
        "flashinfer",
        "hydra",
        "jax",
        "lightning",
        "mamba_ssm",
        "megatron",
        "megatron_fsdp",
        "modelopt",
        "multistorageclient",
        "nemo",
        "nemo_run",
        "nvidia_resiliency_ext",
        "nvtx",
        "omegaconf",
        "open_clip",
        "peft",
        "pytorch_lightning",
        "qwen_vl_utils",
        "safetensors",
        "sentencepiece",
        "tensorboard",
        "tensorflow",
        "tiktoken",
        "timm",
        "tokenizers",
        "torch",
        "torchaudio",
        "torchvision",
        "transformer_engine",
        "transformer_engine_torch",
        "transformers",
        "triton",
        "vllm",
        "wandb",
    }
)
"""Top-level modules that are stand-ins even where they are installed, unless ``--real`` is given.

Importing them takes seconds and network access, and the result would depend on the machine. OmegaConf and Hydra are
here because Bridge's way of laying overrides over a config is done in `overlay`.
"""

FRAMEWORK_NAMESPACES: Final = frozenset({"megatron"})
"""Frameworks that contain recipes: their modules below a `RECIPE_PACKAGES` package are run, the others are stand-ins.

Also the folders without an ``__init__.py`` that belong to a module's name (``megatron/`` in the wheels).
"""

RECIPE_PACKAGES: Final = frozenset({"recipes", "perf_recipes"})

TELLING_SECTIONS: Final = frozenset({"checkpoint", "ddp", "dist", "optimizer", "scheduler", "train"})
"""Fields of ``ConfigContainer`` (0.6.2 training/config.py) that no section has: an object with one is a config."""

ENTRY_POINTS: Final = frozenset({"pretrain", "finetune", "megatron_mimo_pretrain"})
"""Functions that a script hands its config to (0.6.2 training/pretrain.py, finetune.py)."""

CLASS_DEFAULTS: Final[dict[str, dict[str, object]]] = {
    # megatron-core 0.19.2 core/distributed/distributed_data_parallel_config.py; the same since 0.14.0.
    "DistributedDataParallelConfig": {
        "use_megatron_fsdp": False,
        "data_parallel_sharding_strategy": "no_shard",
        "average_in_collective": False,
        "use_distributed_optimizer": False,
    },
    # megatron-bridge 0.6.2 training/config.py
    "DistributedInitConfig": {"use_megatron_fsdp": False, "use_torch_fsdp2": False},
    "CheckpointConfig": {"ckpt_format": "torch_dist"},
}
"""Defaults that a recipe may read back before it sets them. They are never reported as settings."""

SECTION_CLASSES: Final = {
    "ddp": "DistributedDataParallelConfig",
    "dist": "DistributedInitConfig",
    "checkpoint": "CheckpointConfig",
}

FLAG: Final = "use_megatron_fsdp"
OLD_FLAG: Final = f"dist.{FLAG}"
NEW_FLAG: Final = f"ddp.{FLAG}"

COMPANIONS: Final[dict[str, object]] = {
    "ddp.data_parallel_sharding_strategy": "optim_grads_params",
    "ddp.average_in_collective": False,
    "checkpoint.ckpt_format": "fsdp_dtensor",
}
"""The settings that a migration adds where FSDP is on and they are absent."""
