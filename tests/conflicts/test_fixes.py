"""What a conflict's fix writes, in each language, and that it goes together with the move."""

from __future__ import annotations

import pytest

from fsdp_migrate.api import Options, migrate_source

HEAD = "def recipe():\n    cfg = base()\n    cfg.ddp.use_megatron_fsdp = True\n"
RUN = "torchrun train.py ddp.use_megatron_fsdp=true"
STRATEGY = "ddp:\n  use_megatron_fsdp: true\n  data_parallel_sharding_strategy: "
ON = 'use_megatron_fsdp = true\ndata_parallel_sharding_strategy = "optim_grads_params"'
HASH = "check_weight_hash_across_dp_replicas_interval"

FIXES = {
    "a store": ("recipe.py", HEAD + "    cfg.dist.use_tp_pp_dp_mapping = {}\n", "True", "False"),
    "a keyword": (
        "recipe.py",
        HEAD + "    cfg.dist = DistributedInitConfig(use_tp_pp_dp_mapping={})\n",
        "True",
        "False",
    ),
    "single quotes": ("recipe.py", HEAD + "    cfg.model.cuda_graph_impl = {}\n", "'local'", "'none'"),
    "nothing in yaml": ("c.yaml", f"{STRATEGY}optim_grads_params\ntrain:\n  {HASH}: {{}}\n", "10", "null"),
    "a quoted name in yaml": ("c.yaml", f"{STRATEGY}{{}}\n", "'zero3'", "'optim_grads_params'"),
    "a flow mapping": ("c.yaml", f"{STRATEGY}optim\ndist: {{{{use_tp_pp_dp_mapping: {{}}}}}}\n", "true", "false"),
    "toml": ("c.toml", "[ddp]\nuse_megatron_fsdp = true\n[dist]\nuse_tp_pp_dp_mapping = {}\n", "true", "false"),
    "json": ("c.json", '{{"ddp.use_megatron_fsdp": true, "dist.use_tp_pp_dp_mapping": {}}}\n', "true", "false"),
    "a quoted word": ("run.sh", f'{RUN} "dist.use_tp_pp_dp_mapping={{}}" x.y=1\n', "true", "false"),
    "a word with marks": ("run.sh", f"{RUN} ++dist.use_tp_pp_dp_mapping={{}}\n", "true", "false"),
    "a word with marks in yaml": (
        "c.yaml",
        "args:\n- ddp.use_megatron_fsdp=true\n- '++ddp.data_parallel_sharding_strategy={}'\n",
        "zero3",
        "optim_grads_params",
    ),
}


@pytest.mark.parametrize(("path", "text", "old", "new"), FIXES.values(), ids=FIXES.keys())
def test_the_value_is_replaced_and_nothing_else(path: str, text: str, old: str, new: str) -> None:
    before = text.format(old).encode()
    assert migrate_source(before, path, Options(select=("FSDP1",))).output == before
    result = migrate_source(before, path, Options(select=("FSDP1",), unsafe=True))
    assert not result.error
    assert result.output.decode() == text.format(new)


KEPT = {
    "a value that the flag shares": (
        "recipe.py",
        "def recipe():\n    cfg = base()\n    cfg.dist.use_tp_pp_dp_mapping = cfg.ddp.use_megatron_fsdp = True\n",
    ),
    "what comes from an anchor": (
        "c.yaml",
        f"{STRATEGY}optim\nx: &x\n  use_tp_pp_dp_mapping: true\ndist:\n  <<: *x\n",
    ),
    "what an anchor gives away": (
        "c.yaml",
        f"{STRATEGY}optim\ndist: &x\n  use_tp_pp_dp_mapping: true\nother: *x\n",
    ),
    "nothing in toml": (
        "c.toml",
        f"[ddp]\n{ON}\n[train]\n{HASH} = 1\n",
    ),
}


@pytest.mark.parametrize(("path", "text"), KEPT.values(), ids=KEPT.keys())
def test_what_cannot_be_replaced_alone_stays(path: str, text: str) -> None:
    result = migrate_source(text.encode(), path, Options(select=("FSDP1",), unsafe=True))
    assert not result.error
    assert result.output.decode() == text
    assert [finding.why != "" for finding in result.findings] == [True]


def test_a_fix_goes_together_with_the_move_on_the_same_line() -> None:
    before = (
        "def recipe():\n"
        "    return ConfigContainer(\n"
        "        dist=DistributedInitConfig(use_megatron_fsdp=True, use_tp_pp_dp_mapping=True),\n"
        '        ddp=DistributedDataParallelConfig(data_parallel_sharding_strategy="zero3"),\n'
        "    )\n"
    )
    result = migrate_source(before.encode(), "recipe.py", Options(select=("FSDP00", "FSDP1"), unsafe=True))
    assert not result.error
    assert result.output.decode() == (
        "def recipe():\n"
        "    return ConfigContainer(\n"
        "        dist=DistributedInitConfig(use_tp_pp_dp_mapping=False),\n"
        '        ddp=DistributedDataParallelConfig(data_parallel_sharding_strategy="optim_grads_params", '
        "use_megatron_fsdp=True),\n"
        "    )\n"
    )
