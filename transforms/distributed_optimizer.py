"""FSDP107: Megatron FSDP works with the distributed optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    for path in ("ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"):
        other = ({"ddp", "optimizer"} - {path.partition(".")[0]}).pop()
        if not config.fsdp or not config.is_any(path, False):
            continue
        if config.is_any(f"{other}.use_distributed_optimizer", True):
            continue
        late = config.is_since("0.5")
        yield Conflict(
            path,
            Severity.INFO if late else Severity.WARNING,
            f"{path} is False with FSDP on"
            + (", and Bridge switches it on" if late else ", and Bridge 0.4 leaves it so"),
            "set ddp.use_distributed_optimizer = True",
            True,
        )


RULE = Rule(
    code="FSDP107",
    name="distributed-optimizer",
    summary="the distributed optimizer is switched off with FSDP on",
    explanation="""\
Bridge 0.5 and later switch it on and print a line. 0.4 leaves it off without a word, and the optimizer that it
makes does not know of sharded parameters.""",
    safety="Unsafe: the optimizer's state gets another layout.",
    source="megatron-bridge 0.5.1, training/config.py:1117 (0.6.2: 1077); 0.4.2 has no such line",
    check=check(judge),
    traceable=True,
    valid=examples(
        {"ddp.use_distributed_optimizer": True},
        {
            "ddp.use_megatron_fsdp": False,
            "ddp.use_distributed_optimizer": False,
            "checkpoint.ckpt_format": "torch_dist",
        },
    ),
    invalid=examples({"ddp.use_distributed_optimizer": False}),
)
