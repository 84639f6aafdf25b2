"""Which format the checkpoints in a directory have, by the files that tell Megatron-Bridge.

Source: ``_get_checkpoint_format`` (training/checkpointing.py:239) and ``is_hf_checkpoint_dir``
(training/utils/checkpoint_utils.py:211) of megatron-bridge 0.6.2.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from typing import Final

TORCH_DIST, FSDP_DTENSOR, HUGGING_FACE = "torch_dist", "fsdp_dtensor", "hf"
_WEIGHTS: Final = ("model*.safetensors", "pytorch_model*.bin")


def is_one_checkpoint(directory: str) -> bool:
    """Whether a path names one iteration. Otherwise it holds one folder for each."""
    return os.path.basename(os.path.normpath(directory)).startswith("iter_")


def format_of(directory: str) -> str:
    """``torch_dist``, ``fsdp_dtensor`` or ``hf``; empty if there is no such directory here or it does not tell.

    A relative path starts at the working directory, as it does in a training job.
    """
    names = _names(directory)
    if "config.json" in names and any(fnmatch(name, weights) for name in names for weights in _WEIGHTS):
        return HUGGING_FACE
    if is_one_checkpoint(directory):
        return _format(names)
    formats = {_format(_names(os.path.join(directory, name))) for name in names if name.startswith("iter_")}
    return formats.pop() if len(formats) == 1 else ""


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _format(names: list[str]) -> str:
    return TORCH_DIST if "metadata.json" in names else FSDP_DTENSOR if ".metadata" in names else ""
