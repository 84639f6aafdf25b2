"""FSDP145: What is set on ddp and overwritten before training."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity
from fsdp_migrate.transforms.plan import UNKNOWN
from fsdp_migrate.upstream import OVERWRITTEN


def judge(config: Config) -> Iterator[Conflict]:
    if not config.fsdp:
        return
    for section, names in OVERWRITTEN.items():
        if not config.sets(section) and not any(path.startswith(f"{section}.") for path in config.settings):
            continue
        if config.is_any(section, None):
            continue
        for name in names:
            path = f"ddp.{name}"
            value = config.get(path)
            if path not in config.settings or value is UNKNOWN or config.traced:
                continue
            if value == config.get(f"{section}.{name}"):
                continue
            yield Conflict(path, Severity.INFO, f"{section} overwrites {path}", f"set {section}.{name} instead")


RULE = Rule(
    code="FSDP145",
    name="overwritten",
    summary="a setting of ddp that comm_overlap or mixed_precision overwrites",
    explanation="""\
mixed_precision copies every field that ddp has too onto ddp before validate(). comm_overlap replaces its overlap
and bucket settings when there are several data-parallel ranks. What the recipe sets on ddp is lost without a word.""",
    safety="None: set it on the one that wins.",
    source="megatron-bridge 0.6.2, training/mixed_precision.py:127-135 and training/comm_overlap.py:562-577 and 641",
    check=check(judge),
    traceable=True,
    valid=examples({"ddp.overlap_grad_reduce": True})
    + examples({"ddp.bucket_size": 1000, "comm_overlap": None}, languages=("python",)),
    invalid=examples(
        {"ddp.bucket_size": 1000, "comm_overlap.tp_comm_overlap": True},
        {"ddp.grad_reduce_in_fp32": False, "mixed_precision.grad_reduce_in_fp32": True},
    ),
)
