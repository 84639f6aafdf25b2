"""From the settings of a recipe to a `Job` that fits the machine. Pure; every replaced value is listed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fsdp_migrate.traincheck import acceptance
from fsdp_migrate.traincheck.job import Job, Recipe, Replacement, Shape


@dataclass(frozen=True, slots=True)
class Machine:
    """What a launch runs on: `ranks` processes, one per GPU, or gloo ranks when `backend` is ``rehearsal``.

    `transformer_engine` says whether it is installed; the `bridge` backend uses it then.
    """

    backend: str
    ranks: int
    transformer_engine: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for. None leaves a size to the plan."""

    steps: int = 8
    layers: int | None = None
    hidden: int | None = None
    seq_length: int | None = None
    micro_batch_size: int = 2
    baseline: bool = True
    checkpoint: bool = True


GPU_SHAPE = Shape(layers=2, hidden=512, heads=8, seq_length=256, vocabulary=8192)
CPU_SHAPE = Shape(layers=2, hidden=64, heads=4, seq_length=32, vocabulary=128)

OPTIMIZER_FIELDS = (
    "optimizer",
    "lr",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_eps",
    "sgd_momentum",
    "clip_grad",
)
"""Fields of ``OptimizerConfig`` that mean the same on a small model; the rest is about speed, memory or schedules."""

_NEEDS_MORE: Mapping[str, tuple[Any, str]] = {
    "outer_dp_sharding_strategy": ("no_shard", "outer (HSDP) sharding needs several groups of GPUs"),
    "num_distributed_optimizer_instances": (1, "outer (HSDP) sharding needs several groups of GPUs"),
    "nccl_ub": (False, "user buffers need NCCL's registration on the real fabric"),
    "fsdp_manual_registration": (False, "goes with nccl_ub"),
    "fp8_param_gather": (False, "precision is bf16 here"),
    "reuse_grad_buf_for_mxfp8_param_ag": (False, "precision is bf16 here"),
    "fp4_param_gather": (False, "precision is bf16 here"),
    "megatron_fsdp_cuda_graph_mode": (False, "no CUDA graphs here"),
    "delay_wgrad_compute": (False, "needs TransformerEngine"),
}
"""``ddp`` fields that cannot run on a small machine: what runs instead, and why."""


def fit(recipe: Recipe, machine: Machine, options: Options) -> Job:
    """The job of one recipe on one machine."""
    settings = recipe.settings
    replaced: list[Replacement] = []
    own_ddp = _section(settings, "ddp")
    ddp = _fit_ddp(own_ddp, replaced)
    optimizer = _fit_optimizer(settings, machine, replaced)
    precision = _fit_precision(recipe, machine, replaced)
    shape = _fit_shape(settings, machine, options, replaced)
    tensor_parallel = _fit_parallel(settings, machine, replaced)
    _note_unknown(recipe, replaced)
    if machine.backend == "rehearsal":
        _replace(ddp, "ddp", "gradient_reduce_div_fusion", False, "gloo cannot scale while it reduces", replaced)
    return Job(
        name=recipe.name,
        file=recipe.file,
        path=recipe.path,
        own_ddp=own_ddp,
        ddp=ddp,
        optimizer=optimizer,
        shape=shape,
        precision=precision,
        tensor_parallel=tensor_parallel,
        steps=options.steps,
        micro_batch_size=options.micro_batch_size,
        baseline=options.baseline,
        checkpoint=options.checkpoint,
        replaced=tuple(replaced),
        notes=acceptance.notes(settings, recipe.unknown),
        refusals=acceptance.refusals(settings, recipe.unknown),
    )


def _section(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    prefix = f"{name}."
    return {path.removeprefix(prefix): value for path, value in settings.items() if path.startswith(prefix)}


def _replace(section: dict[str, Any], name: str, field: str, value: Any, why: str, replaced: list[Replacement]) -> None:
    own = section.get(field)
    section[field] = value
    if own != value:
        replaced.append(Replacement(f"{name}.{field}", own, value, why))


def _fit_ddp(own: Mapping[str, Any], replaced: list[Replacement]) -> dict[str, Any]:
    ddp = dict(own)
    if ddp.get("nccl_ub") and not ddp.get("fsdp_double_buffer"):
        _replace(ddp, "ddp", "fsdp_double_buffer", True, "what nccl_ub switches on", replaced)
    for field, (value, why) in _NEEDS_MORE.items():
        if field in ddp:
            _replace(ddp, "ddp", field, value, why, replaced)
    if ddp.get("average_in_collective"):
        _replace(ddp, "ddp", "average_in_collective", False, "what Bridge does under FSDP", replaced)
    if ddp.get("use_distributed_optimizer") is not True:
        _replace(ddp, "ddp", "use_distributed_optimizer", True, "what Bridge does under FSDP", replaced)
    return ddp


def _fit_optimizer(settings: Mapping[str, Any], machine: Machine, replaced: list[Replacement]) -> dict[str, Any]:
    own = _section(settings, "optimizer")
    optimizer = {name: own[name] for name in OPTIMIZER_FIELDS if own.get(name) is not None}
    if "lr" not in optimizer:
        optimizer["lr"] = 1e-3
        replaced.append(Replacement("optimizer.lr", None, 1e-3, "not set by the recipe"))
    if own.get("use_precision_aware_optimizer"):
        why = "needs TransformerEngine's FusedAdam"
        replaced.append(Replacement("optimizer.use_precision_aware_optimizer", True, False, why))
    if not machine.transformer_engine:
        replaced.append(Replacement("optimizer", "FusedAdam", "torch AdamW", "TransformerEngine is not installed"))
    if settings.get("scheduler.lr_warmup_iters") or settings.get("scheduler.lr_warmup_fraction"):
        replaced.append(Replacement("scheduler", "warm-up and decay", "constant", "a few steps see the peak rate only"))
    optimizer.setdefault("optimizer", "adam")
    optimizer.setdefault("clip_grad", 1.0)
    return optimizer


def _fit_precision(recipe: Recipe, machine: Machine, replaced: list[Replacement]) -> str:
    run_as = "fp32" if machine.backend == "rehearsal" else "bf16"
    own = _own_precision(recipe)
    if own != run_as:
        why = "CPU ranks, so that parity can be exact" if run_as == "fp32" else "needs TransformerEngine"
        replaced.append(Replacement("mixed_precision", own, run_as, why))
    return run_as


def _own_precision(recipe: Recipe) -> str:
    """``bf16``, ``fp32``, ``fp16``, or the name of Bridge's precision recipe, such as ``bf16_with_mxfp8_mixed``."""
    settings = recipe.settings
    name = settings.get("mixed_precision") or recipe.unknown.get("mixed_precision")
    if isinstance(name, str):
        named = re.findall(r"\w*(?:mixed|bf16|fp16|fp32)\w*(?=\(\)|['\"]|$)", name)
        name = named[-1] if named else name
        return "bf16" if name in ("bf16_mixed", "bf16-mixed", "bf16") else name
    section = _section(settings, "mixed_precision")
    for low in ("fp8", "fp4"):
        if section.get(low):
            return f"{low} ({section.get(f'{low}_recipe') or section[low]})"
    for high in ("bf16", "fp16"):
        if section.get(high) or settings.get(f"model.{high}") or settings.get(f"optimizer.{high}"):
            return high
    return "fp32" if section.get("fp32") else "bf16"


def _fit_shape(settings: Mapping[str, Any], machine: Machine, options: Options, replaced: list[Replacement]) -> Shape:
    base = CPU_SHAPE if machine.backend == "rehearsal" else GPU_SHAPE
    own_layers = settings.get("model.num_layers")
    layers = options.layers or (min(base.layers, own_layers) if isinstance(own_layers, int) else base.layers)
    hidden = options.hidden or base.hidden
    shape = Shape(
        layers=layers,
        hidden=hidden,
        heads=_heads(hidden, base.heads),
        seq_length=options.seq_length or base.seq_length,
        vocabulary=base.vocabulary,
        gated=settings.get("model.gated_linear_unit") is True,
        per_token_loss=settings.get("model.calculate_per_token_loss") is True,
    )
    run = f"GPT, {shape.layers} layers, hidden {shape.hidden}, sequence {shape.seq_length}, {shape.vocabulary} tokens"
    local = machine.backend != "bridge" or not machine.transformer_engine
    why = "scaled down; Megatron-Core's local layers, no fusions" if local else "scaled down"
    replaced.append(Replacement("model", _own_model(settings), run, why))
    experts = settings.get("model.num_moe_experts")
    if experts:
        replaced.append(Replacement("model.num_moe_experts", experts, None, "dense layers here"))
    if settings.get("model.init_model_with_meta_device") is True:
        why = "the plain DDP run needs the same weights"
        replaced.append(Replacement("model.init_model_with_meta_device", True, False, why))
    return shape


def _heads(hidden: int, heads: int) -> int:
    """The most attention heads, at most `heads`, that divide the width."""
    return next(number for number in range(min(heads, hidden), 0, -1) if hidden % number == 0)


def _own_model(settings: Mapping[str, Any]) -> str | None:
    parts = {"layers": "num_layers", "hidden": "hidden_size", "sequence": "seq_length"}
    known = [f"{word} {settings[f'model.{name}']}" for word, name in parts.items() if f"model.{name}" in settings]
    return ", ".join(known) or None


def _fit_parallel(settings: Mapping[str, Any], machine: Machine, replaced: list[Replacement]) -> int:
    """The tensor-parallel size: the recipe's where it divides the ranks, else 1. Other sizes are 1."""
    tensor = settings.get("model.tensor_model_parallel_size") or 1
    fits = isinstance(tensor, int) and machine.ranks % tensor == 0
    run_as = tensor if fits else 1
    why = f"{machine.ranks} rank{'s' * (machine.ranks != 1)} here"
    if run_as != tensor:
        replaced.append(Replacement("model.tensor_model_parallel_size", tensor, run_as, why))
    for name in ("pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size"):
        own = settings.get(f"model.{name}") or 1
        if own != 1:
            replaced.append(Replacement(f"model.{name}", own, 1, why))
    if settings.get("model.sequence_parallel") is True:
        replaced.append(Replacement("model.sequence_parallel", True, False, "the local layers' norm cannot"))
    return int(run_as)


def _note_unknown(recipe: Recipe, replaced: list[Replacement]) -> None:
    for path in recipe.unknown:
        if path.startswith(("ddp.", "optimizer.")) and path.count(".") == 1:
            replaced.append(Replacement(path, "(not known without the libraries)", "default", "left out"))
