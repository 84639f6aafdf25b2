"""FSDP008: a dumped config, or code that reads one, has the old key.

Source: megatron-bridge 0.6.2 loads ``run_config.yaml`` with ``InstantiationMode.LENIENT``, which drops the key with a
warning; checkpoints written by older releases keep it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    for spot in case.remarks:
        if spot.form == "dumped":
            yield Draft(
                Severity.WARNING,
                f"{spot.text} reads the flag of a dumped config",
                spot.place,
                why="old dumps keep the key under dist and new ones have it under ddp; read both by hand",
            )


RULE = Rule(
    code="FSDP008",
    name="serialized-config",
    summary="a dumped config is read at dist.use_megatron_fsdp",
    explanation="""\
Dumped configs (run_config.yaml, to_dict()) of older releases keep the flag under dist. Code that reads them has to look
under ddp first and under dist for old dumps.""",
    safety="Never edited: old dumps stay as they are.",
    source="megatron-bridge 0.6.2, utils/instantiate_utils.py",
    check=check,
    valid=(
        Example('def f(config):\n    return config.get("ddp", {}).get("use_megatron_fsdp")\n'),
        Example('def f(config):\n    return config.get("use_megatron_fsdp")\n'),
        Example('def f(config):\n    return config["dist"]["backend"]\n'),
    ),
    invalid=(
        Example('def f(config):\n    return config.get("dist", {}).get("use_megatron_fsdp")\n'),
        Example('def f(config):\n    return config["dist"]["use_megatron_fsdp"]\n'),
    ),
)
