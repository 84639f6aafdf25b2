"""FSDP021: a value that an unknown base may have overruled counts after the move.

Old Bridge ignored ``dist = False`` when ddp had the flag on. Over a base that nobody can see, ``ddp = False`` says what
the author wrote, and it errs to the loud side: a job that runs out of memory is noticed, a silent change is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import MOVE, Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    if case.refusal:
        return
    for number in sorted(case.decision.declared):
        spot = case.spots.get(number)
        if spot is not None:
            yield Draft(
                Severity.WARNING,
                f"{spot.text}: over a base with ddp.use_megatron_fsdp on, old Bridge ignored this; now it counts",
                spot.place,
                MOVE,
                needed=False,
            )


RULE = Rule(
    code="FSDP021",
    name="declared-value",
    summary="a value on dist that an unknown base may have overruled counts after the move",
    explanation="""\
Old Bridge computed dist OR ddp, so False (or an expression) on dist had no effect over a base with ddp on. The base is
not in this project, so the tool writes what the author wrote. Check the base if the recipe should keep FSDP.""",
    safety="Applied with the move, and reported.",
    source="megatron-bridge 0.6.2, training/config.py:1070",
    check=check,
    valid=(
        Example("def f(cfg):\n    cfg.dist.use_megatron_fsdp = True\n"),
        Example("def f(cfg):\n    cfg.ddp.use_megatron_fsdp = False\n"),
        Example("def f(cfg):\n    cfg.dist.use_megatron_fsdp = False\n    cfg.ddp.use_megatron_fsdp = False\n"),
    ),
    invalid=(
        Example(
            "def f(cfg):\n    cfg.dist.use_megatron_fsdp = False\n",
            "def f(cfg):\n    cfg.ddp.use_megatron_fsdp = False\n",
        ),
    ),
)
