"""The public recipes of the Megatron-Bridge wheels."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from fsdp_migrate.trace import Status, TraceError, Unknown, compare, public_recipe, trace_targets, verify
from fsdp_migrate.trace.generate_data import facts
from fsdp_migrate.trace.public import _read as recorded

pytestmark = pytest.mark.ecosystem

FSDP_ON = {
    "deepseek_v3_pretrain_128gpu_gb300_fp8mx_hsdp_config",
    "deepseek_v3_pretrain_64gpu_gb300_bf16_fsdp_config",
    "deepseek_v3_pretrain_64gpu_gb300_fp8mx_fsdp_config",
    "llama31_405b_pretrain_128gpu_b300_bf16_config",
    "llama31_405b_pretrain_128gpu_gb300_bf16_config",
    "llama31_405b_pretrain_256gpu_b300_bf16_config",
    "llama31_405b_pretrain_256gpu_gb300_bf16_config",
    "llama31_405b_pretrain_256gpu_vr200_bf16_config",
    "llama3_70b_pretrain_32gpu_gb200_bf16_config",
    "llama3_70b_pretrain_32gpu_gb200_fp8cs_config",
    "llama3_70b_pretrain_32gpu_gb300_bf16_config",
    "llama3_70b_pretrain_32gpu_gb300_fp8cs_config",
    "llama3_70b_pretrain_64gpu_b200_fp8cs_config",
    "llama3_70b_pretrain_64gpu_b300_bf16_config",
    "llama3_70b_pretrain_64gpu_b300_fp8cs_config",
    "llama3_70b_pretrain_64gpu_gb200_bf16_config",
    "llama3_70b_pretrain_64gpu_gb200_fp8cs_config",
    "llama3_70b_pretrain_64gpu_gb300_bf16_config",
    "llama3_70b_pretrain_64gpu_gb300_fp8cs_config",
    "llama3_70b_pretrain_64gpu_vr200_bf16_config",
    "nemotron_3_5_lightning_pretrain_8gpu_gb200_fp8mx_fsdp_config",
    "nemotron_3_5_lightning_pretrain_8gpu_gb300_fp8mx_fsdp_config",
    "nemotron_3_5_lightning_pretrain_8k_fsdp_config",
    "nemotron_3_ultra_pretrain_256gpu_gb200_fp8mx_config",
    "nemotron_3_ultra_pretrain_256gpu_gb200_nvfp4_config",
    "nemotron_3_ultra_pretrain_256gpu_gb300_fp8mx_config",
    "nemotron_3_ultra_pretrain_256gpu_gb300_nvfp4_config",
    "qwen35_vl_35b_a3b_sft_2gpu_h100_bf16_fsdp_config",
}


def recipes_of(wheel: Path):
    folders = [wheel / "megatron" / "bridge" / name for name in ("recipes", "perf_recipes")]
    return trace_targets([str(folder) for folder in folders if folder.is_dir()], release="", project_root=wheel)


@pytest.fixture(scope="module")
def newest(wheel):
    return recipes_of(wheel("0.6.2"))


def is_on(recipe) -> bool:
    return any(recipe.get(f"{section}.use_megatron_fsdp") is True for section in ("dist", "ddp"))


@pytest.mark.parametrize(
    ("release", "count", "explained"),
    [
        (
            "0.3.0",
            117,
            {
                "llama3_8b_low_precision_pretrain_config": "needs the argument mixed_precision_recipe",
                "moonlight_16b_finetune_config": "TypeError: _moonlight_finetune_common() missing 1 required",
                "olmoe_7b_finetune_config": "TypeError: _olmoe_finetune_common() missing 1 required",
            },
        ),
        (
            "0.3.1",
            160,
            {
                "llama3_8b_low_precision_pretrain_config": "needs the argument mixed_precision_recipe",
                "qwen3_next_80b_a3b_peft_config": "NotImplementedError: PEFT is not currently supported",
            },
        ),
        (
            "0.4.2",
            208,
            {
                "llama3_8b_low_precision_pretrain_config": "needs the argument mixed_precision_recipe",
                "qwen3_next_80b_a3b_peft_config": "NotImplementedError: PEFT is not currently supported",
            },
        ),
        (
            "0.5.1",
            234,
            {
                "llama3_8b_low_precision_pretrain_config": "needs the argument mixed_precision_recipe",
                "qwen3_next_80b_a3b_peft_config": "NotImplementedError: PEFT is not currently supported",
            },
        ),
        (
            "0.6.2",
            742,
            {"qwen3_next_80b_a3b_peft_1gpu_h100_bf16_config": "NotImplementedError: PEFT is not currently supported"},
        ),
    ],
)
def test_every_public_recipe_is_evaluated_or_explained(wheel, release, count, explained):
    recipes = recipes_of(wheel(release))
    assert len(recipes) == count
    reasons = {recipe.name: recipe.reason for recipe in recipes if recipe.reason}
    assert reasons.keys() == explained.keys()
    for name, reason in explained.items():
        assert reasons[name].startswith(reason)


def test_the_recipes_that_turn_fsdp_on(newest):
    assert {recipe.name for recipe in newest if is_on(recipe)} == FSDP_ON


def test_known_values(newest):
    on = [recipe for recipe in newest if is_on(recipe)]
    assert sum(recipe.get("dist.use_megatron_fsdp") is True for recipe in on) == 3
    assert all(recipe["ddp.use_megatron_fsdp"] is True for recipe in on)
    assert sum(recipe.get("checkpoint.ckpt_format") == "torch_dist" for recipe in on) == 21
    assert sum(recipe.get("ddp.outer_dp_sharding_strategy") == "optim" for recipe in on) == 5
    variables = [recipe.get("env_vars") for recipe in newest]
    connections = [v.get("CUDA_DEVICE_MAX_CONNECTIONS") for v in variables if isinstance(v, dict)]
    assert sum(str(value) == "1" for value in connections) == 25
    [qwen] = [recipe for recipe in on if recipe.name.startswith("qwen35_vl")]
    assert qwen["ddp.average_in_collective"] is True


def test_a_trace_equals_itself(wheel, newest):
    verdicts = compare(newest, recipes_of(wheel("0.6.2")))
    assert {c.status for c in verdicts} == {Status.UNCHANGED, Status.NOT_VERIFIED}


@pytest.mark.parametrize(("on", "expected"), [(b"True", Status.MOVED), (b"False", Status.DIFFERENT)])
def test_a_move_by_hand_is_verified(wheel, on, expected):
    """The three recipes that set both flags lose the old one; the second time FSDP is switched off with it."""
    root = wheel("0.6.2")
    changed = {}
    for file in (root / "megatron" / "bridge").rglob("nemotron*.py"):
        source = file.read_bytes()
        if b"dist.use_megatron_fsdp" in source and {"recipes", "perf_recipes"} & {*file.parts}:
            lines = [line for line in source.splitlines(keepends=True) if b"dist.use_megatron_fsdp" not in line]
            changed[file] = b"".join(lines).replace(b"ddp.use_megatron_fsdp = True", b"ddp.use_megatron_fsdp = " + on)
    verdicts = verify(changed, root, release="")
    assert {c.name for c in verdicts if c.status is expected} == {
        "nemotron_3_5_lightning_pretrain_8gpu_gb200_fp8mx_fsdp_config",
        "nemotron_3_5_lightning_pretrain_8gpu_gb300_fp8mx_fsdp_config",
        "nemotron_3_5_lightning_pretrain_8k_fsdp_config",
    }
    assert {c.status for c in verdicts} == {expected, Status.UNCHANGED, Status.NOT_VERIFIED}


@pytest.mark.parametrize("release", ["0.3.0", "0.3.1", "0.4.2", "0.5.1", "0.6.2"])
def test_the_data_files_are_what_the_wheels_say(wheel, release):
    assert facts(wheel(release)) == recorded(release)


def test_public_recipes_agree_with_the_trace(newest):
    for recipe in newest:
        module = recipe.file.removesuffix(".py").replace("/", ".")
        if not recipe.reason and (known := public_recipe(module, recipe.name, "0.6.2")):
            assert all(recipe[path] == value for path, value in known.settings.items())


def test_stand_ins_agree_with_the_real_classes(wheel, request, monkeypatch):
    """Needs torch and what Bridge imports; the wheels themselves need no installation."""
    bridge = wheel("0.6.2")
    core = bridge.parent / "megatron-core-0.19.2"
    if not core.is_dir():
        archive = _download(bridge.parent, "megatron-core==0.19.2")
        with zipfile.ZipFile(archive) as wheel_file:
            wheel_file.extractall(core)
    monkeypatch.setattr(sys, "path", [str(core), str(bridge), *sys.path])
    folder = bridge / "megatron" / "bridge" / "perf_recipes" / "llama"
    try:
        real = trace_targets([str(folder)], release="", project_root=bridge, real=True, timeout=300)
    except TraceError as error:
        pytest.skip(str(error))
    traced = trace_targets([str(folder)], release="", project_root=bridge)
    assert [recipe.name for recipe in traced] == [recipe.name for recipe in real]
    compared = 0
    for ours, theirs in zip(traced, real, strict=True):
        assert (ours.reason, theirs.reason) == ("", "")
        for setting in ours.settings:
            if setting.path.startswith(("ddp.", "dist.", "checkpoint.")) and not isinstance(setting.value, Unknown):
                assert theirs[setting.path] == setting.value, (ours.name, setting)
                compared += 1
    assert compared > 1000


def _download(folder: Path, requirement: str) -> Path:
    import subprocess

    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--python-version", "3.12"]
    subprocess.run([*command, "--only-binary=:all:", requirement, "-d", str(folder)], check=True)
    [archive] = folder.glob(f"{requirement.replace('-', '_').replace('==', '-')}-*.whl")
    return archive
