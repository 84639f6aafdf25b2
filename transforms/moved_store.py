"""FSDP001: the flag is stored on ``dist``.

Source: ``ConfigContainer.validate`` of megatron-bridge 0.1.0rc4 to 0.6.2 (training/config.py) computes ``dist OR ddp``
and sets both; the release after 0.6 has the field on ``ddp`` only, and a store on ``dist`` is accepted in silence.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import MOVE, STORES, Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.transforms import plan


def check(case: Case) -> Iterator[Draft]:
    if case.refusal:
        return
    for spot in case.flags("dist"):
        if spot.form in STORES and not spot.double:
            yield Draft(Severity.ERROR, _message(case, spot.id), spot.place, MOVE)
    for spot in case.flags("ddp"):
        if spot.form in STORES and isinstance(case.decision.actions.get(spot.id), plan.Delete):
            message = f"{case.root}.ddp.use_megatron_fsdp never had an effect here: the value on dist decided"
            yield Draft(Severity.WARNING, message, spot.place, MOVE)
    if not any(case.flags("dist")):
        for number, action in case.decision.actions.items():
            if isinstance(action, plan.Put) and case.spots[number].form == "section":
                message = "the base turns FSDP on through dist, which a new ddp section did not undo: it needs the flag"
                yield Draft(Severity.WARNING, message, case.spots[number].place, MOVE)


def _message(case: Case, number: int) -> str:
    new = f"{case.root}.ddp.use_megatron_fsdp"
    match case.decision.actions.get(number):
        case plan.Delete() if any(case.flags("ddp")):
            return f"use_megatron_fsdp moved from dist to ddp; {new} says it already"
        case plan.Delete():
            return "use_megatron_fsdp moved from dist to ddp; this store never had an effect"
        case plan.MoveAfter():
            return f"use_megatron_fsdp moved from dist to ddp; {new} is stored once ddp is made"
        case _:
            return f"use_megatron_fsdp moved from dist to ddp: store {new}"


RULE = Rule(
    code="FSDP001",
    name="moved-store",
    summary="use_megatron_fsdp is stored on dist instead of ddp",
    explanation="""\
Megatron-Bridge moved use_megatron_fsdp from DistributedInitConfig (cfg.dist) to DistributedDataParallelConfig
(cfg.ddp). A store on cfg.dist is still accepted, because the dataclass takes any attribute, and training then runs
without FSDP. Old releases computed dist OR ddp, so a store is renamed, deleted or merged such that ddp has that value
wherever somebody looks at the config.""",
    safety="Safe: an abstract run of the whole scope shows that the value is the same at every observation point.",
    source="megatron-bridge 0.6.2, training/config.py:1070 and 1345",
    check=check,
    outdated=True,
    valid=(
        Example("def recipe():\n    cfg = base()\n    cfg.ddp.use_megatron_fsdp = False\n    return cfg\n"),
        Example("def load(model, args):\n    return wrap(model, use_megatron_fsdp=args.use_megatron_fsdp)\n"),
        Example("def f(self):\n    self.model.use_megatron_fsdp = True\n"),
    ),
    invalid=(
        Example(
            "def recipe(cfg):\n    cfg.dist.use_megatron_fsdp = False\n",
            "def recipe(cfg):\n    cfg.ddp.use_megatron_fsdp = False\n",
        ),
        Example(
            "def recipe(cfg, on):\n    cfg.dist.use_megatron_fsdp = on\n    cfg.ddp.use_megatron_fsdp = on\n",
            "def recipe(cfg, on):\n    cfg.ddp.use_megatron_fsdp = on\n",
        ),
    ),
)
