"""What is known about public recipes, and the files it is kept in."""

from __future__ import annotations

import json

import pytest

from fsdp_migrate.trace import public_recipe
from fsdp_migrate.trace.public import DATA, known_release

LLAMA = ("megatron.bridge.recipes.llama", "llama3_8b_pretrain_config")


@pytest.mark.parametrize(
    ("release", "known"),
    [
        ("0.6", "0.6.2"),
        ("0.6.2", "0.6.2"),
        ("0.6.1", "0.6.2"),
        ("v0.5.0", "0.5.1"),
        ("0.3", "0.3.1"),
        ("0.3.0", "0.3.0"),
        ("main", "0.6.2"),
        ("9.9", None),
        ("", None),
    ],
)
def test_releases(release, known):
    assert known_release(release) == known


def test_a_known_recipe():
    recipe = public_recipe(*LLAMA, "0.6")
    assert recipe.release == "0.6.2"
    assert recipe.settings["ddp.data_parallel_sharding_strategy"] == "no_shard"
    assert recipe.settings["checkpoint.ckpt_format"] == "torch_dist"
    assert {path.partition(".")[0] for path in recipe.settings} <= {"ddp", "dist", "checkpoint"}


def test_what_is_not_known():
    assert public_recipe(*LLAMA, "1.0") is None
    assert public_recipe(LLAMA[0], "no_such_config", "0.6") is None


def test_a_recipe_that_sets_both_flags():
    name = "deepseek_v3_pretrain_64gpu_gb300_bf16_fsdp_config"
    recipe = public_recipe("megatron.bridge.perf_recipes.deepseek", name, "0.6")
    assert recipe.settings["ddp.use_megatron_fsdp"] is True


def test_the_files_are_small_and_hold_facts_only():
    files = sorted(DATA.glob("*.json"))
    assert [file.stem for file in files] == ["0.3.0", "0.3.1", "0.4.2", "0.5.1", "0.6.2"]
    assert sum(file.stat().st_size for file in files) < 150_000
    for file in files:
        data = json.loads(file.read_text())
        assert data.keys() == {"release", "sections", "sets", "recipes"}
        assert all(
            isinstance(v, (bool, int, float, str, type(None), list, dict)) for s in data["sections"] for v in s.values()
        )
