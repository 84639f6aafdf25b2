"""FSDP023: a class body defines the old field."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    for spot in case.remarks:
        if spot.form == "definition":
            yield Draft(
                Severity.INFO,
                "DistributedInitConfig defines use_megatron_fsdp here",
                spot.place,
                why="remove the field by hand once nothing sets it any more",
            )


RULE = Rule(
    code="FSDP023",
    name="field-definition",
    summary="a class called DistributedInitConfig defines use_megatron_fsdp",
    explanation="The definition of the old field. Its users are what this tool moves; the field itself is the owner's.",
    safety="Never edited.",
    source="megatron-core 0.19.2, training/config/common_config.py:92",
    check=check,
    valid=(
        Example("class WorkloadConfig:\n    use_megatron_fsdp: bool = False\n"),
        Example("class DistributedInitConfig:\n    use_torch_fsdp2: bool = False\n"),
        Example("class DistributedDataParallelConfig:\n    use_megatron_fsdp: bool = False\n"),
    ),
    invalid=(Example("class DistributedInitConfig:\n    use_megatron_fsdp: bool = False\n"),),
)
