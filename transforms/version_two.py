"""FSDP140: Version 2 of Megatron FSDP does less."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, for_release
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import VERSION

_KINDS = ("tensor_model", "pipeline_model", "context", "expert_model")
_SIZES = tuple(f"model.{kind}_parallel_size" for kind in _KINDS)


def judge(config: Config) -> Iterator[Conflict]:
    if not config.fsdp or not config.is_any(VERSION, 2):
        return
    if not config.is_since("main"):
        yield Conflict(VERSION, Severity.WARNING, f"Bridge {config.release} has no {VERSION}: it trains with version 1")
        return
    refused = [path for path in _SIZES if config.exceeds(path, 1)]
    if config.keeps_checkpoints:
        refused.append("checkpoint.save or checkpoint.load")
    what = f"refuses {', '.join(refused)}" if refused else "is under development"
    yield Conflict(
        VERSION, Severity.WARNING, f"version 2 of Megatron FSDP {what}", f"set {VERSION} = 1, or leave it out"
    )


RULE = Rule(
    code="FSDP140",
    name="fsdp-version-two",
    summary="version 2 of Megatron FSDP",
    explanation="""\
Only the development branch has ddp.megatron_fsdp_version; in a published release the field does not exist. Version
2 trains in bf16 without model parallelism, experts, low precision or CUDA graphs, and saves and loads no
checkpoints.""",
    safety="None: use version 1, or leave out what version 2 refuses.",
    source=(
        "megatron-bridge main, training/config.py:1126-1199 (pull request 5395, loosened by 5933); megatron-core "
        "main, mcore_fsdp_adapter.py:601"
    ),
    check=check(judge),
    traceable=True,
    valid=examples({"ddp.megatron_fsdp_version": 1}),
    invalid=(
        *examples({"ddp.megatron_fsdp_version": 2}),
        *for_release("main", examples({"ddp.megatron_fsdp_version": 2, "model.pipeline_model_parallel_size": 2})),
    ),
)
