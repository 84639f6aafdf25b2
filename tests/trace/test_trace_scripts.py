"""Scripts: the config that is handed to `pretrain` or `finetune`, and what happens on the way to it."""

from __future__ import annotations

import sys

import pytest

from fsdp_migrate.trace import Setting, TraceError

SCRIPT = """
import argparse
import sys
from megatron.bridge.training.config import ConfigContainer
from megatron.bridge.training.pretrain import pretrain
from megatron.bridge.training.gpt_step import forward_step

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iters", type=int, required=True)
    return parser.parse_args()

def main():
    print("starting")
    args = parse()
    cfg = ConfigContainer()
    cfg.ddp.use_megatron_fsdp = True
    cfg.train.train_iters = args.iters
    pretrain(cfg, forward_step)
    cfg.ddp.use_megatron_fsdp = False

if __name__ == "__main__":
    main()
"""


def test_a_script_is_run_with_its_arguments(repository):
    recipe = repository.one(SCRIPT, script_arguments=["--iters", "7"])
    assert (recipe.name, recipe.line) == ("recipe.py", 19)
    assert (recipe["train.train_iters"], recipe["ddp.use_megatron_fsdp"]) == (7, True)


def test_a_script_that_leaves_says_why(repository):
    recipe = repository.one(SCRIPT)
    assert recipe.reason == "called sys.exit(2): recipe.py: error: the following arguments are required: --iters"


def test_a_script_that_fails_after_the_call_has_a_config(repository):
    recipe = repository.one(
        SCRIPT.replace("cfg.ddp.use_megatron_fsdp = False", "1 / 0"), script_arguments=["--iters=1"]
    )
    assert recipe["ddp.use_megatron_fsdp"] is True


def test_every_call_is_a_recipe(repository):
    repository.write(
        {
            "two.py": """
                from megatron.bridge.training.config import ConfigContainer
                from megatron.bridge.training.finetune import finetune

                for size in (1, 2):
                    finetune(config=ConfigContainer(train=size), forward_step_func=None)
            """
        }
    )
    first, second = repository.trace("two.py")
    assert [(recipe.name, recipe["train"]) for recipe in (first, second)] == [("two.py#1", 1), ("two.py#2", 2)]


def test_a_script_without_a_call(repository):
    recipe = repository.one("from x import pretrain\nif __name__ == '__main__':\n    f = lambda: pretrain(1)\n")
    assert recipe.reason == "ended without calling pretrain() or finetune()"


def test_recipes_in_a_script_are_found_too(repository):
    repository.write(
        {
            "script.py": """
                from megatron.bridge.training.config import ConfigContainer
                from megatron.bridge.training.pretrain import pretrain

                def small_config():
                    return ConfigContainer(train=1)

                if __name__ == "__main__":
                    pretrain(small_config(), None)
            """
        }
    )
    assert [recipe.name for recipe in repository.trace("script.py")] == ["script.py", "small_config"]


OVERRIDING = """
from omegaconf import OmegaConf
from megatron.bridge.training.config import ConfigContainer
from megatron.bridge.training.pretrain import pretrain
from megatron.bridge.training.utils.omegaconf_utils import *
import sys

cfg = ConfigContainer(train=1)
"""


@pytest.mark.parametrize(
    "lines",
    [
        "process_config_with_overrides(cfg, config_filepath=sys.argv[1], cli_overrides=sys.argv[2:])",
        """
merged, excluded = create_omegaconf_dict_config(cfg)
merged = OmegaConf.merge(merged, OmegaConf.load(sys.argv[1]))
merged = parse_hydra_overrides(merged, sys.argv[2:])
apply_overrides(cfg, OmegaConf.to_container(merged, resolve=True), excluded)
""",
    ],
    ids=["in one call", "step by step"],
)
def test_the_overrides_of_a_script_are_laid_over(repository, lines):
    pytest.importorskip("yaml")
    repository.write(
        {
            "recipe.py": OVERRIDING + lines + "\npretrain(config=cfg, forward_step_func=None)\n",
            "conf/over.yaml": "ddp:\n  use_megatron_fsdp: false\n  x: [1, 2]\n",
        }
    )
    file = repository.root / "conf" / "over.yaml"
    recipe = repository.trace("recipe.py", script_arguments=[str(file), "ddp.use_megatron_fsdp=true", "+train=2"])[0]
    assert recipe.reason == ""
    assert {s.path: s.value for s in recipe.settings} == {"train": 2, "ddp.use_megatron_fsdp": True, "ddp.x": [1, 2]}
    assert recipe.setting("ddp.x").place == "conf/over.yaml:3"
    assert recipe.setting("ddp.use_megatron_fsdp").overridden == (
        Setting("ddp.use_megatron_fsdp", False, "conf/over.yaml", 2),
    )


SIMPLE = "import torch\ndef my_config():\n    return torch.ConfigContainer(env_vars={'a': 1}, train=torch.Train(x=1))\n"


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["train.x=2", "+train.y=text", "++train.z=null"], {"train.x": 2, "train.y": "text", "train.z": None}),
        (["~train.x"], {"train.x": 1}),
        (["train.x=[1, 'b c', {k: 1.5}]"], {"train.x": [1, "b c", {"k": 1.5}]}),
        (["train={x: 3, y: true}"], {"train.x": 3, "train.y": True}),
        (["env_vars.b=1e-4"], {"env_vars": {"a": 1, "b": 0.0001}, "train.x": 1}),
        (["train.x=1", "train.x=a b/c.d-e:f"], {"train.x": "a b/c.d-e:f"}),
        (["train.x=a\\,b", "train.y=07", "train.z=1_000"], {"train.x": "a,b", "train.y": "07", "train.z": 1000}),
        (["train.x='1'", 'train.y="a,b"', "train.z=TRUE"], {"train.x": "1", "train.y": "a,b", "train.z": True}),
        (["train.x=''"], {"train.x": ""}),
        (["train.x=[]", "train.y={}"], {"train.x": [], "train.y": {}}),
    ],
)
def test_override_words(repository, words, values):
    recipe = repository.one(SIMPLE, overrides=words)
    found = {setting.path: setting.value for setting in recipe.settings}
    assert found == {"env_vars": {"a": 1}, "train.x": 1} | values


@pytest.mark.parametrize(
    "word", ["train.x", "=1", "train.x=[1", "train.x='a", "train.x={a}", "1a=2", "x=a,b", "x=a=b", "x=int(3)"]
)
def test_bad_override_words(repository, word):
    with pytest.raises(TraceError, match=r"is not|lacks|is a sweep"):
        repository.one(SIMPLE, overrides=[word])


def test_override_files(repository):
    pytest.importorskip("yaml")
    repository.write(
        {
            "a.yaml": "base: &base\n  x: 5\ntrain:\n  <<: *base\n  lr: 1e-4\n  day: 2020-01-01\n",
            "b.yaml": "train.x: 6\nddp: null\n",
        }
    )
    files = [repository.root / name for name in ("a.yaml", "b.yaml")]
    recipe = repository.one(SIMPLE, override_files=files, overrides=["train.lr=1"])
    assert (recipe["train.x"], recipe["train.lr"], recipe["train.day"], recipe["ddp"]) == (6, 1, "2020-01-01", None)
    assert recipe.setting("train.x").place.endswith("b.yaml:1")


@pytest.mark.parametrize("text", ["- a list\n", "a: [1\n", "\x00"])
def test_bad_override_files(repository, text):
    pytest.importorskip("yaml")
    repository.write({"bad.yaml": text})
    with pytest.raises(TraceError, match=r"bad\.yaml"):
        repository.one(SIMPLE, override_files=[repository.root / "bad.yaml"])


def test_without_a_yaml_library_the_message_says_what_to_install(repository, monkeypatch):
    repository.write({"a.yaml": "train: 1\n"})
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(TraceError, match="pip install pyyaml"):
        repository.one(SIMPLE, override_files=[repository.root / "a.yaml"])
