"""The neighbouring migrations, together with the move and beside it."""

from __future__ import annotations

import pytest

from fsdp_migrate.api import Options, migrate_source

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
