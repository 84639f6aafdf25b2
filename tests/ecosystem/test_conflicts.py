"""The rules about conflicts against the published releases: their recipes, and their own validate()."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fsdp_migrate.conflicts import Known, judged
from fsdp_migrate.findings import Finding, Severity
from fsdp_migrate.judging import conflicts_of
from fsdp_migrate.registry import rules
from fsdp_migrate.trace import TracedRecipe, trace_targets

pytestmark = pytest.mark.ecosystem

Wheel = Callable[[str], Path]


@pytest.fixture(scope="module")
def judgements(wheel: Wheel) -> dict[str, tuple[TracedRecipe, list[Finding]]]:
    root = wheel("0.6.2") / "megatron" / "bridge"
    recipes = trace_targets([str(root / "recipes"), str(root / "perf_recipes")], release="")
    return {recipe.name: (recipe, list(conflicts_of(recipe, "0.6"))) for recipe in recipes if not recipe.reason}


def test_of_the_public_recipes_with_fsdp_one_is_refused_and_21_have_another_format(judgements) -> None:
    on = {name: found for name, (recipe, found) in judgements.items() if recipe.get("ddp.use_megatron_fsdp") is True}
    assert len(on) == 28
    errors = {name: [f.code for f in found if f.severity is Severity.ERROR] for name, found in on.items()}
    refused = {name: codes for name, codes in errors.items() if codes}
    assert refused == {"qwen35_vl_35b_a3b_sft_2gpu_h100_bf16_fsdp_config": ["FSDP102"]}
    assert Counter(f.code for found in on.values() for f in found)["FSDP102"] == 21


def test_25_public_recipes_would_trip_over_one_connection(judgements) -> None:
    hits = [name for name, (_, found) in judgements.items() if any(f.code == "FSDP110" for f in found)]
    assert len(hits) == 25
    assert all(judgements[name][0].get("ddp.use_megatron_fsdp") is not True for name in hits)


# ── validate() itself ───────────────────────────────────────────────────────────────────────────────────────────────

BASE: dict[str, object] = {
    "ddp.use_megatron_fsdp": True,
    "ddp.data_parallel_sharding_strategy": "optim_grads_params",
    "checkpoint.ckpt_format": "fsdp_dtensor",
    "checkpoint.save": "/checkpoints",
    "checkpoint.load": "/checkpoints",
}
DOMAIN: dict[str, tuple[object, ...]] = {
    "ddp.use_megatron_fsdp": (True, False),
    "ddp.data_parallel_sharding_strategy": ("optim_grads_params", "optim_grads", "optim", "no_shard", "zero3"),
    "ddp.average_in_collective": (False, True),
    "ddp.use_distributed_optimizer": (True, False),
    "ddp.nccl_ub": (False, True),
    "ddp.fsdp_manual_registration": (False, True),
    "ddp.outer_dp_sharding_strategy": ("no_shard", "optim"),
    "ddp.num_distributed_optimizer_instances": (1, 2),
    "ddp.overlap_param_gather": (False, True),
    "ddp.fsdp_double_buffer": (False, True),
    "ddp.grad_reduce_in_fp32": (True, False),
    "dist.use_megatron_fsdp": (False, True),
    "dist.use_torch_fsdp2": (False, True),
    "dist.use_tp_pp_dp_mapping": (False, True),
    "dist.use_gloo_process_groups": (True, False),
    "checkpoint.ckpt_format": ("fsdp_dtensor", "torch_dist", "torch_dcp"),
    "checkpoint.save": ("/checkpoints", None),
    "checkpoint.load": ("/checkpoints", None),
    "checkpoint.async_save": (False, True),
    "checkpoint.also_save_hf_checkpoint": (False, True),
    "optimizer.use_distributed_optimizer": (True, False),
    "optimizer.optimizer": ("adam", "sgd"),
    "model.gradient_accumulation_fusion": (False, True),
    "model.init_model_with_meta_device": (False, True),
    "model.pipeline_model_parallel_size": (1, 2),
    "model.tensor_model_parallel_size": (1, 2),
    "model.context_parallel_size": (1, 2),
    "train.check_weight_hash_across_dp_replicas_interval": (None, 10),
    "env_vars.CUDA_DEVICE_MAX_CONNECTIONS": ("8", "1"),
}
# Errors that validate() raises; the others come later, when the model or the optimizer is made.
RAISED = {"FSDP101", "FSDP102", "FSDP103", "FSDP104", "FSDP110", "FSDP111", "FSDP113", "FSDP114", "FSDP115", "FSDP116"}
# Fields that a release does not have yet.
MISSING = {"0.4": {"checkpoint.also_save_hf_checkpoint"}, "0.5": {"checkpoint.also_save_hf_checkpoint"}, "0.6": set()}


def combinations(release: str) -> list[dict[str, object]]:
    """Every pair of values of two settings, over a complete config."""
    domain = {path: values for path, values in DOMAIN.items() if path not in MISSING[release]}
    found: dict[str, dict[str, object]] = {}
    for (first, some), (second, others) in itertools.combinations(domain.items(), 2):
        for a, b in itertools.product(some, others):
            settings = {**BASE, first: a, second: b}
            found[json.dumps(settings, sort_keys=True)] = settings
    return list(found.values())


def without_fsdp(settings: dict[str, object]) -> dict[str, object]:
    off: dict[str, object] = {"ddp.use_megatron_fsdp": False, "dist.use_megatron_fsdp": False}
    return {**settings, **off, "checkpoint.ckpt_format": "torch_dist"}


def verdicts(bridge: Path, core: Path, asked: list[dict[str, object]]) -> list[str | None]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("bridge_validate.py"))],
        input="".join(json.dumps(settings) + "\n" for settings in asked),
        env={**os.environ, "PYTHONPATH": f"{core}{os.pathsep}{bridge}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def errors(settings: dict[str, object], release: str) -> Iterator[str]:
    known = {path: Known(value) for path, value in settings.items()}
    case = judged(known, release, complete=frozenset({"ddp", "dist", "checkpoint", "optimizer", "train", "model"}))
    assert case is not None
    for rule in rules():
        yield from (rule.code for draft in rule.check(case) if draft.severity is Severity.ERROR)


@pytest.mark.parametrize(
    ("release", "bridge", "core"), [("0.4", "0.4.2", "0.17.1"), ("0.5", "0.5.1", "0.18.0"), ("0.6", "0.6.2", "0.19.2")]
)
def test_errors_are_what_validate_refuses(wheel: Wheel, release: str, bridge: str, core: str) -> None:
    asked = combinations(release)
    bridge_root = wheel(bridge)
    core_root = unpacked_core(bridge_root.parent, core)
    real = verdicts(bridge_root, core_root, asked)
    plain = verdicts(bridge_root, core_root, [without_fsdp(settings) for settings in asked])
    assert len(real) == len(plain) == len(asked) > 1500
    wrong = []
    for settings, refusal, unrelated in zip(asked, real, plain, strict=True):
        raised = set(errors(settings, release)) & RAISED
        keeps = settings["checkpoint.save"] is not None or settings["checkpoint.load"] is not None
        if raised == {"FSDP101"} and not keeps:
            # A hole in validate(): the model's wrapping refuses it instead.
            continue
        missed = refusal is not None and unrelated is None and not raised
        if missed or (raised and refusal is None):
            changed = {path: value for path, value in settings.items() if BASE.get(path) != value}
            wrong.append((changed, sorted(raised), refusal))
    assert not wrong, f"{len(wrong)} of {len(asked)}, first {wrong[:5]}"
    assert sum(refusal is not None for refusal in real) > 300


def unpacked_core(folder: Path, release: str) -> Path:
    core = folder / f"megatron-core-{release}"
    if not core.is_dir():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--python-version", "3.12"]
        subprocess.run([*command, "--only-binary=:all:", f"megatron-core=={release}", "-d", str(folder)], check=True)
        [archive] = folder.glob(f"megatron_core-{release}-*.whl")
        with zipfile.ZipFile(archive) as wheel_file:
            wheel_file.extractall(core)
    return core
