"""Save and load an ``fsdp_dtensor`` checkpoint, as Megatron-LM does without Megatron-LM's arguments.

Source: ``training/checkpointing.py`` of megatron-core 0.19 (save at 841, load at 1761).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from fsdp_migrate.traincheck import drift
from fsdp_migrate.traincheck.mcore import Trainer

SHARDING = {"distrib_optim_sharding_type": "fsdp_dtensor"}


def save(trainer: Trainer, folder: Path, *, optimizer: bool) -> None:
    """Write the weights, and with `optimizer` the moments, from every rank into `folder`."""
    state = _state(trainer, optimizer=optimizer)
    dcp_save(drift.prepare_state_dict(trainer.model, state, trainer.job.shape.gated), checkpoint_id=folder)


def load(trainer: Trainer, folder: Path, *, optimizer: bool) -> None:
    """Fill a fresh trainer from `folder`."""
    if optimizer:  # makes the moments that are to be filled
        trainer.optimizer.sharded_state_dict({}, is_loading=True, metadata=SHARDING)
    state = _state(trainer, optimizer=optimizer)
    dcp_load(drift.prepare_state_dict(trainer.model, state, trainer.job.shape.gated), checkpoint_id=folder)
    trainer.model.load_state_dict(state["model"], strict=False)
    if optimizer:
        trainer.optimizer.load_state_dict(state["optimizer"])


def _state(trainer: Trainer, *, optimizer: bool) -> dict[str, Any]:
    state = {"model": trainer.model.state_dict_for_save_checkpoint()}
    if optimizer:
        drift.fill_empty_shards(drift.inner_optimizer(trainer.optimizer))
        state["optimizer"] = trainer.optimizer.sharded_state_dict({}, metadata=SHARDING)
    _same_on_all_ranks(state)
    return state


def _same_on_all_ranks(state: dict[str, Any]) -> None:
    """Raise on every rank, instead of hanging, when the ranks would save different keys."""
    keys = sorted(f"{part}.{key}" for part, values in state.items() for key in _names(values))
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, keys)
    if any(other != gathered[0] for other in gathered):
        sizes = ", ".join(str(len(other)) for other in gathered)
        raise RuntimeError(f"the ranks have different state to save ({sizes} tensors)")


def _names(values: Any, prefix: str = "") -> list[str]:
    if not isinstance(values, dict):
        return [prefix] if hasattr(values, "to_local") else []
    return [name for key, value in values.items() for name in _names(value, f"{prefix}.{key}")]
