"""Megatron-Bridge's own judgement of configs. Runs as a child process, with the unpacked wheels first on PYTHONPATH.

    python bridge_validate.py < settings.jsonl > verdicts.jsonl

Each line of the input is an object of settings (dotted path -> value) that are laid over a small GPT recipe on eight
ranks; each line of the output is the message with which ``runtime_config_update`` refuses it, or null.

Bridge imports libraries that no config needs. Empty modules stand in for them, for TransformerEngine only after
Megatron-Core has found out that it has to do without.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import io
import json
import logging
import os
import sys
import types
import typing
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar
from unittest.mock import MagicMock

import torch
import typing_extensions

RANKS = 8
LATE = {"transformer_engine", "transformer_engine_torch"}
UNNEEDED = {
    *("triton", "modelopt", "nvidia_resiliency_ext", "megatron.energon", "tensorboard", "diffusers", "transformers"),
    *(
        "datasets",
        "huggingface_hub",
        "tokenizers",
        "safetensors",
        "PIL",
        "matplotlib",
        "IPython",
        "pandas",
        "accelerate",
    ),
    *("google", "qwen_vl_utils", "scipy", "sklearn", "einops", "tqdm", "requests", "regex", "wandb", "peft", "timm"),
}


class _Empty(types.ModuleType):
    """A module of which every capitalised name is a class and every other one a mock."""

    __path__: ClassVar[list[str]] = []
    __version__ = "99.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _a_class(name) if name[:1].isupper() else MagicMock(name=name)
        setattr(self, name, value)
        return value


def _a_class(name: str) -> type:
    def init(self: Any, *_: Any, **__: Any) -> None:
        torch.nn.Module.__init__(self)

    return type(name, (torch.nn.Module,), {"__init__": init, "__class_getitem__": classmethod(lambda cls, *_: cls)})


class _Finder:
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        parts = name.split(".")
        if any(".".join(parts[:n]) in self.names for n in range(1, len(parts) + 1)):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _import_bridge() -> tuple[Any, Any]:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    typing.override = getattr(typing, "override", typing_extensions.override)  # type: ignore[attr-defined]
    finder = _Finder(set(UNNEEDED))
    sys.meta_path.append(finder)  # type: ignore[arg-type]
    for name in ("megatron.core.extensions.transformer_engine", "megatron.core.models.gpt.gpt_layer_specs"):
        importlib.import_module(name)
    finder.names |= LATE
    # What these packages import by themselves is every model that Bridge knows.
    for name in (
        "bridge",
        "bridge.models",
        "bridge.models.conversion",
        "bridge.models.hf_pretrained",
        "bridge.recipes",
    ):
        package = types.ModuleType(f"megatron.{name}")
        package.__path__ = [
            os.path.join(root, *name.split(".")) for root in importlib.import_module("megatron").__path__
        ]
        sys.modules[package.__name__] = package
    models = sys.modules["megatron.bridge.models"]
    for module, name in (("gpt_provider", "GPTModelProvider"), ("t5_provider", "T5ModelProvider")):
        setattr(models, name, getattr(importlib.import_module(f"{models.__name__}.{module}"), name))
    config = importlib.import_module("megatron.bridge.training.config")
    recipe = importlib.import_module("megatron.bridge.recipes.gpt.vanilla_gpt").vanilla_gpt_pretrain_config
    config.get_world_size_safe = lambda: RANKS
    return config, recipe


def verdict(config: Any, recipe: Any, settings: dict[str, Any]) -> str | None:
    """Why Bridge refuses these settings, or None."""
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    cfg = recipe()
    small = {"num_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "ffn_hidden_size": 128, "vocab_size": 512}
    for name, value in small.items():
        setattr(cfg.model, name, value)
    for path, value in settings.items():
        section, _, name = path.partition(".")
        if section == "env_vars" and hasattr(cfg, "env_vars"):
            cfg.env_vars[name] = value
        elif section == "env_vars":
            os.environ[name] = str(value)
        else:
            setattr(getattr(cfg, section), name, value)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            config.runtime_config_update(cfg)
    except (AssertionError, ValueError) as error:
        return str(error) or type(error).__name__
    return None


def main() -> None:
    config, recipe = _import_bridge()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(verdict(config, recipe, json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
