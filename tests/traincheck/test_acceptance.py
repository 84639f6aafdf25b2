"""Rules on a recipe's own values."""

from __future__ import annotations

from typing import Any

import pytest

from fsdp_migrate.traincheck.acceptance import fsdp_is_on, notes, refusals

SOUND = {
    "ddp.use_megatron_fsdp": True,
    "ddp.data_parallel_sharding_strategy": "optim_grads_params",
    "checkpoint.ckpt_format": "fsdp_dtensor",
}


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"ddp.use_megatron_fsdp": False, "dist.use_megatron_fsdp": True}, "dist.use_megatron_fsdp only"),
        ({"checkpoint.save": "x", "checkpoint.ckpt_format": "torch_dist"}, "FSDP102"),
        ({"checkpoint.load": "x", "checkpoint.ckpt_format": "torch_dist"}, "ckpt_format"),
        ({"dist.use_torch_fsdp2": True}, "torch FSDP2"),
        ({"dist.use_tp_pp_dp_mapping": True}, "FSDP104"),
        ({"ddp.outer_dp_sharding_strategy": "optim"}, "num_distributed_optimizer_instances"),
        (
            {
                "ddp.outer_dp_sharding_strategy": "optim",
                "ddp.num_distributed_optimizer_instances": 4,
                "ddp.data_parallel_sharding_strategy": "optim",
            },
            "FSDP124",
        ),
        ({"ddp.fsdp_manual_registration": True}, "nccl_ub"),
        ({"train.check_weight_hash_across_dp_replicas_interval": 10}, "FSDP113"),
        ({"env_vars.CUDA_DEVICE_MAX_CONNECTIONS": 1}, "CUDA_DEVICE_MAX_CONNECTIONS"),
        ({"optimizer.optimizer": "muon"}, "adam and sgd"),
        ({"model.cuda_graph_impl": "local"}, "FSDP127"),
        ({"checkpoint.also_save_hf_checkpoint": True}, "FSDP116"),
        ({"model.overlap_moe_expert_parallel_comm": True, "ddp.fsdp_double_buffer": True}, "FSDP134"),
    ],
)
def test_refused(settings: dict[str, Any], part: str) -> None:
    [message] = refusals({**SOUND, **settings})
    assert part in message


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"checkpoint.save": "x", "checkpoint.ckpt_format": "fsdp_dtensor"},
        {"checkpoint.save": None, "checkpoint.load": None, "checkpoint.ckpt_format": "torch_dist"},
        {"ddp.outer_dp_sharding_strategy": "optim", "ddp.num_distributed_optimizer_instances": 4},
        {"ddp.fsdp_manual_registration": True, "ddp.nccl_ub": True},
        {"env_vars.CUDA_DEVICE_MAX_CONNECTIONS": 32},
        {
            "model.cuda_graph_impl": "full_iteration",
            "ddp.megatron_fsdp_cuda_graph_mode": True,
            "ddp.fsdp_all_gather_in_start_param_sync": False,
        },
        {"dist.use_megatron_fsdp": True},
    ],
)
def test_accepted(settings: dict[str, Any]) -> None:
    assert refusals({**SOUND, **settings}) == ()


def test_what_is_accepted_without_a_word_is_noted() -> None:
    assert any("nothing is sharded" in note for note in notes({"ddp.use_megatron_fsdp": True}))
    assert any("torch.float32" in note for note in notes({**SOUND, "ddp.grad_reduce_in_fp32": True}))
    assert any("as soon as" in note for note in notes({**SOUND, "checkpoint.ckpt_format": "torch_dist"}))
    assert notes(SOUND) == ()


@pytest.mark.parametrize(
    ("settings", "on"),
    [({}, False), ({"ddp.use_megatron_fsdp": False}, False), ({"dist.use_megatron_fsdp": True}, True), (SOUND, True)],
)
def test_fsdp_is_on(settings: dict[str, Any], on: bool) -> None:
    assert fsdp_is_on(settings) is on
