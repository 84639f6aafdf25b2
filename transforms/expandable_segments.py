"""FSDP112: NCCL user buffers and expandable segments do not go together."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    if not config.fsdp or not config.is_any("ddp.nccl_ub", True):
        return
    for path in ("env_vars.PYTORCH_CUDA_ALLOC_CONF", "environ.PYTORCH_CUDA_ALLOC_CONF"):
        value = config.get(path)
        if isinstance(value, str) and "expandable_segments:True" in value.split(","):
            always = not config.is_since("0.5")
            yield Conflict(
                path,
                Severity.ERROR if always else Severity.WARNING,
                "ddp.nccl_ub is refused with expandable_segments:True" + ("" if always else " and torch before 2.11"),
                "take expandable_segments out of PYTORCH_CUDA_ALLOC_CONF, or set ddp.nccl_ub = False",
            )


RULE = Rule(
    code="FSDP112",
    name="expandable-segments",
    summary="ddp.nccl_ub with expandable segments in PYTORCH_CUDA_ALLOC_CONF",
    explanation="""\
Megatron-Core raises a ValueError: up to 0.17 (Bridge 0.4) always, since 0.18 only with torch before 2.11.""",
    safety="None: which of the two is meant is the author's to say.",
    source=(
        "megatron-core 0.17.1, core/distributed/distributed_data_parallel_config.py (__post_init__; since 0.18 only "
        "with torch before 2.11)"
    ),
    check=check(judge),
    traceable=True,
    valid=examples(
        {"ddp.nccl_ub": False, "env_vars.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        {"ddp.nccl_ub": True, "env_vars.PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"},
        languages=("python", "yaml"),
    ),
    invalid=examples(
        {"ddp.nccl_ub": True, "env_vars.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        languages=("python", "yaml"),
    ),
)
