"""Would the releases take this config as it stands? Rules on the recipe's own values, before anything is fitted.

Only what the run itself cannot show is here, because fitting replaces it or because the `mcore` backend has no such
part; the rest is judged by Megatron's own code. Sources: ``ConfigContainer.validate`` of megatron-bridge 0.6.2
(``training/config.py``), ``training/arguments.py`` of megatron-core 0.19, and what was seen on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """`applies` finds the fault; `message` names it and what to do about it."""

    applies: Callable[[Settings], bool]
    message: str


def fsdp_is_on(settings: Settings) -> bool:
    """Whether the recipe asks for Megatron FSDP, in either section."""
    return settings.get("ddp.use_megatron_fsdp") is True or settings.get("dist.use_megatron_fsdp") is True


def strategy(settings: Settings) -> Any:
    """The sharding strategy; the class default shards nothing."""
    return settings.get("ddp.data_parallel_sharding_strategy", "no_shard")


def _checkpoints(settings: Settings) -> bool:
    return any(settings.get(f"checkpoint.{name}") not in (None, "") for name in ("save", "load"))


RULES: tuple[Rule, ...] = (
    Rule(
        lambda s: s.get("ddp.use_megatron_fsdp") is not True,
        "the switch is on cfg.dist only, which releases without that field ignore: run `fsdp-migrate --write` first",
    ),
    Rule(
        lambda s: _checkpoints(s) and s.get("checkpoint.ckpt_format", "torch_dist") != "fsdp_dtensor",
        'Megatron FSDP saves and loads fsdp_dtensor only: set checkpoint.ckpt_format = "fsdp_dtensor"',
    ),
    Rule(
        lambda s: s.get("dist.use_torch_fsdp2") is True,
        "torch FSDP2 and Megatron FSDP exclude each other: set dist.use_torch_fsdp2 = False",
    ),
    Rule(
        lambda s: s.get("dist.use_tp_pp_dp_mapping") is True,
        "Megatron FSDP needs the tp-dp-pp rank order: set dist.use_tp_pp_dp_mapping = False",
    ),
    Rule(
        lambda s: (
            s.get("ddp.outer_dp_sharding_strategy", "no_shard") != "no_shard"
            and s.get("ddp.num_distributed_optimizer_instances", 1) == 1
        ),
        "outer sharding needs several optimizer instances: set ddp.num_distributed_optimizer_instances above 1, or "
        'ddp.outer_dp_sharding_strategy = "no_shard"',
    ),
    Rule(
        lambda s: (
            s.get("ddp.outer_dp_sharding_strategy", "no_shard") == "optim" and strategy(s) != "optim_grads_params"
        ),
        'outer sharding works with ddp.data_parallel_sharding_strategy = "optim_grads_params" only',
    ),
    Rule(
        lambda s: s.get("ddp.fsdp_manual_registration") is True and s.get("ddp.nccl_ub") is not True,
        "ddp.fsdp_manual_registration needs ddp.nccl_ub = True",
    ),
    Rule(
        lambda s: (
            strategy(s) == "optim_grads_params" and bool(s.get("train.check_weight_hash_across_dp_replicas_interval"))
        ),
        "sharded weights have no replicas to compare: set train.check_weight_hash_across_dp_replicas_interval = None",
    ),
    Rule(
        lambda s: str(s.get("env_vars.CUDA_DEVICE_MAX_CONNECTIONS", "")) == "1",
        "CUDA_DEVICE_MAX_CONNECTIONS=1 serialises FSDP's communication and is refused: take it out of env_vars",
    ),
    Rule(
        lambda s: s.get("optimizer.optimizer", "adam") not in ("adam", "sgd"),
        'Megatron FSDP knows the optimizers "adam" and "sgd" only: change optimizer.optimizer',
    ),
    Rule(
        lambda s: s.get("model.cuda_graph_impl") in ("transformer_engine", "local"),
        'layer-wise CUDA graphs do not go with FSDP\'s module hooks: set model.cuda_graph_impl = "none"',
    ),
    Rule(
        lambda s: s.get("checkpoint.also_save_hf_checkpoint") is True,
        "a Hugging Face copy cannot be saved from fsdp_dtensor: set checkpoint.also_save_hf_checkpoint = False",
    ),
    Rule(
        lambda s: s.get("model.init_model_with_meta_device") is True and strategy(s) == "no_shard",
        "a model made on the meta device needs sharded weights: set ddp.data_parallel_sharding_strategy",
    ),
    Rule(
        lambda s: s.get("model.overlap_moe_expert_parallel_comm") is True and s.get("ddp.fsdp_double_buffer") is True,
        "expert-parallel overlap excludes ddp.fsdp_double_buffer: set one of them to False",
    ),
)

NOTES: tuple[Rule, ...] = (
    Rule(
        lambda s: not _checkpoints(s) and s.get("checkpoint.ckpt_format", "torch_dist") != "fsdp_dtensor",
        'refused as soon as checkpoint.save or load is set: set checkpoint.ckpt_format = "fsdp_dtensor"',
    ),
    Rule(
        lambda s: strategy(s) == "no_shard",
        'nothing is sharded: set ddp.data_parallel_sharding_strategy = "optim_grads_params"',
    ),
    Rule(
        lambda s: s.get("ddp.grad_reduce_in_fp32") is True and s.get("ddp.megatron_fsdp_main_grads_dtype") is None,
        "megatron-core 0.19 does not read ddp.grad_reduce_in_fp32 under FSDP: set "
        "ddp.megatron_fsdp_main_grads_dtype = torch.float32 to keep fp32 gradients",
    ),
    Rule(
        lambda s: _checkpoints(s) and (s.get("model.pipeline_model_parallel_size") or 1) > 1,
        "fsdp_dtensor names weights by pipeline stage, so stages may load each other's: not checked here",
    ),
    Rule(
        lambda s: s.get("dist.use_megatron_fsdp") is True and s.get("ddp.use_megatron_fsdp") is True,
        "the switch is also still on cfg.dist: run `fsdp-migrate --write`",
    ),
)


def _holding(rules: Iterable[Rule], settings: Settings) -> tuple[str, ...]:
    return tuple(rule.message for rule in rules if rule.applies(settings))


def refusals(settings: Settings) -> tuple[str, ...]:
    """Why a release would stop on this config, or would ignore its switch."""
    return _holding(RULES, settings)


def notes(settings: Settings) -> tuple[str, ...]:
    """What a release accepts without a word and the author should know."""
    return _holding(NOTES, settings)
