"""FSDP005: a config-shaped mapping has ``use_megatron_fsdp`` under ``dist``."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import KEYS, MOVE, Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    if case.refusal:
        return
    for spot in case.flags("dist"):
        if spot.form in KEYS:
            yield Draft(Severity.ERROR, "use_megatron_fsdp stands under dist; it belongs to ddp", spot.place, MOVE)


RULE = Rule(
    code="FSDP005",
    name="config-key",
    summary="a mapping or config file has use_megatron_fsdp under dist",
    explanation="""\
Merged into a config without the field, the key is skipped with one log line and training runs without FSDP. The path
must be exactly dist.use_megatron_fsdp at the root of the mapping: under any other key it belongs to another schema.""",
    safety="Safe: the key moves inside one mapping.",
    source="megatron-bridge 0.6.2, training/utils/omegaconf_utils.py",
    check=check,
    outdated=True,
    valid=(
        Example('X = {"ddp": {"use_megatron_fsdp": True}}\n'),
        Example('X = {"actor": {"dist": 1, "use_megatron_fsdp": True}}\n'),
        Example('X = {"use_megatron_fsdp": True}\n'),
        Example("engine:\n  dist:\n    use_megatron_fsdp: true\n", language="yaml"),
    ),
    invalid=(
        Example(
            'X = {"dist": {"use_megatron_fsdp": False, "lazy": 1}, "ddp": {"bucket_size": 1}}\n',
            'X = {"dist": {"lazy": 1}, "ddp": {"bucket_size": 1, "use_megatron_fsdp": False}}\n',
        ),
        Example(
            "dist:\n  use_megatron_fsdp: false\n  lazy: 1\n",
            "dist:\n  lazy: 1\nddp:\n  use_megatron_fsdp: false\n",
            "yaml",
        ),
        Example(
            '{"dist": {"use_megatron_fsdp": false}, "ddp": {"bucket_size": 1}}\n',
            '{"ddp": {"bucket_size": 1, "use_megatron_fsdp": false}}\n',
            "json",
        ),
        Example("[dist]\nuse_megatron_fsdp = false\n", "[ddp]\nuse_megatron_fsdp = false\n", "toml"),
    ),
)
