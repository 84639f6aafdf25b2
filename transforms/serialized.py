"""FSDP008: a dumped config, or code that reads one, has the old key.

Source: megatron-bridge 0.6.2 loads ``run_config.yaml`` with ``InstantiationMode.LENIENT``, which drops the key with a
warning; checkpoints written by older releases keep it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import MOVE, SERIALIZED, Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    for spot in case.flags("dist"):
        if spot.form in SERIALIZED and not case.refusal:
            yield Draft(
                Severity.WARNING,
                "a dumped config has use_megatron_fsdp under dist",
                spot.place,
                part=MOVE,
                safe=False,
                why="a run wrote it, and the loader drops the key; --unsafe-fixes migrates it if something reads it",
            )
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
    summary="a dumped config has, or is read at, dist.use_megatron_fsdp",
    explanation="""\
Dumped configs (run_config.yaml, to_dict()) of older releases keep the flag under dist. Code that reads them has to
look under ddp first and under dist for old dumps. A file is a dump if it is called run_config.yaml, or if one of its
sections says _target_.""",
    safety="Code is never edited. A dump records a run: only --unsafe-fixes migrates it, without companions.",
    source="megatron-bridge 0.6.2, utils/instantiate_utils.py",
    check=check,
    valid=(
        Example('def f(config):\n    return config.get("ddp", {}).get("use_megatron_fsdp")\n'),
        Example('def f(config):\n    return config.get("use_megatron_fsdp")\n'),
        Example('def f(config):\n    return config["dist"]["backend"]\n'),
        Example("dist:\n  use_megatron_fsdp: false\n", "ddp:\n  use_megatron_fsdp: false\n", "yaml"),
    ),
    invalid=(
        Example('def f(config):\n    return config.get("dist", {}).get("use_megatron_fsdp")\n'),
        Example('def f(config):\n    return config["dist"]["use_megatron_fsdp"]\n'),
        Example(
            "dist:\n  _target_: megatron.bridge.training.config.DistributedInitConfig\n  use_megatron_fsdp: false\n",
            language="yaml",
        ),
    ),
)
