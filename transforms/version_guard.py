"""FSDP022: code that asks which release is installed handles both, and stays."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    for spot in case.remarks:
        if spot.form in ("probe", "guarded"):
            yield Draft(
                Severity.INFO,
                "a version guard around the flag: it handles both releases and stays as it is",
                spot.place,
                why="drop the old branch by hand once the old release is gone",
            )


RULE = Rule(
    code="FSDP022",
    name="version-guard",
    summary="the flag is used under a test for the installed release",
    explanation="""\
`hasattr(cfg.dist, "use_megatron_fsdp")`, a comparison of versions or `except AttributeError` asks which release is
installed. Renamed, such a probe would always be true and the old branch would run on the new release.""",
    safety="Never edited.",
    source="none: this is about the project's own code",
    check=check,
    valid=(
        Example("def f(cfg):\n    cfg.ddp.use_megatron_fsdp = False\n"),
        Example('def f(cfg):\n    if hasattr(cfg.ddp, "use_megatron_fsdp"):\n        return 1\n'),
        Example('def f(cfg):\n    if hasattr(cfg.dist, "backend"):\n        return 1\n'),
    ),
    invalid=(
        Example(
            'def f(cfg):\n    if hasattr(cfg.dist, "use_megatron_fsdp"):\n'
            "        cfg.dist.use_megatron_fsdp = True\n    else:\n        cfg.ddp.use_megatron_fsdp = True\n"
        ),
    ),
)
