"""``--real``: the installed Megatron-Bridge and Megatron-Core instead of stand-ins. Runs in the child process only.

Bridge's package imports all of its models, and these import libraries that a config does not need (0.6.2
models/peft/lora_layers.py: TransformerEngine; training/checkpointing.py: modelopt). Those get stand-ins where they are
missing, after Megatron-Core has found out by itself that it has to do without.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from typing import Any, Final

from fsdp_migrate.trace.standins import stand_in, text_of

OPTIONAL: Final = frozenset(
    {
        "diffusers",
        "google",
        "megatron.energon",
        "modelopt",
        "nvidia_resiliency_ext",
        "tensorboard",
        "transformer_engine",
        "transformer_engine_torch",
    }
)
"""Libraries that importing Bridge needs and building a config does not."""

_CORE_FIRST: Final = (
    "megatron.core",
    "megatron.core.distributed",
    "megatron.core.extensions.transformer_engine",
    "megatron.core.models.gpt.gpt_layer_specs",
    "megatron.core.transformer.moe.experts",
)


def import_core() -> None:
    """Import Megatron-Core before any stand-in is there, so that its own checks for optional libraries hold."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for name in _CORE_FIRST:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def import_bridge() -> None:
    """Import Megatron-Bridge, and let what would ask the Hugging Face hub answer with stand-ins.

    Raises:
        ImportError: it is not installed, or not usable.
    """
    bridge = importlib.import_module("megatron.bridge")
    _offline(bridge.AutoBridge, "megatron.bridge.AutoBridge", "from_hf_pretrained")
    with contextlib.suppress(ImportError):
        transformers = importlib.import_module("transformers")
        for name in ("AutoConfig", "AutoTokenizer", "AutoProcessor"):
            _offline(getattr(transformers, name), f"transformers.{name}", "from_pretrained")


def is_optional(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in OPTIONAL)


def _offline(owner: Any, text: str, method: str) -> None:
    def answer(*args: Any, **kwargs: Any) -> Any:
        spelled = [*map(text_of, args), *(f"{name}={text_of(value)}" for name, value in kwargs.items())]
        return stand_in(f"{text}.{method}({', '.join(spelled)})")

    setattr(owner, method, staticmethod(answer))
