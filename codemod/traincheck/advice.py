"""What known messages of Megatron and torch mean: the likely setting and what to do. Data, in order of precedence."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """`pattern` is searched in the failure's type and text."""

    pattern: str
    advice: str


KNOWN: tuple[Known, ...] = (
    Known(
        r"OutOfMemoryError|CUDA out of memory",
        "out of GPU memory: lower --hidden, --layers or --seq-length, or free the GPU",
    ),
    Known(
        # param_and_grad_buffer.py raises ValueError, megatron_fsdp.py a bare assertion when overlap is off
        r"[Ii]nvalid sharding.strategy|data_parallel_sharding_strategy|assert self.ddp_config.overlap_grad_reduce",
        "ddp.data_parallel_sharding_strategy must be no_shard, optim, optim_grads or optim_grads_params",
    ),
    Known(
        r"'NoneType' object has no attribute 'data_parallel_group'",
        'ddp.outer_dp_sharding_strategy = "optim" needs ddp.num_distributed_optimizer_instances above 1',
    ),
    Known(
        r"unknown ddp field",
        "the installed megatron-core has no such field: correct the name, or install the release that has it",
    ),
    Known(
        r"fsdp_dtensor checkpointing format|only supports Megatron FSDP",
        'set checkpoint.ckpt_format = "fsdp_dtensor"',
    ),
    Known(
        r"gradient_accumulation_fusion|Transformer Engine version 2\.10",
        "set model.gradient_accumulation_fusion = False, or install TransformerEngine 2.10 or newer",
    ),
    Known(
        r"expandable_segments",
        "ddp.nccl_ub excludes PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True on this torch",
    ),
    Known(r"CUDA_DEVICE_MAX_CONNECTIONS", "take CUDA_DEVICE_MAX_CONNECTIONS=1 out of env_vars"),
    Known(r"use_tp_pp_dp_mapping", "set dist.use_tp_pp_dp_mapping = False"),
    Known(r"use_torch_fsdp2", "set dist.use_torch_fsdp2 = False"),
    Known(
        r"'NoneType' object has no attribute 'fetch_bucket'",
        "megatron-core 0.16 needs ddp.overlap_param_gather = True with this strategy",
    ),
    Known(
        r"RegisterFSDPBackwardFunction is a view",
        "megatron-core 0.15 and this torch do not go together with this strategy: use 0.16 or newer",
    ),
    Known(r"num_buckets", "set either ddp.num_buckets or ddp.bucket_size, not both"),
    Known(
        r"ZeroDivisionError",
        "the model has none of the layers that FSDP wraps: set ddp.suggested_communication_unit_size",
    ),
    Known(
        r"optimizer skipped the step|found NaN|[Uu]nexpected result (nan|inf)|non-finite|loss is not finite",
        "the loss left the range of numbers: lower optimizer.lr, or set optimizer.clip_grad",
    ),
    Known(
        r"ranks have different state to save",
        "the optimizer made state on some ranks only; TransformerEngine's FusedAdam does not have this fault",
    ),
    Known(r"Address already in use|EADDRINUSE", "another run took the port: start the check again"),
    Known(
        r"No module named '?([\w.]+)",
        "a package that the recipe or its libraries import is not installed",
    ),
    Known(
        r"HfHub|huggingface\.co|Failed to load configuration|LocalEntryNotFound|Couldn't connect|offline",
        "the recipe asks the Hugging Face hub: log in, fill the cache first, or use --backend mcore",
    ),
    Known(
        r"SIGKILL|exit code -9",
        "killed from outside: the host may have run out of memory (see `dmesg`), or someone ended the process",
    ),
    Known(
        r"no progress for|timed out|Timeout",
        "a rank waits for another one: look at --keep-logs for where each of them stands; --timeout gives it longer",
    ),
)

NOT_FALLING = (
    "the optimizer does not lower the loss: look at optimizer.lr, too high or too low, and optimizer.clip_grad"
)
NOT_SHARDED = 'set ddp.data_parallel_sharding_strategy = "optim_grads_params"'
NOT_EQUAL_TO_DDP = (
    "FSDP and DDP train differently: set ddp.average_in_collective = False, look at ddp.megatron_fsdp_main_grads_dtype "
    "and at the megatron-core release (up to 0.16 only optim_grads and optim_grads_params are exact)"
)
NOT_CHANGED = (
    "the optimizer moved nothing: look at optimizer.lr and, on Bridge 0.3 and 0.4, at precision-aware optimizers"
)
NOT_RELOADED = (
    'the checkpoint does not give the same model back: use checkpoint.ckpt_format = "fsdp_dtensor" and a newer release'
)


def advise(message: str) -> str:
    """What to do about a failure; empty where the message is not a known one."""
    for known in KNOWN:
        if re.search(known.pattern, message):
            return known.advice
    return ""
