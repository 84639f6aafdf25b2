"""CUDA calls answered by the CPU, so that Megatron-Core's own FSDP code runs on gloo ranks.

Megatron FSDP asks for CUDA in many places even when it is given the CPU as its device: ``torch.cuda.current_device``,
``Stream`` and ``Event`` (``distributed/fsdp/src/megatron_fsdp/megatron_fsdp.py``), ``.cuda()``
(``uneven_dtensor.py``), device meshes of type ``cuda`` (``mcore_fsdp_adapter.py``), ``device="cuda"`` in the
optimizer, and ``torch.cuda.FloatTensor`` names (``optimizer/optimizer.py``). `install` gives each of these a CPU
answer for the whole process. It is for a worker process that does nothing else.

What runs like this is the real sharding, reduction, optimizer and checkpoint code. It says nothing about memory,
overlap, NCCL options, CUDA graphs or fp8: there are no streams, so everything happens in program order.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed.device_mesh as device_mesh
from torch.overrides import TorchFunctionMode

SHOWS_NOTHING_ABOUT = "memory, overlap, NCCL options, CUDA graphs, fp8"
"""What a rehearsal cannot show, for the reports."""


_ASYNCHRONOUS = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "_all_gather_base",
    "broadcast",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "_reduce_scatter_base",
    "all_to_all_single",
)


class _Event:
    """A CUDA event that has always happened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def record(self, *args: Any) -> None: ...

    def wait(self, *args: Any) -> None: ...

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def elapsed_time(self, other: Any) -> float:
        return 0.0


class _Stream:
    """A CUDA stream on which everything is already done."""

    device = torch.device("cpu")
    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def wait_stream(self, other: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return event or _Event()

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True


def _is_cuda(device: Any) -> bool:
    if isinstance(device, bool) or device is None:
        return False
    return isinstance(device, int) or str(device).startswith("cuda")


class _OnCpu(TorchFunctionMode):
    """Sends every ``device="cuda"`` argument, and ``tensor.to("cuda")``, to the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if _is_cuda(kwargs.get("device")):
            kwargs["device"] = "cpu"
        moves = getattr(func, "__name__", "") == "to" and len(args) > 1
        if moves and isinstance(args[1], int | str | torch.device) and _is_cuda(args[1]):
            args = (args[0], "cpu", *args[2:])
        return func(*args, **kwargs)


def _factory_on_cpu(factory: Callable[..., Any]) -> Callable[..., Any]:
    """`factory` for code that a `TorchFunctionMode` does not reach, such as another thread's."""

    @functools.wraps(factory)
    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        if _is_cuda(kwargs.get("device")):
            kwargs["device"] = "cpu"
        return factory(*args, **kwargs)

    return on_cpu


def _always(answer: Any) -> Callable[..., Any]:
    """A function of its own for every name: torch's compiler refuses one function under two names of ``torch``."""
    return lambda *args, **kwargs: answer


def install() -> None:
    """Answer CUDA calls on the CPU, from now on and in this whole process."""
    _collectives()
    _streams()
    _random_numbers()
    _tensors()
    _meshes()


def _collectives() -> None:
    """Finish every collective before it returns.

    FSDP frees and refills buffers behind a collective and leaves the order to CUDA's streams. Without streams gloo's
    threads would still be reading what was freed.
    """
    distributed: Any = torch.distributed
    for name in _ASYNCHRONOUS:
        if hasattr(distributed, name):
            setattr(distributed, name, _finished(getattr(distributed, name)))
    coalescing = distributed._coalescing_manager

    @contextlib.contextmanager
    def finished(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with coalescing(*args, **kwargs) as manager:
            yield manager
        for work in manager.works:
            if work is not None:
                work.wait()

    distributed._coalescing_manager = finished


def _finished(collective: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(collective)
    def finished(*args: Any, **kwargs: Any) -> Any:
        work = collective(*args, **kwargs)
        # inside a coalescing manager there is nothing to wait for yet
        if work is not None and type(work).__name__ != "_IllegalWork":
            work.wait()
        return work

    return finished


def _streams() -> None:
    cuda: Any = torch.cuda
    stream = _Stream()
    cuda.Stream, cuda.Event = _Stream, _Event
    cuda.current_stream, cuda.default_stream = _always(stream), _always(stream)
    cuda.stream = lambda stream: contextlib.nullcontext()
    for name in ("synchronize", "empty_cache", "set_device", "reset_peak_memory_stats"):
        setattr(cuda, name, _always(None))
    for name in ("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved"):
        setattr(cuda, name, _always(0))
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None:
        accelerator.current_accelerator = _always(torch.device("cpu"))
        for name, answer in (("current_device_index", 0), ("memory_allocated", 0)):
            setattr(accelerator, name, _always(answer))
        for name in ("synchronize", "empty_cache"):
            setattr(accelerator, name, _always(None))


def _random_numbers() -> None:
    import megatron.core.tensor_parallel.random as random

    modules: tuple[Any, ...] = (torch.cuda, torch.cuda.random)
    for module in modules:
        module.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
        module.set_rng_state = lambda state, *args, **kwargs: torch.set_rng_state(state)
        module.manual_seed = lambda seed: torch.manual_seed(seed)
    random._get_cuda_rng_state, random._set_cuda_rng_state = torch.cuda.get_rng_state, torch.cuda.set_rng_state


def _tensors() -> None:
    tensor: Any = torch.Tensor
    module: Any = torch.nn.Module
    tensor.cuda = lambda self, *args, **kwargs: self
    module.cuda = lambda self, *args, **kwargs: self
    tensor.record_stream = _always(None)
    type_of = tensor.type

    def cuda_type(self: Any, *args: Any, **kwargs: Any) -> Any:
        """``torch.FloatTensor`` as ``torch.cuda.FloatTensor``, which the optimizer compares names with."""
        answer = type_of(self, *args, **kwargs)
        if args or kwargs or not isinstance(answer, str) or ".cuda." in answer:
            return answer
        return answer.replace("torch.", "torch.cuda.", 1)

    tensor.type = cuda_type
    for name in ("tensor", "zeros", "ones", "empty", "full", "arange", "rand", "randn"):
        setattr(torch, name, _factory_on_cpu(getattr(torch, name)))
    on_cpu: Any = _OnCpu()
    on_cpu.__enter__()


def _meshes() -> None:
    mesh: Any = device_mesh
    from_group, init = mesh.DeviceMesh.from_group, mesh.init_device_mesh

    def from_group_on_cpu(group: Any, device_type: str, *args: Any, **kwargs: Any) -> Any:
        return from_group(group, "cpu", *args, **kwargs)

    def init_on_cpu(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return init("cpu", *args, **kwargs)

    mesh.DeviceMesh.from_group = staticmethod(from_group_on_cpu)
    mesh.init_device_mesh = init_on_cpu
