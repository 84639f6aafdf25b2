"""Shrunk examples that once went wrong."""

from __future__ import annotations

import pytest

from fsdp_migrate.api import migrate_source

IMPORTS = (
    "from megatron.bridge.training.config import DistributedDataParallelConfig as DDP\n"
    "from megatron.bridge.training.config import DistributedInitConfig as Dist\n"
)


def migrated(body: str) -> tuple[str, list[str]]:
    source = IMPORTS + "def recipe(e):\n    cfg = base(e)\n" + body + "    return cfg\n"
    result = migrate_source(source.encode(), "recipe.py")
    assert not result.error
    return result.output.decode().partition("base(e)\n")[2].removesuffix("    return cfg\n"), [
        f.code for f in result.findings
    ]


def test_a_lambda_that_is_called_at_once_is_read() -> None:
    after, _ = migrated("    cfg.dist.use_megatron_fsdp = False\n    note((lambda: cfg.dist.use_megatron_fsdp)())\n")
    assert after == "    cfg.ddp.use_megatron_fsdp = False\n    note((lambda: cfg.ddp.use_megatron_fsdp)())\n"


def test_a_replaced_ddp_section_stores_the_flag() -> None:
    after, _ = migrated("    cfg.dist = replace(cfg.dist, use_megatron_fsdp=not e.b)\n")
    assert after == "    cfg.ddp = replace(cfg.ddp, use_megatron_fsdp=not e.b)\n"


@pytest.mark.parametrize(
    "body",
    [
        (
            "    def inner():\n        cfg.dist.use_megatron_fsdp = e.b\n    inner()\n"
            "    cfg.dist = Dist(use_megatron_fsdp=False)\n"
        ),
        (
            "    def inner():\n        cfg.dist.use_megatron_fsdp = e.b\n    inner()\n"
            "    cfg.dist.use_megatron_fsdp = True\n    cfg.ddp.use_megatron_fsdp = False\n"
        ),
    ],
    ids=["section", "stores"],
)
def test_nothing_moves_that_a_function_inside_decides_as_well(body: str) -> None:
    after, codes = migrated(body)
    assert after == body
    assert "FSDP020" in codes


def test_nothing_moves_past_sections_that_are_bound_together() -> None:
    body = "    cfg.dist.use_megatron_fsdp = True\n    cfg.dist, cfg.ddp = Dist(), DDP(use_megatron_fsdp=False)\n"
    after, codes = migrated(body)
    assert after == body
    assert codes == ["FSDP020"]


def test_a_section_at_an_end_without_a_line_end_goes_with_its_blank_lines() -> None:
    result = migrate_source(b"ddp:\nmodel: {}\ndist:\n\n  use_megatron_fsdp: false", "conf.yaml")
    assert result.output == b"ddp:\n  use_megatron_fsdp: false\nmodel: {}"
