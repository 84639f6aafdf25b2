"""FSDP119: What FSDP was exempt from when it is switched off."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, for_release, traced
from fsdp_migrate.findings import Severity

_GATHER = {"mixed_precision.fp8_param_gather": True, "mixed_precision.fp8_recipe": "mxfp8"}
_OFF = {"ddp.use_megatron_fsdp": False, "checkpoint.ckpt_format": "torch_dist"}
_REUSE = "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag"


def judge(config: Config) -> Iterator[Conflict]:
    asked = all(config.is_any(path, value) for path, value in _GATHER.items())
    if not config.fsdp and asked and config.is_any(_REUSE, False) and config.is_since("0.5"):
        yield Conflict(
            _REUSE,
            Severity.ERROR,
            f"without FSDP, weights gathered in mxfp8 need {_REUSE} = True",
            "validate() refuses it; FSDP is exempt",
            True,
        )


RULE = Rule(
    code="FSDP119",
    name="mxfp8-without-fsdp",
    summary="FSDP is off and mxfp8 weights are gathered without the shared gradient buffer",
    explanation="""\
FSDP does not use the buffer, so its recipes set it to False. Switched back to plain DDP, validate() stops.""",
    safety="Unsafe: memory is shared between gradients and gathered weights.",
    source="megatron-bridge 0.6.2, training/config.py:1349 (0.5.1: 1236); 0.4.2 does not look",
    check=check(judge),
    traceable=True,
    valid=(
        *examples({**_GATHER, _REUSE: False}, {**_OFF, **_GATHER, _REUSE: True}, {**_OFF, _REUSE: False}),
        *for_release("0.4", examples({**_OFF, **_GATHER, _REUSE: False})),
    ),
    # A Python file that only switches FSDP off is not read, so recipes show it when they are traced.
    invalid=examples({**_OFF, **_GATHER, _REUSE: False}, languages=("yaml", "shell"))
    + traced({**_OFF, **_GATHER, _REUSE: False}),
)
