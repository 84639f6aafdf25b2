"""FSDP208: recipes have no parameter ``use_megatron_fsdp`` any more."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import RECIPE_KEYWORD
from fsdp_migrate.neighbours.sighting import check

_LLAMA = "from megatron.bridge.recipes.llama import llama3_8b_pretrain_config as recipe\n"

RULE = Rule(
    code="FSDP208",
    name="recipe-keyword",
    summary="a recipe of Bridge is called with use_megatron_fsdp=",
    explanation="""\
Since Bridge 0.3.1 recipes take no parameters: the keyword raises TypeError. What it did is cfg.ddp.use_megatron_fsdp
behind the call, with the companions that FSDP010 to FSDP012 add in the same run.""",
    safety="""\
Unsafe: other keywords of the old recipes fail, too. Only for True, stored in a name by a statement of its own, and for
False, which goes; reported otherwise.""",
    source="megatron-bridge 0.3.0, recipes/llama/llama3.py:447",
    check=check(
        RECIPE_KEYWORD, Severity.ERROR, "recipes have no {old} since Bridge 0.3.1; set {new} on what they return"
    ),
    default=False,
    needles=(b"megatron.bridge.recipes",),
    valid=(
        Example("from mine import recipe\ncfg = recipe(use_megatron_fsdp=True)\n"),
        Example("def make(recipe):\n    return recipe(use_megatron_fsdp=True)\n"),
        Example(f"{_LLAMA}def make(recipe):\n    return recipe(use_megatron_fsdp=True)\n"),
        Example(f"{_LLAMA}try:\n    cfg = recipe(use_megatron_fsdp=True)\nexcept TypeError:\n    cfg = recipe()\n"),
        Example(f"{_LLAMA}cfg = recipe()\n"),
    ),
    invalid=(
        Example(
            f"{_LLAMA}cfg = recipe(use_megatron_fsdp=True)  # sharded\n",
            f"{_LLAMA}cfg = recipe()  # sharded\ncfg.ddp.use_megatron_fsdp = True\n"
            'cfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"\n'
            "cfg.ddp.average_in_collective = False\n"
            'cfg.checkpoint.ckpt_format = "fsdp_dtensor"\n',
        ),
        Example(f"{_LLAMA}cfg = recipe(mock=True, use_megatron_fsdp=False)\n", f"{_LLAMA}cfg = recipe(mock=True)\n"),
        Example(f"{_LLAMA}run(recipe(use_megatron_fsdp=True))\n"),
        Example(f"{_LLAMA}cfg = recipe(use_megatron_fsdp=on)\n"),
        Example(f"{_LLAMA}if on: cfg = recipe(use_megatron_fsdp=True)\n"),
    ),
)
