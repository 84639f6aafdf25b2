"""The neighbouring migrations, together with the move and beside it."""

from __future__ import annotations

import pytest

from fsdp_migrate.api import Options, migrate_source
from fsdp_migrate.findings import Severity

BRIDGE = "from megatron.bridge.training.config import ConfigContainer, DistributedInitConfig\n"
BOTH = ("FSDP0", "FSDP2")
COMPANIONS = (
    'cfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"\n'
    "cfg.ddp.average_in_collective = False\n"
    'cfg.checkpoint.ckpt_format = "fsdp_dtensor"\n'
)


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        pytest.param(
            "recipe.py",
            f"{BRIDGE}cfg.dist.use_megatron_fsdp = True  # needed\ncfg.dist.lazy_init = True\n",
            f"{BRIDGE}cfg.ddp.use_megatron_fsdp = True  # needed\n{COMPANIONS}cfg.dist.lazy_mpu_init = True\n",
            id="one_scope",
        ),
        pytest.param(
            "recipe.py",
            f"{BRIDGE}cfg.ddp.use_custom_fsdp = True\n",
            f"{BRIDGE}cfg.ddp.use_megatron_fsdp = True\n{COMPANIONS}",
            id="the_new_name_wants_companions",
        ),
        pytest.param(
            "recipe.py",
            f"{BRIDGE}d = DistributedInitConfig(lazy_init=True, use_megatron_fsdp=False)\n",
            f"{BRIDGE}d = DistributedInitConfig(lazy_mpu_init=True)\n",
            id="one_call",
        ),
        pytest.param(
            "run.sh",
            "torchrun run.py dist.lazy_init=true dist.use_megatron_fsdp=false\n",
            "torchrun run.py dist.lazy_mpu_init=true ddp.use_megatron_fsdp=false\n",
            id="one_command",
        ),
        pytest.param(
            "o.yaml",
            "dist:\n  lazy_init: true  # late\n  use_megatron_fsdp: false\n",
            "dist:\n  lazy_mpu_init: true  # late\nddp:\n  use_megatron_fsdp: false\n",
            id="one_section",
        ),
    ],
)
def test_one_run_does_both(path: str, before: str, after: str) -> None:
    result = migrate_source(before.encode(), path, Options(select=BOTH))
    assert (result.error, result.output.decode()) == ("", after)
    again = migrate_source(result.output, path, Options(select=BOTH))
    assert not again.changed


def test_findings_of_the_second_stage_stand_where_they_are_in_the_source() -> None:
    source = f"{BRIDGE}cfg.dist.lazy_init = True\ncfg.dist.use_megatron_fsdp = False\n"
    result = migrate_source(source.encode(), "recipe.py", Options(select=BOTH))
    lines = {finding.code: finding.place.line for finding in result.findings}
    assert lines == {"FSDP209": 2, "FSDP001": 3, "FSDP021": 3}


@pytest.mark.parametrize("name", ["use_custom_fsdp", "lazy_init", "eval_iters"])
def test_nothing_is_looked_for_unless_selected(name: str) -> None:
    source = f"{BRIDGE}cfg.ddp.{name} = True\ncfg.dist.{name} = True\ncfg.train.{name} = True\n".encode()
    assert not migrate_source(source, "recipe.py").findings
    assert migrate_source(source, "recipe.py", Options(select=("FSDP2",))).findings


def test_an_exempted_place_stays() -> None:
    source = f"{BRIDGE}cfg.dist.lazy_init = True  # fsdp-migrate: ignore[FSDP209] old Bridge\n".encode()
    assert not migrate_source(source, "recipe.py", Options(select=("FSDP2",))).changed


@pytest.mark.parametrize(
    "source",
    [
        "v = 1\nif version >= v:\n    cfg.dist.lazy_init = True\n",
        "class DistributedInitConfig:\n    lazy_init: bool = False\n\n\nx = cfg.dist.lazy_init\n",
    ],
    ids=["a_version_guard", "the_library_itself"],
)
def test_what_is_right_under_the_old_name_is_left(source: str) -> None:
    result = migrate_source(f"{BRIDGE}{source}".encode(), "recipe.py", Options(select=("FSDP2",), unsafe=True))
    assert not result.findings


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("recipe.py", f"{BRIDGE}cfg.ddp.use_custom_fsdp = True\ncfg.ddp.use_megatron_fsdp = False\n"),
        ("recipe.py", f'{BRIDGE}if hasattr(cfg.dist, "lazy_init"):\n    cfg.dist.lazy_init = True\n'),
        ("recipe.py", f"{BRIDGE}d = DistributedInitConfig(lazy_init=True, **more)\n"),
        ("recipe.py", f'{BRIDGE}A = ["ddp.use_custom_fsdp=true", "ddp.use_megatron_fsdp=false"]\n'),
        ("run.sh", "run ddp.use_custom_fsdp=true ddp.use_megatron_fsdp=false\n"),
        ("o.yaml", "ddp:\n  use_custom_fsdp: true\n  use_megatron_fsdp: false\n"),
    ],
    ids=["stores", "a_probe", "forwarded", "words", "command", "section"],
)
def test_two_names_at_once_are_reported_only(path: str, source: str) -> None:
    result = migrate_source(source.encode(), path, Options(select=("FSDP2",), unsafe=True))
    assert [(f.fix, bool(f.why)) for f in result.findings] == [(None, True)]


@pytest.mark.parametrize("value", ["False", "args.fsdp"])
def test_what_may_overrule_a_base_wants_a_second_look(value: str) -> None:
    source = f"{BRIDGE}cfg.ddp.use_custom_fsdp = {value}\n".encode()
    assert not migrate_source(source, "recipe.py", Options(select=("FSDP2",))).changed
    assert migrate_source(source, "recipe.py", Options(select=("FSDP2",), unsafe=True)).changed


RECIPE = "from megatron.bridge.recipes.llama import llama3_8b_pretrain_config as recipe\n"
CORE = "from megatron.core.distributed import DistributedDataParallelConfig, FullyShardedDataParallel\n"
SHARD = "from megatron_fsdp import fully_shard, fully_shard_optimizer\n"


@pytest.mark.parametrize(
    ("path", "source", "code"),
    [
        ("run.sh", "torchrun train.py --use-custom-fsdp\n", "FSDP202"),
        ("run.sh", 'A="--use-custom-fsdp"\ntorchrun pretrain_gpt.py $A\ntorchrun mine.py $A\n', "FSDP202"),
        ("run.sh", "torchrun pretrain_gpt.py --use-custom-fsdp --use-megatron-fsdp\n", "FSDP202"),
        ("a.py", f"{CORE}DistributedDataParallelConfig(preserve_fp32_weights=True, **more)\n", "FSDP205"),
        ("a.py", f"{CORE}DistributedDataParallelConfig((1), preserve_fp32_weights=True)\n", "FSDP205"),
        ("a.py", f"{CORE}isinstance(m, FullyShardedDataParallel)\n", "FSDP206"),
        ("a.py", f"{SHARD}fully_shard(m, o, grad_reduce_in_fp32=True)\n", "FSDP207"),
        ("a.py", f"{SHARD}fully_shard_optimizer(m, o)\n", "FSDP207"),
        ("a.py", f"{RECIPE}cfg = recipe(use_megatron_fsdp=on)\n", "FSDP208"),
        ("a.py", f"{RECIPE}cfg: object = recipe(use_megatron_fsdp=True)\n", "FSDP208"),
        ("a.py", f"{RECIPE}cfg = recipe(use_megatron_fsdp=True); cfg.x = 1\n", "FSDP208"),
        ("a.py", f"{RECIPE}cfg = recipe(\n    use_megatron_fsdp=True,  # sharded\n)\n", "FSDP208"),
    ],
)
def test_what_is_not_certain_is_reported_with_the_reason(path: str, source: str, code: str) -> None:
    result = migrate_source(source.encode(), path, Options(select=("FSDP2",), unsafe=True))
    assert [(f.code, f.fix, bool(f.why)) for f in result.findings] == [(code, None, True)]


@pytest.mark.parametrize(("target", "severity"), [("0.6", Severity.INFO), ("main", Severity.WARNING)])
def test_a_type_that_is_still_one_is_information(target: str, severity: Severity) -> None:
    source = f"{CORE}isinstance(m, FullyShardedDataParallel)\n".encode()
    result = migrate_source(source, "a.py", Options(select=("FSDP206",), target=target))
    assert [f.severity for f in result.findings] == [severity]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "if on:\r\n    cfg = recipe(\r\n        mock=True,\r\n        use_megatron_fsdp=True,\r\n    )\r\n",
            "if on:\r\n    cfg = recipe(\r\n        mock=True,\r\n    )\r\n    cfg.ddp.use_megatron_fsdp = True\r\n",
        ),
        ("cfg = recipe(use_megatron_fsdp=True)", "cfg = recipe()\ncfg.ddp.use_megatron_fsdp = True"),
        ("run(recipe(use_megatron_fsdp=False, mock=True))\n", "run(recipe(mock=True))\n"),
    ],
    ids=["last_of_many_lines", "end_of_file", "off"],
)
def test_a_keyword_leaves_the_rest_of_its_call_alone(before: str, after: str) -> None:
    head = RECIPE.replace("\n", "\r\n") if "\r" in before else RECIPE
    result = migrate_source(f"{head}{before}".encode(), "a.py", Options(select=("FSDP208",), unsafe=True))
    assert (result.error, result.output.decode()) == ("", f"{head}{after}")
