"""FSDP007: a comment, a docstring or a message names the old path."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    for spot in case.remarks:
        if spot.form == "mention":
            yield Draft(
                Severity.INFO,
                "the text speaks of use_megatron_fsdp on dist, and it is on ddp alone now",
                spot.place,
                why="reword it by hand: replacing the path is not enough here",
            )
        elif spot.form == "prose":
            yield Draft(
                Severity.INFO,
                "the text names dist.use_megatron_fsdp, which is ddp.use_megatron_fsdp now",
                spot.place,
                part="prose",
                safe=False,
                why="prose may be history or say more than the path; reword it, or use --unsafe-fixes",
            )


RULE = Rule(
    code="FSDP007",
    name="prose",
    summary="a comment or text names dist.use_megatron_fsdp",
    explanation="A text that names the old path misleads its readers once the code is migrated.",
    safety="Unsafe: only the path is replaced, and the sentence around it may say more.",
    source="none: this is about the project's own words",
    check=check,
    valid=(
        Example("# Set cfg.ddp.use_megatron_fsdp.\nx = 1\n"),
        Example("# The trainer takes --use_megatron_fsdp.\nx = 1\n"),
        Example('"""Not about dist."""\n'),
        Example("Set `cfg.ddp.use_megatron_fsdp`.\n", language="markdown"),
    ),
    invalid=(
        Example("# Set cfg.dist.use_megatron_fsdp to True.\nx = 1\n"),
        Example("Set `cfg.dist.use_megatron_fsdp` and `cfg.ddp.use_megatron_fsdp`.\n", language="markdown"),
    ),
)
