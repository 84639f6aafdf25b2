"""FSDP006: a mock or namespace stands in for ``dist`` in a test.

An attribute that nobody set on a MagicMock is truthy: merely deleting the dist line would switch FSDP on in the test.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import MOVE, Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity


def check(case: Case) -> Iterator[Draft]:
    if case.refusal:
        return
    for spot in case.flags("dist"):
        if spot.double:
            message = "the double of dist has use_megatron_fsdp; the double of ddp needs it"
            yield Draft(Severity.ERROR, message, spot.place, MOVE)


RULE = Rule(
    code="FSDP006",
    name="test-double",
    summary="a test double of dist has use_megatron_fsdp",
    explanation="""\
The flag must reach the double of ddp, after it is made, even if it is False: an unset attribute of a MagicMock is
truthy, and an unset one of a SimpleNamespace raises AttributeError.""",
    safety="Safe where the double of ddp is made in sight.",
    source="unittest.mock of the Python standard library",
    check=check,
    outdated=True,
    valid=(
        Example("from types import SimpleNamespace\nx = SimpleNamespace(use_megatron_fsdp=False)\n"),
        Example("from unittest.mock import MagicMock\ncfg = MagicMock()\ncfg.ddp.use_megatron_fsdp = False\n"),
        Example("from types import SimpleNamespace\nx = SimpleNamespace(dist=SimpleNamespace(rank=0))\n"),
    ),
    invalid=(
        Example(
            "from types import SimpleNamespace\n"
            "cfg = SimpleNamespace(dist=SimpleNamespace(use_megatron_fsdp=False), ddp=SimpleNamespace(a=1))\n",
            "from types import SimpleNamespace\n"
            "cfg = SimpleNamespace(dist=SimpleNamespace(), ddp=SimpleNamespace(a=1, use_megatron_fsdp=False))\n",
        ),
    ),
)
