"""From settings to a job: what runs, what is replaced, and that it is told."""

from __future__ import annotations

from typing import Any

import pytest

from fsdp_migrate.traincheck.job import Job, Recipe
from fsdp_migrate.traincheck.plan import Machine, Options, fit

ON = {"ddp.use_megatron_fsdp": True, "ddp.use_distributed_optimizer": True, "optimizer.lr": 1e-3}
ONE_GPU, TWO_GPUS, CPU = Machine("mcore", 1), Machine("mcore", 2), Machine("rehearsal", 2)


def fitted(settings: dict[str, Any], machine: Machine = ONE_GPU, options: Options | None = None, **more: Any) -> Job:
    return fit(Recipe("recipe", "recipe.py", {**ON, **settings}, **more), machine, options or Options())


def replaced(job: Job) -> dict[str, tuple[Any, Any]]:
    return {item.setting: (item.own, item.run_as) for item in job.replaced}


@pytest.mark.parametrize(
    ("settings", "setting", "own", "run_as"),
    [
        ({"ddp.outer_dp_sharding_strategy": "optim"}, "ddp.outer_dp_sharding_strategy", "optim", "no_shard"),
        ({"ddp.num_distributed_optimizer_instances": 4}, "ddp.num_distributed_optimizer_instances", 4, 1),
        ({"ddp.nccl_ub": True}, "ddp.nccl_ub", True, False),
        ({"ddp.nccl_ub": True}, "ddp.fsdp_double_buffer", None, True),
        ({"ddp.average_in_collective": True}, "ddp.average_in_collective", True, False),
        ({"ddp.use_distributed_optimizer": False}, "ddp.use_distributed_optimizer", False, True),
        ({"ddp.fp8_param_gather": True}, "ddp.fp8_param_gather", True, False),
        ({"model.tensor_model_parallel_size": 8}, "model.tensor_model_parallel_size", 8, 1),
        ({"model.pipeline_model_parallel_size": 2}, "model.pipeline_model_parallel_size", 2, 1),
        ({"model.expert_model_parallel_size": 64}, "model.expert_model_parallel_size", 64, 1),
        ({"model.sequence_parallel": True}, "model.sequence_parallel", True, False),
        ({"model.num_moe_experts": 128}, "model.num_moe_experts", 128, None),
        ({"model.init_model_with_meta_device": True}, "model.init_model_with_meta_device", True, False),
        ({"mixed_precision": "bf16_with_mxfp8_mixed"}, "mixed_precision", "bf16_with_mxfp8_mixed", "bf16"),
        ({"mixed_precision.fp8": "hybrid"}, "mixed_precision", "fp8 (hybrid)", "bf16"),
        (
            {"optimizer.use_precision_aware_optimizer": True},
            "optimizer.use_precision_aware_optimizer",
            True,
            False,
        ),
    ],
)
def test_what_does_not_fit_is_replaced_and_told(settings: dict[str, Any], setting: str, own: Any, run_as: Any) -> None:
    job = fitted(settings)
    assert replaced(job)[setting] == (own, run_as)
    assert {f"ddp.{name}" for name in job.own_ddp} <= {*ON, *settings}
    if setting.startswith("ddp."):
        assert job.ddp[setting.removeprefix("ddp.")] == run_as


@pytest.mark.parametrize(
    "settings",
    [
        {"ddp.outer_dp_sharding_strategy": "no_shard"},
        {"ddp.suggested_communication_unit_size": 800_000_000},
        {"ddp.megatron_fsdp_main_params_dtype": "torch.float32"},
        {"mixed_precision": "bf16_mixed"},
        {"model.tensor_model_parallel_size": 1},
    ],
)
def test_what_fits_runs_as_it_is(settings: dict[str, Any]) -> None:
    job = fitted(settings)
    assert replaced(job).keys() == {"model", "optimizer"}
    assert dict(job.ddp) == dict(job.own_ddp)


def test_tensor_parallelism_is_kept_where_it_divides_the_ranks() -> None:
    assert fitted({"model.tensor_model_parallel_size": 2}, TWO_GPUS).tensor_parallel == 2
    assert fitted({"model.tensor_model_parallel_size": 2}, Machine("mcore", 3)).tensor_parallel == 1


@pytest.mark.parametrize(
    ("expression", "own"),
    [
        ("megatron.bridge.training.mixed_precision.bf16_with_mxfp8_mixed()", "bf16_with_mxfp8_mixed"),
        ("megatron.bridge.training.mixed_precision.get_mixed_precision_config('bf16_mixed')", None),
        ("megatron.bridge.training.mixed_precision.bf16_mixed()", None),
    ],
)
def test_precision_is_read_from_the_expression_that_makes_it(expression: str, own: str | None) -> None:
    job = fitted({}, unknown={"mixed_precision": expression})
    assert replaced(job).get("mixed_precision", (None,))[0] == own


def test_a_rehearsal_runs_in_fp32_and_says_so() -> None:
    job = fitted({}, CPU)
    assert job.precision == "fp32"
    assert replaced(job)["mixed_precision"] == ("bf16", "fp32")
    assert replaced(job)["ddp.gradient_reduce_div_fusion"] == (None, False)


def test_sizes_that_were_asked_for() -> None:
    shape = fitted({"model.num_layers": 80}, options=Options(layers=3, hidden=96, seq_length=64)).shape
    assert (shape.layers, shape.hidden, shape.heads, shape.seq_length) == (3, 96, 8, 64)


def test_a_model_is_never_made_deeper() -> None:
    assert fitted({"model.num_layers": 1}).shape.layers == 1


def test_an_unknown_setting_is_told() -> None:
    job = fitted({}, unknown={"ddp.bucket_size": "size()"})
    assert replaced(job)["ddp.bucket_size"][1] == "default"


def test_a_job_travels_as_json() -> None:
    job = fitted({"ddp.nccl_ub": True})
    assert Job.from_json(job.to_json()) == job
