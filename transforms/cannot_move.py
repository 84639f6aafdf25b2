"""FSDP020: a form of the old flag that no rewrite can be right about."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity

_LOOSE = {
    "unattached": (
        "DistributedInitConfig gets use_megatron_fsdp, and no container in sight gets the object",
        "give use_megatron_fsdp to the DistributedDataParallelConfig of the same config and drop the keyword here",
    ),
    "foreign-class": (
        "this DistributedInitConfig gets use_megatron_fsdp, and nothing says whose class it is",
        "if it is Megatron-Bridge's, import it by name and run again; otherwise ignore this",
    ),
    "forwarded": (
        "use_megatron_fsdp is handed on to DistributedInitConfig",
        "make the ddp config of the same container with it instead, and pass that on",
    ),
    "bare": (
        "use_megatron_fsdp on an object that looks like a dist section",
        "if it is Megatron-Bridge's dist, use the ddp section instead",
    ),
}


def check(case: Case) -> Iterator[Draft]:
    for spot in case.remarks:
        if spot.form in _LOOSE:
            message, why = _LOOSE[spot.form]
            yield Draft(Severity.WARNING, message, spot.place, why=why)
        elif spot.form == "refused":
            yield Draft(Severity.ERROR, f"{spot.text} cannot be moved", spot.place, why=spot.detail)
    if case.refusal:
        for spot in (*case.flags("dist"), *case.reads):
            yield Draft(Severity.ERROR, f"{spot.text} cannot be moved", spot.place, why=case.refusal)
        obstacle = case.spots.get(case.decision.refused or -1)
        if obstacle is not None and not any(case.flags("dist")) and not case.reads:
            message = f"the base turns FSDP on through dist, and {obstacle.text} counts once that has moved"
            yield Draft(Severity.ERROR, message, obstacle.place, why=case.refusal)


RULE = Rule(
    code="FSDP020",
    name="cannot-move",
    summary="the old flag is used in a way that cannot be rewritten safely",
    explanation="""\
Nothing is changed in this scope: every rewrite would give the flag another value on some path, or the tool cannot see
which object is meant. The finding says what stands in the way.""",
    safety="Never edited.",
    source="megatron-bridge 0.6.2, training/config.py:1070: old Bridge computed dist OR ddp",
    check=check,
    valid=(
        Example("def f(cfg):\n    cfg.dist.use_megatron_fsdp = False\n"),
        Example("from torch import distributed as dist\n\n\ndef f():\n    dist.barrier()\n"),
        Example("def f(cfg):\n    del cfg.ddp.use_megatron_fsdp\n"),
    ),
    invalid=(
        Example(
            "def f(cfg, on):\n    if on:\n        cfg.dist.use_megatron_fsdp = True\n"
            "    cfg.ddp.use_megatron_fsdp = False\n"
        ),
        Example("def f(cfg):\n    del cfg.dist.use_megatron_fsdp\n"),
    ),
)
