"""FSDP110: One connection per device serialises what FSDP does at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples, traced
from fsdp_migrate.findings import Severity

_NAME = "CUDA_DEVICE_MAX_CONNECTIONS"
_ADVICE = "leave it out, or set 8 or more"
_LAUNCH = "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun train.py ddp.use_megatron_fsdp=true\n"


def judge(config: Config) -> Iterator[Conflict]:
    for path in (f"env_vars.{_NAME}", f"environ.{_NAME}"):
        if not config.is_any(path, 1, "1"):
            continue
        own = f"environ.{_NAME}"
        if path != own and config.sets(own) and not config.is_any(own, 1, "1"):
            # The process's own value wins.
            continue
        if not config.fsdp:
            if config.traced:
                yield Conflict(path, Severity.INFO, f"{_NAME}=1 would be refused once FSDP is on", _ADVICE)
            continue
        late = config.is_since("0.5")
        parallel = any(config.exceeds(f"model.{name}_parallel_size", 1) for name in ("tensor_model", "context"))
        caveat = "; with tensor or context parallelism on Hopper, measure the overlap then" if parallel else ""
        yield Conflict(
            path,
            Severity.ERROR if late else Severity.WARNING,
            f"{_NAME}=1 with FSDP on: "
            + ("validate() refuses it" if late else "its communication waits for computation"),
            _ADVICE + caveat,
        )


RULE = Rule(
    code="FSDP110",
    name="device-connections",
    summary="CUDA_DEVICE_MAX_CONNECTIONS is 1 with FSDP on",
    explanation="""\
Since Bridge 0.5 validate() stops; before, communication and computation silently wait for each other. Bridge 0.6
applies cfg.env_vars first, unless the process has the variable already. Plain DDP with tensor or context
parallelism on Hopper wants 1, so this is often what is left over from it.""",
    safety="None: leave the variable out, or set 8 or more.",
    source=(
        "megatron-bridge 0.5.1, training/config.py:1142 (0.6.2: 1102; env_vars: 1832); megatron-core 0.19.0, "
        "training/arguments.py:1412"
    ),
    check=check(judge),
    traceable=True,
    valid=(
        *examples({"env_vars.CUDA_DEVICE_MAX_CONNECTIONS": "8"}, languages=("python", "yaml")),
        Example("export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun train.py ddp.use_megatron_fsdp=false\n", None, "shell"),
        Example(_LAUNCH.replace("=1", "=32"), None, "shell"),
    ),
    invalid=(
        *examples({"env_vars.CUDA_DEVICE_MAX_CONNECTIONS": "1"}, languages=("python", "yaml")),
        Example(_LAUNCH, None, "shell"),
        Example(_LAUNCH.replace("export ", "").replace("\n", " ", 1), None, "shell"),
        *traced({"ddp.use_megatron_fsdp": False, "env_vars.CUDA_DEVICE_MAX_CONNECTIONS": 1}),
    ),
)
