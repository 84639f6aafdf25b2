"""The `mcore` backend: a scaled-down GPT of Megatron-Core under its FSDP adapter, trained as Megatron trains.

The schedule (`get_forward_backward_func`), `no_sync` and `finalize_model_grads` are Megatron-Core's own, set on the
model's config as Megatron-LM and Megatron-Bridge do (``training/training.py``, ``training/train.py``): with
``overlap_grad_reduce`` the schedule enters and leaves `no_sync` even for a single micro-batch, without it never.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import Float16Module

from fsdp_migrate.traincheck import drift
from fsdp_migrate.traincheck.exchange import Measured
from fsdp_migrate.traincheck.job import Job

BASELINE_DDP_FIELDS = ("grad_reduce_in_fp32", "check_for_nan_in_grad", "overlap_grad_reduce", "bucket_size")
"""What plain DDP takes over from the recipe's ``ddp`` section."""

Report = Callable[[str], None]
"""Called with what is being done, for the progress bar and for the last words of a process that hangs."""


class Trainer:
    """A model, its wrapper and its optimizer. `fsdp` off gives plain DDP with everything replicated."""

    def __init__(self, job: Job, device: torch.device, *, fsdp: bool, seed: int) -> None:
        self.job, self.device, self.fsdp = job, device, fsdp
        self._before = torch.cuda.memory_allocated()
        self.config = self._model_config()
        module = self._module(seed)
        section = dict(job.ddp) if fsdp else {name: job.ddp[name] for name in BASELINE_DDP_FIELDS if name in job.ddp}
        self.ddp = drift.ddp_config(section)
        if fsdp:
            self.model = drift.wrap_in_fsdp(self.config, self.ddp, module, device)
        else:
            self.model = DistributedDataParallel(config=self.config, ddp_config=self.ddp, module=module)
            self.model.broadcast_params()
        self.optimizer = get_megatron_optimizer(self._optimizer_config(), [self.model])
        self.config.finalize_model_grads_func = finalize_model_grads
        self.config.grad_scale_func = self.optimizer.scale_loss
        if self.ddp.overlap_grad_reduce:  # read after the wrapping: the sharding strategies that need it switch it on
            self.config.no_sync_func = self.model.no_sync
        self.model.train()

    def step(self) -> tuple[float, float]:
        """One training step on the job's data: its loss, before the update, and its gradient norm."""
        self.model.zero_grad_buffer()
        self.optimizer.zero_grad()
        shape = self.job.shape
        reduced = get_forward_backward_func()(
            forward_step_func=self._forward,
            data_iterator=self._micro_batches(),
            model=[self.model],
            num_microbatches=self.job.micro_batches,
            seq_length=shape.seq_length,
            micro_batch_size=self.job.micro_batch_size,
            forward_only=False,
        )
        updated, norm, _ = self.optimizer.step()
        if not updated:
            raise RuntimeError("the optimizer skipped the step (gradients are not finite)")
        return _mean_loss(reduced), float(norm) if norm is not None else 0.0

    def train(self, report: Report) -> Measured:
        """The job's steps, measured."""
        steps = []
        started = time.perf_counter()
        before = fingerprints(self.optimizer)
        name = "FSDP" if self.fsdp else "DDP"
        for step in range(self.job.steps):
            report(f"{name} step {step + 1} of {self.job.steps}")
            steps.append(self.step())
        after = fingerprints(self.optimizer)
        return Measured(
            losses=tuple(loss for loss, _ in steps),
            gradient_norms=tuple(norm for _, norm in steps),
            seconds=time.perf_counter() - started,
            peak_bytes=torch.cuda.max_memory_allocated() - self._before if self.device.type == "cuda" else 0,
            elements=local_elements(self.model, self.optimizer),
            tensors=len(after),
            changed_tensors=sum(old != new for old, new in zip(before, after, strict=True)),
        )

    def close(self) -> None:
        """Give the GPU's memory back.

        Autograd keeps a wrapped model alive through its hooks, so its storages are emptied. CUDA's allocator waits for
        what still runs on them; the CPU's does not, and has no need of it.
        """
        if self.device.type != "cuda":
            gc.collect()
            return
        tensors = [*self.model.parameters(), *(tensor.grad for tensor in self.model.parameters())]
        for group in drift.inner_optimizer(self.optimizer).param_groups:
            tensors += group["params"]
        for state in drift.inner_optimizer(self.optimizer).state.values():
            tensors += [value for value in state.values() if isinstance(value, torch.Tensor)]
        tensors += drift.buffer_tensors(self.model)
        for tensor in tensors:
            if tensor is not None:
                _local(tensor).untyped_storage().resize_(0)
        drift.forget_shared_buffers()
        release(self.device)

    def _model_config(self) -> Any:
        job = self.job
        dtype = _dtype(job.precision)
        return TransformerConfig(
            num_layers=job.shape.layers,
            hidden_size=job.shape.hidden,
            num_attention_heads=job.shape.heads,
            gated_linear_unit=job.shape.gated,
            calculate_per_token_loss=job.shape.per_token_loss,
            tensor_model_parallel_size=job.tensor_parallel,
            bf16=job.precision == "bf16",
            params_dtype=dtype,
            pipeline_dtype=dtype,
            use_cpu_initialization=self.device.type == "cpu",
            hidden_dropout=0.0,
            attention_dropout=0.0,
            gradient_accumulation_fusion=False,
            bias_activation_fusion=False,
            bias_dropout_fusion=False,
            masked_softmax_fusion=False,
            persist_layer_norm=False,
        )

    def _module(self, seed: int) -> Any:
        torch.manual_seed(seed)
        model_parallel_cuda_manual_seed(seed)
        shape = self.job.shape
        module = GPTModel(
            config=self.config,
            transformer_layer_spec=get_gpt_layer_local_spec(),
            vocab_size=shape.vocabulary,
            max_sequence_length=shape.seq_length,
        ).to(self.device)
        for parameter in module.parameters():
            tensor_parallel.set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)
        return Float16Module(self.config, module) if self.job.precision == "bf16" else module

    def _optimizer_config(self) -> Any:
        return OptimizerConfig(
            **self.job.optimizer,
            bf16=self.job.precision == "bf16",
            params_dtype=_dtype(self.job.precision),
            use_distributed_optimizer=self.fsdp,
        )

    def _micro_batches(self) -> Iterator[torch.Tensor]:
        """Token ids ``[micro batch, sequence + 1]``: the same in every step, others on every data-parallel rank."""
        job = self.job
        rank = parallel_state.get_data_parallel_rank()
        for number in range(job.micro_batches):
            generator = torch.Generator().manual_seed(job.seed + 1000 * rank + number)
            size = (job.micro_batch_size, job.shape.seq_length + 1)
            yield torch.randint(0, job.shape.vocabulary, size, generator=generator).to(self.device)

    def _forward(self, batches: Iterator[torch.Tensor], model: Any) -> tuple[Any, Any]:
        tokens = next(batches)
        length = self.job.shape.seq_length
        positions = torch.arange(length, device=self.device).expand(len(tokens), -1)
        mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=self.device).triu(1)
        losses = model(tokens[:, :-1].contiguous(), positions, mask, labels=tokens[:, 1:].contiguous())
        return losses, _loss


def local_elements(model: Any, optimizer: Any) -> dict[str, int]:
    """Elements that this rank keeps of the weights, the gradients and the optimizer's moments."""
    inner = drift.inner_optimizer(optimizer)
    moments = sum(
        _local(value).numel()
        for state in inner.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor) and value.dim() > 0
    )
    if hasattr(model, "param_and_grad_buffer"):
        groups = model.param_and_grad_buffer.parameter_groups
        weights = sum(_buffer_elements(group.model_weight_buffer or group.main_weight_buffer) for group in groups)
        gradients = sum(_buffer_elements(group.main_grad_buffer) for group in groups)
    else:
        weights = sum(parameter.numel() for parameter in model.parameters())
        gradients = sum(buffer.grad_data.numel() for buffer in model.buffers)
    return {"weights": weights, "gradients": gradients, "optimizer": moments}


def fingerprints(optimizer: Any) -> list[tuple[float, float]]:
    """A sum and a sum of squares for each tensor that the optimizer updates, this rank's part."""
    inner = drift.inner_optimizer(optimizer)
    shards = [_local(tensor.detach()).double() for group in inner.param_groups for tensor in group["params"]]
    return [(float(shard.sum()), float(shard.square().sum())) for shard in shards if shard.numel()]


def _loss(losses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Loss summed over tokens, the number of tokens, and the mean for the record, as Megatron's `loss_func`."""
    total = losses.float().sum()
    tokens = torch.tensor(losses.numel(), dtype=torch.int, device=losses.device)
    return total, tokens, {"loss": total.detach().clone() / losses.numel()}


def _mean_loss(reduced: list[dict[str, torch.Tensor]]) -> float:
    loss = torch.stack([item["loss"] for item in reduced]).mean()
    group = parallel_state.get_data_parallel_group()
    dist.all_reduce(loss, group=group)
    return float(loss) / dist.get_world_size(group)


def _dtype(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _local(tensor: Any) -> torch.Tensor:
    local: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local


def _buffer_elements(buffer: Any) -> int:
    data = getattr(buffer, "data", None)
    return int(data.numel()) if data is not None else 0


def release(device: torch.device) -> None:
    """Give the memory of a finished trainer back; its hooks and buffers refer to each other."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
