"""FSDP142: Recipes save and load where earlier runs did."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity

_DEFAULT = "nemo_experiments/default/checkpoints"


def judge(config: Config) -> Iterator[Conflict]:
    for path in ("checkpoint.load", "checkpoint.save"):
        value = config.get(path)
        if config.fsdp and isinstance(value, str) and value.replace("\\", "/").endswith(_DEFAULT):
            yield Conflict(
                path,
                Severity.INFO,
                f"{path} is the directory that every recipe uses; an earlier run with DDP would stop this one",
                "save to a directory of its own, or set checkpoint.load = None",
            )
            return


RULE = Rule(
    code="FSDP142",
    name="shared-directory",
    summary="FSDP loads from the directory that every recipe saves to",
    explanation="""\
The recipes' default for save and load is one directory below the working directory. If a run with plain DDP was
there first, loading stops: the format in the config differs from that of the checkpoint.""",
    safety="None: choose a directory, or set checkpoint.load = None.",
    source=(
        "megatron-bridge 0.6.2, recipes/common.py (./nemo_experiments/default/checkpoints) and "
        "training/checkpointing.py:3633"
    ),
    check=check(judge),
    traceable=True,
    valid=examples({"checkpoint.load": "/runs/fsdp/checkpoints"}),
    invalid=examples({"checkpoint.load": "./nemo_experiments/default/checkpoints"}),
)
