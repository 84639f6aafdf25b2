"""FSDP013: the flag is an expression, so its companions need a condition.

Source: ``fsdp_dtensor`` with FSDP off fails as well (megatron-bridge 0.6.2, training/config.py:1391), so nothing can be
added unconditionally.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    if case.refusal or case.companions == "none":
        return
    lacking: dict[int, list[str]] = {}
    for companion in case.decision.companions:
        if companion.how == "conditional":
            lacking.setdefault(companion.anchor, []).append(companion.name)
    for number, names in lacking.items():
        spot = case.spots[number]
        possible = case.companions == "write" and not case.root.startswith("<")
        yield Draft(
            Severity.WARNING if case.companions == "write" else Severity.INFO,
            f"the flag is an expression here, and when it is true, {_listed(names)} are not set",
            spot.place,
            part="conditional" if possible else "",
            safe=False,
            why="set them where the expression is true"
            + (", or use --unsafe-fixes for an `if` after the store" if possible else ""),
        )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


RULE = Rule(
    code="FSDP013",
    name="conditional-companions",
    summary="the flag is an expression and its companions are not set",
    explanation="""\
When the expression is true, Megatron FSDP runs without a sharding strategy or with a checkpoint format that it cannot
save. Setting them unconditionally would break the other case: fsdp_dtensor without FSDP is an error too.""",
    safety="Unsafe: an `if` on the flag is put after the store.",
    source="megatron-bridge 0.6.2, training/config.py:1391",
    check=check,
    valid=(
        Example("def recipe():\n    cfg = base()\n    cfg.ddp.use_megatron_fsdp = False\n    return cfg\n"),
        Example("def on(model, flag):\n    return wrap(model, use_megatron_fsdp=flag)\n"),
        Example("class C:\n    def on(self, flag):\n        self.ddp.use_megatron_fsdp = flag\n"),
    ),
    invalid=(Example("def recipe(cfg, flag):\n    cfg.ddp.use_megatron_fsdp = flag\n    return cfg\n"),),
)
