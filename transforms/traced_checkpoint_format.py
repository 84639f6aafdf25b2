"""FSDP102: A recipe with FSDP on that ends up with another checkpoint format."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, traced
from fsdp_migrate.findings import Severity
from fsdp_migrate.transforms.plan import UNKNOWN
from fsdp_migrate.upstream import CKPT_FORMAT, VERSION


def judge(config: Config) -> Iterator[Conflict]:
    format_ = config.get(CKPT_FORMAT, "torch_dist")
    if not (config.traced and config.fsdp) or format_ in ("fsdp_dtensor", UNKNOWN):
        return
    if config.is_any(VERSION, 2):
        return
    keeps = config.keeps_checkpoints
    what = "with checkpoint.save or checkpoint.load set, validate() refuses it"
    if not keeps:
        what = "validate() refuses it as soon as checkpoint.save or checkpoint.load is set"
    yield Conflict(
        CKPT_FORMAT,
        Severity.ERROR if keeps else Severity.WARNING,
        f"FSDP is on and checkpoint.ckpt_format ends up as {format_!r}: {what}",
        'set checkpoint.ckpt_format = "fsdp_dtensor" in this recipe',
    )


RULE = Rule(
    code="FSDP102",
    name="traced-ckpt-format",
    summary="a recipe turns FSDP on and ends up with another checkpoint format",
    explanation="""\
With checkpoint.save or checkpoint.load set, validate() stops unless ckpt_format is "fsdp_dtensor". Without them the
recipe runs, until somebody sets one on the command line. FSDP012 says the same about what one scope can see.""",
    safety="None: FSDP012 fixes it where the recipe sets the flag.",
    source="megatron-bridge 0.6.2, training/config.py:1099 (1124 in 0.4.2, 1139 in 0.5.1)",
    check=check(judge),
    traceable=True,
    same_as="FSDP012",
    valid=traced(
        {}, {"ddp.use_megatron_fsdp": False, "checkpoint.ckpt_format": "torch_dist"}, {"checkpoint.save": "/out"}
    ),
    invalid=traced(
        {"checkpoint.ckpt_format": "torch_dist", "checkpoint.save": "/out"},
        {"checkpoint.ckpt_format": "torch_dist", "checkpoint.save": None, "checkpoint.load": None},
    ),
)
