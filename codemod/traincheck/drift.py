"""Where the releases of Megatron-Core differ, 0.14 to 0.19. Loaded in the worker only.

Read in the wheels: the adapter's keyword for process groups (``core/distributed/fsdp/mcore_fsdp_adapter.py``),
``preserve_fp32_weights`` (0.12 to 0.16) and its successors (``distributed_data_parallel_config.py``), the private torch
names 0.14 relies on, and what an optimizer state on torch AdamW can be saved with (``optimizer/distrib_optimizer.py``).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import megatron.core
import torch
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.transformer.module import Float16Module


class NotHereError(Exception):
    """The installed releases cannot run this at all; the recipe is not to blame."""


def version() -> tuple[int, int]:
    """Major and minor release of the installed Megatron-Core."""
    major, minor = megatron.core.__version__.split(".")[:2]
    return int(major), int(minor)


def check_pairing() -> None:
    """Raise `NotHereError` when this Megatron-Core cannot run FSDP with this torch.

    0.14 reads ``_MeshEnv.child_to_root_mapping`` of torch's device meshes (``megatron_fsdp/utils.py``), a private name
    that newer torch releases no longer have.
    """
    from torch.distributed import device_mesh

    environment = getattr(device_mesh, "_mesh_resources", None)
    if version() < (0, 15) and not hasattr(environment, "child_to_root_mapping"):
        raise NotHereError(
            f"megatron-core {megatron.core.__version__} needs an older torch than {torch.__version__} for FSDP: "
            "use megatron-core 0.15 or newer"
        )


def ddp_fields() -> frozenset[str]:
    """The names that the installed ``DistributedDataParallelConfig`` knows."""
    return frozenset(field.name for field in dataclasses.fields(DistributedDataParallelConfig))


def unknown_ddp_fields(section: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a recipe's ``ddp`` section that the installed release does not know, sorted."""
    return tuple(sorted(set(section) - ddp_fields()))


def ddp_config(section: Mapping[str, Any]) -> Any:
    """A ``DistributedDataParallelConfig`` of these fields; names of torch dtypes become dtypes."""
    return DistributedDataParallelConfig(**{name: _dtype(value) for name, value in section.items()})


def _dtype(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("torch."):
        return getattr(torch, value.removeprefix("torch."), value)
    return value


def known_arguments(function: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that `function` takes, so that a keyword of some releases can be offered to all."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in parameters}


def wrap_in_fsdp(config: Any, ddp: Any, module: Any, device: torch.device) -> Any:
    """The FSDP adapter around `module`: a class up to 0.19, a factory function afterwards."""
    from megatron.core.distributed import FullyShardedDataParallel
    from megatron.core.extensions import transformer_engine

    if config.tensor_model_parallel_size > 1 and version() < (0, 17) and not transformer_engine.HAVE_TE:
        # mcore_fsdp_adapter.py asks isinstance(module, TELinear), which is no class then
        raise NotHereError(
            f"megatron-core {megatron.core.__version__} needs TransformerEngine for tensor parallel FSDP"
        )
    return FullyShardedDataParallel(config=config, ddp_config=ddp, module=module, device=device)


def inner_optimizer(optimizer: Any) -> Any:
    """The torch optimizer in Megatron's: a chain of one is what MoE-ready releases return."""
    chain = getattr(optimizer, "chained_optimizers", None)
    if chain:
        if len(chain) != 1:
            raise NotHereError(f"{len(chain)} chained optimizers: only one kind of parameter is built here")
        optimizer = chain[0]
    return optimizer.optimizer


def buffer_tensors(model: Any) -> list[Any]:
    """The flat tensors in which FSDP or DDP keeps weights and gradients."""
    if hasattr(model, "param_and_grad_buffer"):
        names = ("model_weight_buffer", "transpose_weight_buffer", "main_weight_buffer", "main_grad_buffer")
        groups = model.param_and_grad_buffer.parameter_groups
        buffers = [getattr(group, name, None) for group in groups for name in names]
        return [data for buffer in buffers if (data := getattr(buffer, "data", None)) is not None]
    return [
        tensor for buffer in model.buffers for tensor in (buffer.param_data, buffer.grad_data) if tensor is not None
    ]


def forget_shared_buffers() -> None:
    """Drop the process-wide buffers that FSDP gathers weights into, so that the next model does not get emptied ones.

    Source: ``megatron_fsdp/utils.py``, `get_global_memory_buffer`; it makes a new one on demand.
    """
    from megatron.core.distributed.fsdp.src.megatron_fsdp import utils

    changed: Any = utils
    changed._GLOBAL_MEMORY_BUFFER = None


def one_rank_gradient_fault(ddp: Any) -> bool:
    """Whether FSDP multiplies gradients at data-parallel size 1 (Megatron-LM issue 6660).

    Up to 0.16 always with sharded gradients; from 0.17 to 0.19 only where gradients travel in another dtype than they
    are kept in (``megatron_fsdp_grad_comm_dtype`` against ``megatron_fsdp_main_grads_dtype``).
    """
    if ddp.data_parallel_sharding_strategy not in ("optim_grads", "optim_grads_params"):
        return False
    if version() < (0, 17):
        return True
    travels = getattr(ddp, "megatron_fsdp_grad_comm_dtype", None)
    return travels is not None and travels != getattr(ddp, "megatron_fsdp_main_grads_dtype", None)


def saves_optimizer_state() -> bool:
    """Whether torch AdamW's state can be saved as ``fsdp_dtensor``.

    Up to 0.16 the state of a parameter whose shard is empty on a rank has no chunk ("out of bounds chunk" when saved).
    """
    return version() >= (0, 17)


def fill_empty_shards(optimizer: Any) -> None:
    """Zero moments for the parameters of which this rank owns nothing.

    torch's optimizers make none for them, so the ranks' states would have different keys, and the exchange per tensor
    before a save would wait for ever. TransformerEngine's FusedAdam makes them.
    """
    filled: dict[str, Any] = next((state for state in optimizer.state.values() if state), {})
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            if not state:
                for name, value in filled.items():
                    state[name] = torch.zeros_like(parameter) if value.dim() else value.clone()


def fill_empty_shards_in_checkpoints() -> None:
    """Have every ``fsdp_dtensor`` save and load of the process go through `fill_empty_shards`."""
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

    changed: Any = DistributedOptimizer
    original = changed.sharded_param_state_fsdp_dtensor

    def on_all_ranks_alike(self: Any, is_loading: bool = False) -> Any:
        if is_loading:
            self._init_optimizer_states_with_dummy_values()
        fill_empty_shards(self.optimizer)
        return original(self, is_loading=False)

    changed.sharded_param_state_fsdp_dtensor = on_all_ranks_alike


def prepare_state_dict(model: Any, state: dict[str, Any], gated: bool) -> dict[str, Any]:
    """What Megatron-LM does to a state before ``dcp.save`` and ``dcp.load`` (``training/checkpointing.py``).

    The result shares its tensors with `state`, so a load into it fills `state`.
    """
    from megatron.core.distributed.fsdp.src.megatron_fsdp.uneven_dtensor import preprocess_state_dict_for_uneven_dtensor
    from megatron.core.transformer.fsdp_dtensor_checkpoint import handle_swiglu_in_state_dict

    state = dict(state)
    if gated:
        # It looks a weight up as `module.KEY`, where a Float16Module leaves its own `module.` out of KEY.
        owner = model.module if isinstance(model.module.module, Float16Module) else model
        state["model"], _ = handle_swiglu_in_state_dict(owner, state["model"], None)
        if "optimizer" in state:
            _, state["optimizer"] = handle_swiglu_in_state_dict(model.module, {}, state["optimizer"])
    preprocess_state_dict_for_uneven_dtensor(state)
    return state
