"""Which modules are run, which are stand-ins, and how packages are looked up."""

from __future__ import annotations

from fsdp_migrate.trace import Unknown

CONFIG = "from megatron.bridge.training.config import ConfigContainer\n"


def test_an_init_runs_only_for_the_names_it_defines(repository):
    repository.write(
        {
            "pack/__init__.py": """
                from pack.world import *
                from .common import base as renamed
                from . import common
                raise RuntimeError("the world was dragged in")
            """,
            "pack/world.py": "raise RuntimeError('the world was imported')\n",
            "pack/common.py": CONFIG + "def base():\n    return ConfigContainer(train=1)\n",
            "other/__init__.py": CONFIG + "def base():\n    return ConfigContainer(train=2)\n",
            "recipe.py": """
                from other import base as other
                from pack import common, renamed
                import pack.common as again

                def a_config():
                    return renamed()

                def b_config():
                    assert common is again
                    return other()
            """,
        }
    )
    first, second = repository.trace("recipe.py")
    assert (first["train"], second["train"]) == (1, 2)


def test_star_imports_are_followed_through_packages(repository):
    repository.write(
        {
            "pack/__init__.py": "from pack.inner import *\nfrom pack.other import *\n",
            "pack/inner/__init__.py": "from pack.inner.deep import *\n",
            "pack/inner/deep.py": CONFIG + "def base():\n    return ConfigContainer(train=3)\n",
            "pack/other.py": "raise RuntimeError('does not hold the name, need not run')\n",
            "recipe.py": "from pack import base\ndef my_config():\n    return base()\n",
        }
    )
    [recipe] = repository.trace("recipe.py")
    assert recipe["train"] == 3


def test_a_star_import_of_a_package_runs_it(repository):
    repository.write(
        {
            "pack/__init__.py": CONFIG + "__all__ = ['base']\ndef base():\n    return ConfigContainer(train=4)\n",
            "recipe.py": "from pack import *\ndef my_config():\n    return base()\n",
        }
    )
    [recipe] = repository.trace("recipe.py")
    assert recipe["train"] == 4


def test_a_missing_name_of_a_project_module_is_an_error(repository):
    repository.write({"common.py": "", "recipe.py": "from common import absent\ndef my_config():\n    return absent\n"})
    [recipe] = repository.trace("recipe.py")
    assert recipe.reason.startswith("cannot be loaded: ImportError: cannot import name 'absent' from 'common'")


def test_relative_imports_and_folders_without_init(repository):
    repository.write(
        {
            "src/pack/__init__.py": "",
            "src/pack/recipes/llama.py": "from ..common import base\ndef my_config():\n    return base()\n",
            "src/pack/recipes/__init__.py": "",
            "src/pack/common.py": CONFIG + "def base():\n    return ConfigContainer(train=5)\n",
            "plain/deep/recipe.py": "from plain.common import base\ndef my_config():\n    return base()\n",
            "plain/common.py": "from pack.common import base\n",
        }
    )
    inside, outside = repository.trace("src/pack/recipes/llama.py", "plain/deep/recipe.py")
    assert (inside["train"], outside["train"]) == (5, 5)
    assert inside.file == "src/pack/recipes/llama.py"


def test_a_script_folder_comes_before_the_project_root(repository):
    repository.write(
        {
            "common.py": CONFIG + "def base():\n    return ConfigContainer(train='root')\n",
            "scripts/common.py": CONFIG + "def base():\n    return ConfigContainer(train='scripts')\n",
            "scripts/recipe.py": "from common import base\ndef my_config():\n    return base()\n",
        }
    )
    [recipe] = repository.trace("scripts/recipe.py")
    assert recipe["train"] == "scripts"


def test_projects_in_one_run_do_not_mix(repository):
    for name in ("one", "two"):
        repository.write(
            {
                f"{name}/pyproject.toml": "",
                f"{name}/common.py": CONFIG + f"def base():\n    return ConfigContainer(train={name!r})\n",
                f"{name}/recipe.py": "from common import base\ndef my_config():\n    return base()\n",
            }
        )
    first, second = repository.trace("one/recipe.py", "two/recipe.py")
    assert (first["train"], second["train"]) == ("one", "two")


def test_bridge_sources_in_the_project_run_their_recipes_only(repository):
    repository.write(
        {
            "src/megatron/bridge/__init__.py": "raise RuntimeError\n",
            "src/megatron/bridge/training/config.py": "raise RuntimeError\n",
            "src/megatron/bridge/recipes/__init__.py": "from megatron.bridge.recipes.llama import *\n",
            "src/megatron/bridge/recipes/llama.py": CONFIG
            + "def base_config():\n    return ConfigContainer(train=6)\n",
            "recipe.py": """
                from megatron.bridge.recipes import base_config
                from megatron.bridge import AutoBridge

                def my_config():
                    cfg = base_config()
                    cfg.model = AutoBridge.from_hf_pretrained("x").to_megatron_provider(load_weights=False)
                    cfg.model.size = 1
                    return cfg
            """,
        }
    )
    [recipe] = repository.trace("recipe.py")
    assert recipe["train"] == 6
    text = "megatron.bridge.AutoBridge.from_hf_pretrained('x').to_megatron_provider(load_weights=False)"
    assert (recipe["model"], recipe["model.size"]) == (Unknown(text), 1)


def test_installed_frameworks_are_stand_ins_and_plain_libraries_are_real(repository):
    recipe = repository.one(
        CONFIG
        + """
import click, packaging.version, torch

def my_config():
    return ConfigContainer(train=click.__name__, model=torch.__version__, dataset=str(packaging.version.parse("1.0")))
"""
    )
    assert recipe["train"] == "click"
    assert recipe["model"] == Unknown("torch.__version__")
    assert recipe["dataset"] == "1.0"


def test_the_project_may_be_called_like_our_own_modules(repository):
    repository.write(
        {
            "codemod/__init__.py": CONFIG + "def base():\n    return ConfigContainer(train=7)\n",
            "transforms.py": "from codemod import base\n",
            "recipe.py": "from transforms import base\ndef my_config():\n    return base()\n",
        }
    )
    [recipe] = repository.trace("recipe.py")
    assert recipe["train"] == 7


def test_a_folder_is_searched_for_recipes(repository):
    good = CONFIG + "def my_config():\n    return ConfigContainer()\n"
    repository.write(
        {
            "b.py": good,
            "a/x.py": good,
            "a/tests/test_x.py": good,
            "test_y.py": good,
            ".hidden/z.py": good,
            "env/pyvenv.cfg": "",
            "env/lib/q.py": good,
            "helpers.py": "raise RuntimeError('holds no recipe and need not run')\n",
        }
    )
    assert [recipe.file for recipe in repository.trace("")] == ["b.py", "a/x.py"]
