"""The `bridge` backend: the recipe's own ``ConfigContainer``, scaled down, through Megatron-Bridge's `pretrain`.

Three runs: FSDP with a checkpoint on the way, a resume from it, and plain DDP. `pretrain` applies Bridge's own
``runtime_config_update`` and ``validate``. Facts: megatron-bridge 0.6.2 (``training/pretrain.py``,
``training/callbacks.py``, ``peft/lora_layers.py``).
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import shutil
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import megatron.core
import torch
import torch.distributed as dist
from megatron.core import parallel_state

from fsdp_migrate.traincheck import drift, mcore
from fsdp_migrate.traincheck.exchange import Measured, Resumed, Versions
from fsdp_migrate.traincheck.job import Job

Report = Callable[[str], None]
Keep = Callable[..., None]

NEXT_STEPS = 2
"""Steps after the checkpoint, in the run that saved and in the one that loaded."""

WITHOUT_TRANSFORMER_ENGINE = {
    "apply_rope_fusion": False,
    "masked_softmax_fusion": False,
    "bias_activation_fusion": False,
    "bias_dropout_fusion": False,
    "persist_layer_norm": False,
    "gradient_accumulation_fusion": False,
}
"""Model settings that need TransformerEngine's or Apex's kernels."""

_IMPORT_IT_UNASKED = ("lora_layers", "gpt_full_te_layer_autocast_spec")
"""Modules that import TransformerEngine without a guard, though nothing here uses what they define."""


def start() -> tuple[Callable[[Job, Path, Report, Keep], None], Versions, Callable[[], None]]:
    """Process groups, CUDA and Megatron-Bridge, once for all jobs."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    if not has_transformer_engine():
        _stand_in_for_transformer_engine()
        drift.fill_empty_shards_in_checkpoints()
    _use_compiled_dataset_helpers()
    bridge = importlib.import_module("megatron.bridge")
    versions = Versions(
        torch=torch.__version__,
        megatron_core=megatron.core.__version__,
        megatron_bridge=str(getattr(bridge, "__version__", "")),
        device=torch.cuda.get_device_name(device),
    )
    return _run, versions, dist.destroy_process_group


def has_transformer_engine() -> bool:
    """Whether TransformerEngine's torch part can be found."""
    return importlib.util.find_spec("transformer_engine") is not None


class _AnyClass(type):
    """A class whose attributes are classes again; enough to be a base class or an annotation."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyClass(name, (), {})


def _stand_in_for_transformer_engine() -> None:
    """Let Bridge's unguarded imports pass. Everyone else still sees that TransformerEngine is not there."""
    real = builtins.__import__

    def importing(name: str, names: Any = None, *rest: Any, **more: Any) -> Any:
        if name.startswith("transformer_engine"):
            importer = (names or more.get("globals") or {}).get("__name__", "").rpartition(".")[2]
            if importer in _IMPORT_IT_UNASKED:
                module: Any = types.ModuleType(name)
                module.__getattr__ = lambda attribute: _AnyClass(attribute, (), {})
                return module
        return real(name, names, *rest, **more)

    changed: Any = builtins
    changed.__import__ = importing


def _use_compiled_dataset_helpers() -> None:
    """Bridge runs ``make`` for a helper that the wheel of megatron-core has compiled already, without a Makefile."""
    from megatron.core.datasets import utils

    folder = Path(utils.__file__).parent
    if any(folder.glob("helpers_cpp*.so")) and not (folder / "Makefile").exists():
        changed: Any = utils
        changed.compile_helpers = lambda: None


def _run(job: Job, folder: Path, report: Report, keep: Keep) -> None:
    refusal = _unknown_fields(job)
    if refusal:
        keep(refused=refusal)
        return
    started = time.perf_counter()
    report("FSDP: building the model")
    watch = Watch(report, "FSDP", measure_at=job.steps)
    config = scaled(job)
    if job.checkpoint:
        config.checkpoint.save = str(folder)
        config.checkpoint.save_interval = job.steps
    _pretrain(config, watch)
    keep(data_parallel=dist.get_world_size() // job.tensor_parallel, fsdp=watch.measured(job.steps))
    if job.checkpoint:
        report("checkpoint: loading into a fresh model")
        keep(resumed=_resume(job, folder, watch.losses[job.steps :], report, started))
    if job.baseline:
        report("DDP: building the model")
        plain = Watch(report, "DDP", measure_at=job.steps)
        _pretrain(without_fsdp(scaled(job)), plain)
        keep(ddp=plain.measured(job.steps))


def _unknown_fields(job: Job) -> str:
    unknown = drift.unknown_ddp_fields(job.own_ddp)
    return f"unknown ddp field {', '.join(unknown)} (megatron-core {megatron.core.__version__})" if unknown else ""


def _resume(job: Job, folder: Path, went_on: list[float], report: Report, started: float) -> Resumed:
    config = scaled(job)
    config.checkpoint.load = str(folder)
    config.checkpoint.ckpt_step = job.steps
    watch = Watch(report, "resumed", measure_at=job.steps + NEXT_STEPS)
    _pretrain(config, watch)
    saved = next(iter(folder.glob(f"iter_*{job.steps}")), folder)
    files = tuple(sorted(path.name for path in saved.iterdir()))
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder)
    return Resumed(tuple(went_on), tuple(watch.losses), True, files, time.perf_counter() - started)


def _pretrain(config: Any, watch: Watch) -> None:
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    pretrain(config, forward_step, callbacks=[watch.callback()])
    dist.barrier()
    if parallel_state.model_parallel_is_initialized():
        parallel_state.destroy_model_parallel()
    mcore.release(torch.device("cuda", torch.cuda.current_device()))


def recipe_config(job: Job) -> Any:
    """The config that the recipe's function returns, from its module where it lies in a package, else from its file."""
    file = Path(job.path).resolve()
    parts = file.with_suffix("").parts
    if "megatron" in parts:
        module = importlib.import_module(".".join(parts[parts.index("megatron") :]))
    else:
        spec = importlib.util.spec_from_file_location(f"recipe_{file.stem}", file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return getattr(module, job.name)()


def scaled(job: Job) -> Any:
    """The recipe's config with a small model, mock data, and what the job's plan replaced."""
    config = recipe_config(job)
    shape = job.shape
    _set(
        config.model,
        num_layers=shape.layers,
        hidden_size=shape.hidden,
        ffn_hidden_size=4 * shape.hidden,
        num_attention_heads=shape.heads,
        num_query_groups=None,
        kv_channels=None,
        seq_length=shape.seq_length,
        vocab_size=None,  # Bridge takes the tokenizer's
        num_moe_experts=None,
        tensor_model_parallel_size=job.tensor_parallel,
        sequence_parallel=False,
        pipeline_model_parallel_size=1,
        virtual_pipeline_model_parallel_size=None,
        context_parallel_size=1,
        expert_model_parallel_size=1,
        init_model_with_meta_device=False,
        cuda_graph_impl="none",
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )
    if not has_transformer_engine():
        from megatron.bridge.models.gpt_provider import local_layer_spec

        _set(config.model, transformer_layer_spec=local_layer_spec, **WITHOUT_TRANSFORMER_ENGINE)
        _set(config.optimizer, use_precision_aware_optimizer=False)
    data_parallel = dist.get_world_size() // job.tensor_parallel
    _set(
        config.train,
        train_iters=job.steps + NEXT_STEPS,
        micro_batch_size=job.micro_batch_size,
        global_batch_size=job.micro_batch_size * job.micro_batches * data_parallel,
        eval_iters=0,
        check_weight_hash_across_dp_replicas_interval=None,
    )
    _set(getattr(config, "validation", None), eval_iters=0, eval_interval=job.steps + NEXT_STEPS + 1)
    _set(config.scheduler, lr_warmup_iters=0, lr_warmup_fraction=None, lr_decay_style="constant")
    _set(config.scheduler, lr_decay_iters=job.steps + NEXT_STEPS)
    _set(config.dataset, seq_length=shape.seq_length, blend=None, blend_per_split=None, num_workers=0)
    _set(config.tokenizer, tokenizer_type="NullTokenizer", tokenizer_model=None, vocab_size=shape.vocabulary)
    _set(config.logger, log_interval=1, tensorboard_dir=None, log_params_norm=False)
    _set(config.checkpoint, save=None, load=None, pretrained_checkpoint=None, async_save=False)
    for item in job.replaced:
        section, _, name = item.setting.partition(".")
        if section == "ddp" and "Bridge" not in item.why:
            _set(config.ddp, **{name: item.run_as})
    if job.precision == "bf16":
        config.mixed_precision = "bf16_mixed"
    config.comm_overlap = None
    return config


def without_fsdp(config: Any) -> Any:
    """The same config under plain DDP, with everything replicated."""
    _set(config.dist, use_megatron_fsdp=False)
    _set(
        config.ddp,
        use_megatron_fsdp=False,
        data_parallel_sharding_strategy="no_shard",
        use_distributed_optimizer=False,
        overlap_param_gather=False,
        fsdp_double_buffer=False,
    )
    _set(config.optimizer, use_distributed_optimizer=False, overlap_param_gather=False)
    _set(config.checkpoint, ckpt_format="torch_dist")
    return config


def _set(section: Any, **values: Any) -> None:
    """Set what the section has; releases and model families differ in the rest."""
    for name, value in values.items():
        if hasattr(section, name):
            setattr(section, name, value)


class Watch:
    """What Bridge's callbacks tell about one `pretrain`. Losses are means over all ranks."""

    def __init__(self, report: Report, name: str, *, measure_at: int) -> None:
        self.losses: list[float] = []
        self._norms: list[float] = []
        self._report, self._name, self._measure_at = report, name, measure_at
        self._before: list[tuple[float, float]] = []
        self._changed = self._tensors = self._peak = 0
        self._allocated = torch.cuda.memory_allocated()
        self._elements: dict[str, int] = {}
        self._started = time.perf_counter()
        self._seconds = 0.0

    def callback(self) -> Any:
        """An object for ``pretrain(callbacks=[...])``."""
        from megatron.bridge.training.callbacks import Callback

        watch = self

        class _Callback(Callback):  # type: ignore[misc]
            def on_train_start(self, context: Any) -> None:
                watch._before = mcore.fingerprints(context.optimizer)
                watch._started = time.perf_counter()

            def on_train_step_end(self, context: Any) -> None:
                watch._step(context)

        return _Callback()

    def _step(self, context: Any) -> None:
        if context.skipped_iter:
            raise RuntimeError("the optimizer skipped the step (gradients are not finite)")
        loss = context.loss_dict["lm loss"]
        self.losses.append(float(loss[0] if getattr(loss, "dim", lambda: 0)() else loss))
        self._norms.append(float(context.grad_norm or 0.0))
        self._report(f"{self._name} step {len(self.losses)}")
        if len(self.losses) == self._measure_at:
            after = mcore.fingerprints(context.optimizer)
            self._tensors = len(after)
            self._changed = sum(old != new for old, new in zip(self._before, after, strict=True))
            self._elements = mcore.local_elements(context.model[0], context.optimizer)
            self._peak = torch.cuda.max_memory_allocated() - self._allocated
            self._seconds = time.perf_counter() - self._started

    def measured(self, steps: int) -> Measured:
        """The first steps of this run."""
        return Measured(
            losses=tuple(self.losses[:steps]),
            gradient_norms=tuple(self._norms[:steps]),
            seconds=self._seconds,
            peak_bytes=self._peak,
            elements=self._elements,
            tensors=self._tensors,
            changed_tensors=self._changed,
        )
