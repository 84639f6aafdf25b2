"""FSDP130: With one data-parallel rank, gradients may be doubled."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.conflicts import Config, Conflict, check
from fsdp_migrate.findings import Severity
from fsdp_migrate.transforms.plan import UNKNOWN
from fsdp_migrate.upstream import STRATEGY

_COMM = "ddp.megatron_fsdp_grad_comm_dtype"
_ADVICE = "use more GPUs or less model parallelism"
# How Bridge's recipes say for how many GPUs they are (0.6): llama3_8b_pretrain_2gpu_h100_bf16_config.
_GPUS = re.compile(r"_(\d+)gpu_")


def _ranks(config: Config) -> int | None:
    """For how many ranks the config is: what the launcher starts, else what the recipe's name says."""
    started = config.get("launch.ranks")
    if isinstance(started, int):
        return started
    named = _GPUS.search(config.name)
    return int(named[1]) if named else None


def judge(config: Config) -> Iterator[Conflict]:
    ranks = _ranks(config)
    if not config.fsdp or ranks is None or config.is_any(STRATEGY, "no_shard", "optim"):
        return
    sizes = [config.get(f"model.{name}_parallel_size", 1) for name in ("tensor_model", "pipeline_model", "context")]
    known = [size for size in sizes if isinstance(size, int)]
    if ranks > 1 and (len(known) < len(sizes) or ranks != math.prod(known)):
        return
    doubled = config.get(_COMM, None) not in (None, UNKNOWN)
    yield Conflict(
        STRATEGY,
        Severity.WARNING if doubled else Severity.INFO,
        "there is one data-parallel rank here, so FSDP shards nothing",
        f"its gradients are doubled at every reduction: leave {_COMM} out" if doubled else _ADVICE,
    )


RULE = Rule(
    code="FSDP130",
    name="single-rank",
    summary="FSDP on a single data-parallel rank",
    explanation="""\
Nothing can be sharded then. A gradient that is reduced over one rank is added to itself: always up to Megatron-Core
0.16.1, later only if ddp.megatron_fsdp_grad_comm_dtype differs from the precision of the gradients. Fixed after
0.19.""",
    safety="None: use more GPUs or less model parallelism.",
    source=(
        "megatron-core 0.16.1 (always) and 0.17 to 0.19.2 (with another communication precision), run; Megatron-LM "
        "issue 6660"
    ),
    check=check(judge),
    traceable=True,
    valid=(
        Example(
            "torchrun --nproc-per-node 8 train.py ddp.use_megatron_fsdp=true model.tensor_model_parallel_size=4\n",
            None,
            "shell",
        ),
        Example("torchrun --nproc-per-node $GPUS train.py ddp.use_megatron_fsdp=true\n", None, "shell"),
        Example("torchrun --nproc-per-node 1 --nnodes 4 train.py ddp.use_megatron_fsdp=true\n", None, "shell"),
    ),
    invalid=(Example("torchrun --nproc-per-node 1 train.py ddp.use_megatron_fsdp=true\n", None, "shell"),),
)
