"""FSDP127: CUDA graphs and FSDP's module hooks."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, traced
from fsdp_migrate.findings import Severity

# name, what it must be, the class's default (megatron-core 0.18 and later)
_WHOLE = (
    ("ddp.megatron_fsdp_cuda_graph_mode", True, False),
    ("ddp.fsdp_all_gather_in_start_param_sync", False, True),
)


def judge(config: Config) -> Iterator[Conflict]:
    path = "model.cuda_graph_impl"
    if not config.fsdp:
        return
    if config.is_any(path, "transformer_engine", "local"):
        yield Conflict(
            path,
            Severity.ERROR,
            "CUDA graphs of single layers do not run FSDP's module hooks",
            'set model.cuda_graph_impl = "none"',
            "none",
        )
    elif config.is_any(path, "full_iteration"):
        wrong = [f"{name} = {value}" for name, value, default in _WHOLE if config.get(name, default) in (not value,)]
        if wrong:
            yield Conflict(
                path,
                Severity.ERROR,
                "CUDA graphs of whole iterations need " + " and ".join(wrong),
                "Megatron-LM sets them by itself, Bridge does not",
            )


RULE = Rule(
    code="FSDP127",
    name="cuda-graphs",
    summary="CUDA graphs that do not go with FSDP",
    explanation="""\
FSDP gathers and frees weights in module hooks, which graphs of single layers do not run: Bridge's own FSDP recipes
set "none". Graphs of whole iterations need two ddp settings that Megatron-LM makes by itself and Bridge does not.""",
    safety="Unsafe: switches CUDA graphs off.",
    source=(
        "megatron-bridge 0.6.2, recipes/nemotronh/gb200/nemotron_3_nano.py:187 and "
        "perf_recipes/deepseek/gb300/deepseek_v3.py:333; megatron-core 0.19.2, training/training.py:2003"
    ),
    check=check(judge),
    traceable=True,
    valid=examples(
        {"model.cuda_graph_impl": "none"},
        {
            "model.cuda_graph_impl": "full_iteration",
            "ddp.megatron_fsdp_cuda_graph_mode": True,
            "ddp.fsdp_all_gather_in_start_param_sync": False,
        },
    ),
    invalid=examples({"model.cuda_graph_impl": "local"}) + traced({"model.cuda_graph_impl": "full_iteration"}),
)
