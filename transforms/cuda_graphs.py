"""FSDP127: CUDA graphs and FSDP's module hooks."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, traced
from fsdp_migrate.findings import Severity
from fsdp_migrate.transforms.plan import UNKNOWN

# name, what it must be, the class's default (megatron-core 0.18 and later)
_WHOLE = (
    ("ddp.megatron_fsdp_cuda_graph_mode", True, False),
    ("ddp.fsdp_all_gather_in_start_param_sync", False, True),
)


def judge(config: Config) -> Iterator[Conflict]:
    path = "model.cuda_graph_impl"
    if not config.fsdp:
        return
    whole = _captures_iterations(config)
    if config.is_any(path, "transformer_engine", "local") and whole is not True:
        yield Conflict(
            path,
            Severity.WARNING if whole is None else Severity.ERROR,
            "CUDA graphs of single layers do not run FSDP's module hooks",
            'set model.cuda_graph_impl = "none"',
            "none",
        )
    elif whole and config.is_since("0.5"):
        wrong = [f"{name} = {value}" for name, value, default in _WHOLE if config.get(name, default) in (not value,)]
        if wrong:
            yield Conflict(
                path,
                Severity.ERROR,
                "CUDA graphs of whole iterations need " + " and ".join(wrong),
                "Megatron-LM sets them by itself, Bridge does not",
            )


def _captures_iterations(config: Config) -> bool | None:
    """Whether graphs are of whole iterations, which "local" may still say by its scope; None where it is not known."""
    if not config.is_any("model.cuda_graph_impl", "local"):
        return config.is_any("model.cuda_graph_impl", "full_iteration")
    scopes = [config.get(path, None) for path in ("model.cuda_graph_scope", "model.cuda_graph_modules")]
    if any("full_iteration" in scope for scope in scopes if isinstance(scope, str | list)):
        return True
    known = [scope for scope in scopes if scope is not UNKNOWN]
    return False if config.traced or known else None


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
        "perf_recipes/deepseek/gb300/deepseek_v3.py:333, utils/cuda_graph.py:121; megatron-core 0.19.2, "
        "training/training.py:2003"
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
    )
    + traced(
        {
            "model.cuda_graph_impl": "local",
            "model.cuda_graph_scope": ["full_iteration"],
            "ddp.megatron_fsdp_cuda_graph_mode": True,
            "ddp.fsdp_all_gather_in_start_param_sync": False,
        }
    ),
    invalid=examples({"model.cuda_graph_impl": "local"}, {"model.cuda_graph_impl": "transformer_engine"})
    + traced({"model.cuda_graph_impl": "full_iteration"}),
)
