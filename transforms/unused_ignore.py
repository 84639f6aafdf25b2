"""FSDP900: a comment exempts what is not there."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    for spot in case.remarks:
        if spot.form == "unused-ignore":
            message = f"nothing here needs to be exempted from {spot.text}"
            yield Draft(Severity.WARNING, message, spot.place, part=spot.detail)


RULE = Rule(
    code="FSDP900",
    name="unused-ignore",
    summary="a `fsdp-migrate: ignore` comment exempts nothing",
    explanation="""\
The comment outlived its reason, stands in the wrong place, or names a rule that finds nothing there. Left alone, it
would hide the next finding. A code is reported only by a run that looks at every rule it names.""",
    safety="Safe: the code, or with the last one the comment, is taken out.",
    source="none: this is about the project's own comments",
    check=check,
    valid=(
        Example("cfg.dist.use_megatron_fsdp = True  # fsdp-migrate: ignore[FSDP001, FSDP01] old release\n"),
        Example("x = 1  # fsdp-migrate: ignore[FSDP2] off by default\n"),
        Example("x = '# fsdp-migrate: ignore[FSDP001]'\n"),
    ),
    invalid=(
        Example("x = 1  # fsdp-migrate: ignore[FSDP001] gone\n", "x = 1\n"),
        Example(
            "# fsdp-migrate: ignore[FSDP001, FSDP003, FSDP01]\ncfg.dist.use_megatron_fsdp = True\n",
            "# fsdp-migrate: ignore[FSDP001, FSDP01]\ncfg.dist.use_megatron_fsdp = True\n",
        ),
        Example("dist:\n  # fsdp-migrate: ignore[FSDP005]\n  backend: nccl\n", "dist:\n  backend: nccl\n", "yaml"),
    ),
)
