"""What a trace says about recipes: values, places, what counts as a recipe, and what cannot be evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdp_migrate.trace import TraceError, Unknown, trace_targets

HEAD = "from megatron.bridge.training.config import CheckpointConfig, ConfigContainer, DistributedInitConfig\n"


def test_settings_have_the_place_that_set_them_last(repository):
    repository.write(
        {
            "common.py": HEAD
            + """
def base():
    return ConfigContainer(
        checkpoint=CheckpointConfig(
            ckpt_format="torch_dist",
        ),
    )
""",
            "recipe.py": """
                from common import base

                def my_config():
                    cfg = base()
                    cfg.checkpoint.ckpt_format = "fsdp_dtensor"
                    cfg.ddp.use_megatron_fsdp = True
                    return cfg
            """,
        }
    )
    [recipe] = repository.trace("recipe.py")
    assert (recipe.name, recipe.file, recipe.line) == ("my_config", "recipe.py", 4)
    setting = recipe.setting("checkpoint.ckpt_format")
    assert (setting.value, setting.place) == ("fsdp_dtensor", "recipe.py:6")
    [overridden] = setting.overridden
    assert overridden.value == "torch_dist"
    assert overridden.file == "common.py"
    assert recipe["ddp.use_megatron_fsdp"] is True
    assert {"", "checkpoint"} <= {*recipe.made}


def test_a_rebound_section_overrides_what_the_old_one_held(repository):
    recipe = repository.one(
        HEAD
        + """
def my_config():
    cfg = ConfigContainer(checkpoint=CheckpointConfig(save="a", load="b"))
    cfg.checkpoint = CheckpointConfig(save="c")
    return cfg
"""
    )
    assert recipe["checkpoint.save"] == "c"
    assert [old.value for old in recipe.setting("checkpoint.save").overridden] == ["a"]
    assert recipe.get("checkpoint.load", "absent") == "absent"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("torch.bfloat16", Unknown("torch.bfloat16")),
        ("[torch.float32, 1]", [Unknown("torch.float32"), 1]),
        ("{'a': (1, 2)}", {"a": [1, 2]}),
        ("float(torch.x)", Unknown("float(torch.x)")),
        ("int(torch.x) + 1", Unknown("(int(torch.x) + 1)")),
        ("float('2.5')", 2.5),
        ("2 * torch.cuda.device_count()", Unknown("(2 * torch.cuda.device_count())")),
        ("f'run_{torch.x}'", Unknown("run_<torch.x>")),
        ("str(torch.x).upper()", Unknown("<TORCH.X>")),
        ("math.ceil(torch.x / 3)", Unknown("ceil((torch.x / 3))")),
        ("torch.f(1, key='v')", Unknown("torch.f(1, key='v')")),
        ("-torch.x", Unknown("-torch.x")),
        ("torch.x[0].y", Unknown("torch.x[0].y")),
        ("Path('a') / 'b'", "a/b"),
        ("os.path.join(os.getcwd(), 'runs')", "./runs"),
        ("Color.RED", "Color.RED"),
        ("{3, 1}", [1, 3]),
        ("float('nan')", Unknown("float('nan')")),
        ("lambda: 1", Unknown("my_config.<locals>.<lambda>")),
        ("torch.x == 1", Unknown("(torch.x == 1)")),
        ("b'x'", Unknown("b'x'")),
        ("isinstance('lora', (str, torch.PEFT))", True),
        ("isinstance(torch.PEFT(), torch.PEFT)", True),
        ("isinstance(1, torch.PEFT)", False),
    ],
)
def test_values(repository, expression, value):
    recipe = repository.one(
        f"""
        import enum, math, os
        from pathlib import Path
        import torch

        class Color(enum.Enum):
            RED = 1

        def my_config():
            cfg = torch.ConfigContainer()
            cfg.train.value = {expression}
            return cfg
        """
    )
    assert recipe.reason == ""
    assert recipe["train.value"] == value


def test_recipes_that_ask_everything_of_unknown_values(repository):
    recipe = repository.one(
        """
        import contextlib, copy, dataclasses, functools, typing
        import torch
        from torch import *
        from torch.somewhere import Base, Mixin, SomeError, decorate, make, Thing

        T = typing.Optional[Base]

        @dataclasses.dataclass
        class Config(Base, Mixin):
            own: int = 3
            thing: Thing = dataclasses.field(default_factory=Thing)

        class Failure(SomeError):
            pass

        @decorate
        @decorate(option=1)
        def helper(x: Base | None, *, y: "Thing[int]" = None) -> typing.Union[Base, str]:
            return x

        @contextlib.contextmanager
        def manager():
            with make() as inner:
                yield inner

        def my_config():
            cfg = Config(model=None, train=Thing(a=1))
            first, second = make()
            head, *rest = make()
            for _ in make():
                raise AssertionError
            with manager(), Thing():
                pass
            try:
                raise Failure("expected")
            except SomeError:
                pass
            cfg.optimizer = dataclasses.replace(first, lr=1.0)
            cfg.scheduler = copy.deepcopy(Thing(a=2))
            cfg.train.b = helper(4)
            cfg.train["c"] = 5
            cfg.train.d = functools.partial(make, 1)
            cfg.train.e = len([*make()])
            cfg.train.f = starred_name.attribute
            cfg.train.g = sorted(make(), key=make)
            cfg.train.h = dict(make())
            cfg.train.i = "x" in make()
            cfg.train.j = next(make(), "default")
            return cfg
        """
    )
    assert recipe.reason == ""
    assert recipe["own"] == 3
    assert recipe["optimizer.lr"] == 1.0
    assert recipe["optimizer"] == Unknown("torch.somewhere.make()[0]")
    assert recipe["scheduler.a"] == 2
    assert [recipe[f"train.{name}"] for name in "abceghij"] == [1, 4, 5, 0, [], {}, False, "default"]
    assert recipe["train.f"] == Unknown("torch.starred_name.attribute")
    assert any("taken as empty" in assumption.text for assumption in recipe.assumptions)


def test_classes_over_an_absent_base(repository):
    recipe = repository.one(
        """
        import random
        from dataclasses import dataclass
        from megatron.bridge.training.config import ConfigContainer
        from megatron.bridge.recipes.llama import llama3_8b_pretrain_config

        @dataclass(kw_only=True)
        class Checked(ConfigContainer):
            own: int = 1

            def __post_init__(self):
                super().__post_init__()
                self.train.seen = True
                self.validate()

            def validate(self):
                super().validate()
                return super().finalize(self.own)

        class Plain(ConfigContainer):
            def __init__(self, size, **fields):
                super().__init__(**fields)
                self.size = size

            @property
            def double(self):
                return 2 * self.size

        def my_config():
            base = llama3_8b_pretrain_config()
            assert isinstance(base, ConfigContainer)
            random.seed(base.rng.seed)
            cfg = Plain(3, model=None)
            assert isinstance(cfg, ConfigContainer)
            cfg.train = Checked(checkpoint=4)
            cfg.rng.seed = cfg.double
            return cfg
        """
    )
    assert recipe.reason == ""
    assert {s.path: s.value for s in recipe.settings} == {
        "model": None,
        "size": 3,
        "train.checkpoint": 4,
        "train.own": 1,
        "train.train.seen": True,
        "rng.seed": 6,
    }


def test_a_decision_on_an_unknown_value_is_written_down(repository):
    recipe = repository.one(
        """
        import torch

        def my_config():
            cfg = torch.ConfigContainer()
            cfg.ddp.use_megatron_fsdp = False
            if torch.cuda.is_available():
                cfg.ddp.use_megatron_fsdp = True
            return cfg
        """
    )
    assert recipe["ddp.use_megatron_fsdp"] is False
    [assumption] = recipe.assumptions
    assert (assumption.text, assumption.file, assumption.line) == (
        "torch.cuda.is_available() taken as false",
        "recipe.py",
        7,
    )


def test_either_flag_is_kept_as_a_whole_where_one_is_unknown(repository):
    recipe = repository.one(
        HEAD
        + """
def my_config(a=None):
    import torch
    cfg = ConfigContainer()
    cfg.ddp.use_megatron_fsdp = torch.a or torch.b
    cfg.dist = DistributedInitConfig(use_megatron_fsdp=torch.a or True)
    return cfg
"""
    )
    assert recipe["ddp.use_megatron_fsdp"] == Unknown("(torch.a or torch.b)")
    assert recipe["dist.use_megatron_fsdp"] is True


def test_a_class_default_can_be_read_back_and_is_no_setting(repository):
    recipe = repository.one(
        HEAD
        + """
def my_config():
    cfg = ConfigContainer(dist=DistributedInitConfig())
    cfg.train.dist_on, cfg.train.ddp_on = cfg.dist.use_megatron_fsdp, cfg.ddp.use_megatron_fsdp
    return cfg
"""
    )
    assert (recipe["train.dist_on"], recipe["train.ddp_on"]) == (False, False)
    assert "dist.use_megatron_fsdp" not in {setting.path for setting in recipe.settings}
    assert recipe.assumptions == ()


def test_an_unknown_base_has_unknown_defaults(repository):
    recipe = repository.one(
        """
        from megatron.bridge.recipes.llama import llama3_8b_pretrain_config

        def my_config():
            cfg = llama3_8b_pretrain_config()
            cfg.dist.use_megatron_fsdp = False
            return cfg
        """
    )
    assert recipe.made == ()
    assert not recipe.has_defaults("ddp")


def test_a_public_base_is_resolved_by_release(repository):
    source = """
        from megatron.bridge.recipes.llama import llama3_8b_pretrain_config

        def my_config():
            cfg = llama3_8b_pretrain_config()
            cfg.ddp.use_megatron_fsdp = True
            return cfg
    """
    recipe = repository.one(source, release="0.6")
    setting = recipe.setting("ddp.data_parallel_sharding_strategy")
    assert (setting.value, setting.place) == ("no_shard", "<megatron-bridge 0.6.2>")
    assert recipe.has_defaults("ddp")
    assert [old.file for old in recipe.setting("ddp.use_megatron_fsdp").overridden] == ["<megatron-bridge 0.6.2>"]


def test_a_project_dataclass_config_has_places(repository):
    recipe = repository.one(
        """
        from dataclasses import dataclass, field

        @dataclass
        class Ddp:
            use_megatron_fsdp: bool = False

        @dataclass
        class Config:
            ddp: Ddp = field(default_factory=Ddp)

        def my_config():
            cfg = Config()
            cfg.ddp.use_megatron_fsdp = True
            return cfg
        """
    )
    assert recipe.setting("ddp.use_megatron_fsdp").place == "recipe.py:14"


def test_plain_objects_of_the_project_are_looked_into(repository):
    recipe = repository.one(
        """
        from types import SimpleNamespace

        class Section:
            def __init__(self):
                self.use_megatron_fsdp = True

        class Config:
            def __init__(self):
                self.ddp = Section()
                self.dist = SimpleNamespace(use_megatron_fsdp=False)

        def my_config():
            return Config()
        """
    )
    assert {s.path: s.value for s in recipe.settings} == {
        "ddp.use_megatron_fsdp": True,
        "dist.use_megatron_fsdp": False,
    }


def test_frozen_dataclasses_and_classes_handed_to_classes(repository):
    recipe = repository.one(
        """
        from dataclasses import dataclass
        import torch

        @dataclass(frozen=True)
        class Section(torch.Base):
            own: int = 1

        class Layer:
            pass

        def my_config():
            return torch.ConfigContainer(train=Section(inherited=2), model=torch.ModuleSpec(Layer))
        """
    )
    assert recipe.reason == ""
    assert (recipe["train.own"], recipe["train.inherited"]) == (1, 2)
    assert recipe["model"] == Unknown("torch.ModuleSpec(Layer)")


def test_a_dictionary_config_is_flattened(repository):
    recipe = repository.one('OVERRIDES = {"dist": {"use_megatron_fsdp": True, "x": {"y": 1}}, "ddp": {}}\n')
    assert recipe.name == "OVERRIDES"
    assert {s.path: s.value for s in recipe.settings} == {"dist.use_megatron_fsdp": True, "dist.x.y": 1, "ddp": {}}


def test_what_counts_as_a_recipe(repository):
    repository.write(
        {
            "recipes.py": HEAD
            + """
from elsewhere import imported_config

def good_config():
    return ConfigContainer()

def _private_config():
    return ConfigContainer()

def needs_config(size):
    return ConfigContainer()

def set_some_config(cfg: ConfigContainer, size: int) -> None:
    cfg.x = size

def section_config():
    return CheckpointConfig(save="x")

def other_name():
    return ConfigContainer(train=1)

cfg = other_name()
""",
            "elsewhere.py": HEAD + "def imported_config():\n    return ConfigContainer()\n",
        }
    )
    traced = repository.trace("recipes.py")
    assert {recipe.name: recipe.reason for recipe in traced} == {
        "good_config": "",
        "needs_config": "needs the argument size: give --arg size=...",
        "cfg": "",
    }
    [named] = repository.trace("recipes.py::other_name")
    assert (named.name, named["train"]) == ("other_name", 1)


def test_recipes_made_by_a_factory(repository):
    repository.write(
        {
            "common.py": HEAD
            + """
def make(size):
    def inner():
        return ConfigContainer(train=size)
    return inner

def sized_config(size):
    return ConfigContainer(train=size)
""",
            "recipe.py": """
                import functools
                import common

                small_config = common.make(1)
                large_config = functools.partial(common.sized_config, 2)
                alias_config = common.sized_config
            """,
        }
    )
    assert {r.name: r["train"] for r in repository.trace("recipe.py")} == {"small_config": 1, "large_config": 2}


def test_a_file_that_needs_two_processes_is_reported_once(repository):
    repository.write(
        {
            "recipe.py": HEAD
            + """
import os, threading, time

def a_config(size):
    pass

def b_config():
    os._exit(1)

def c_config():
    threading.Thread(target=time.sleep, args=(9,)).start()
    return ConfigContainer()

cfg = ConfigContainer(train=1)
"""
        }
    )
    assert [recipe.name for recipe in repository.trace("recipe.py")] == ["a_config", "b_config", "c_config", "cfg"]


def test_a_module_that_keeps_a_thread(repository):
    source = """
        import threading, time, torch
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

        def a_config():
            return torch.ConfigContainer(train=1)

        def b_config():
            return torch.ConfigContainer(train=2)
    """
    repository.write({"recipe.py": source})
    assert [recipe["train"] for recipe in repository.trace("recipe.py")] == [1, 2]


def test_arguments_reach_the_functions_that_take_them(repository):
    source = HEAD + "def sized_config(size, name='n'):\n    return ConfigContainer(train=size, model=name)\n"
    recipe = repository.one(source, arguments={"size": [1, 2], "unrelated": 3})
    assert (recipe["train"], recipe["model"]) == ([1, 2], "n")
    [named] = repository.trace("recipe.py::sized_config", arguments={"size": 1, "unrelated": 3})
    assert named.reason == "does not take the argument unrelated"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('no\\nluck')", "ValueError: no luck (recipe.py:2)"),
        ("import repository_module_that_is_absent as m; return m.x.y(1).ConfigContainer", ""),
        ("return 3", "returned 3, which is not a config"),
        ("yield 1", "returned generator(), which is not a config"),
        ("return undefined", "NameError: name 'undefined' is not defined (recipe.py:2)"),
    ],
)
def test_the_reason_is_one_line(repository, body, reason):
    repository.write({"recipe.py": f"def named():\n    {body}\n"})
    [recipe] = repository.trace("recipe.py::named")
    assert recipe.reason == reason


def test_a_file_that_cannot_be_loaded_is_reported(repository):
    repository.write(
        {"a.py": "def a_config(:\n", "b.py": "def b_config(): return 1\n1 / 0\n", "c.py": "x_config = 1\n"}
    )
    reasons = {recipe.file: recipe.reason for recipe in repository.trace("a.py", "b.py", "c.py")}
    assert reasons["a.py"].startswith("cannot be loaded: SyntaxError: ")
    assert reasons["b.py"] == "cannot be loaded: ZeroDivisionError: division by zero (b.py:2)"
    assert "c.py" not in reasons


def test_a_name_that_is_not_there(repository):
    repository.write({"recipe.py": HEAD + "def good_config():\n    return ConfigContainer()\n"})
    [recipe] = repository.trace("recipe.py::bad_config")
    assert recipe.reason == "there is no bad_config in this file (recipes in it: good_config)"


@pytest.mark.parametrize("target", ["absent.py", "absent.py::x", "folder::x", "note.txt"])
def test_bad_targets(tmp_path: Path, target: str):
    (tmp_path / "folder").mkdir()
    (tmp_path / "note.txt").touch()
    with pytest.raises(TraceError):
        trace_targets([str(tmp_path / target)])


def test_sources_can_be_replaced_without_writing_them(repository):
    repository.write(
        {
            "common.py": HEAD + "def base():\n    return ConfigContainer(train=1)\n",
            "recipe.py": "from common import base\ndef my_config():\n    return base()\n",
        }
    )
    other = (repository.root / "common.py").read_bytes().replace(b"train=1", b"train=2")
    [recipe] = repository.trace("recipe.py", replaced={repository.root / "common.py": other})
    assert recipe["train"] == 2


def test_two_traces_agree_on_chance(repository):
    source = """
        import datetime, os, random, time, uuid
        import torch

        def my_config():
            cfg = torch.ConfigContainer()
            cfg.logger.a = f"{datetime.datetime.now():%H%M%S}{time.time()}{time.strftime('%S')}{datetime.date.today()}"
            cfg.logger.b = str(uuid.uuid4()) + str(random.random()) + os.urandom(4).hex() + str(os.getpid())
            cfg.logger.c = isinstance(datetime.datetime.fromisoformat("2020-01-01"), datetime.datetime)
            cfg.logger.d = list({"x", "y", "z"})
            cfg.logger.e = os.getcwd()
            return cfg
    """
    first, second = repository.one(source), repository.one(source)
    assert first.reason == ""
    assert first.settings == second.settings
    assert first["logger.c"] is True
