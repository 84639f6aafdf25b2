"""FSDP111: Manual registration is a part of NCCL user buffers."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    path = "ddp.fsdp_manual_registration"
    if config.fsdp and config.is_any(path, True) and config.get("ddp.nccl_ub", False) is False:
        late = config.is_since("0.5")
        yield Conflict(
            path,
            Severity.ERROR if late else Severity.WARNING,
            "ddp.fsdp_manual_registration needs ddp.nccl_ub = True" + ("" if late else ", and has no effect without"),
            "set ddp.nccl_ub = True, or leave both out",
        )


RULE = Rule(
    code="FSDP111",
    name="manual-registration",
    summary="ddp.fsdp_manual_registration without ddp.nccl_ub",
    explanation="""\
validate() stops since Bridge 0.5; before, the setting has no effect. nccl_ub turns it on by itself since 0.5.""",
    safety="None: which of the two is meant is the author's to say.",
    source="megatron-bridge 0.5.1, training/config.py:1150 (0.6.2: 1110); 0.4.2 does not look",
    check=check(judge),
    traceable=True,
    valid=examples(
        {"ddp.fsdp_manual_registration": True, "ddp.nccl_ub": True}, {"ddp.fsdp_manual_registration": False}
    ),
    invalid=examples({"ddp.fsdp_manual_registration": True, "ddp.nccl_ub": False}),
)
