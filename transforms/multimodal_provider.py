"""FSDP118: MegatronMIMO models have no FSDP yet."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.conflicts import Config, Conflict, check
from fsdp_migrate.findings import Severity
from fsdp_migrate.upstream import MIMO_PROVIDERS

_MODEL = """\
def recipe():
    cfg = base()
    cfg.ddp.use_megatron_fsdp = {on}
    cfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"
    cfg.ddp.average_in_collective = False
    cfg.checkpoint.ckpt_format = "{format}"
    cfg.model = {provider}(language_model_spec=spec)
    return cfg
"""


def _model(provider: str, *, on: bool = True) -> Example:
    return Example(_MODEL.format(on=on, provider=provider, format="fsdp_dtensor" if on else "torch_dist"))


def judge(config: Config) -> Iterator[Conflict]:
    if config.fsdp and config.is_any("model", *MIMO_PROVIDERS):
        yield Conflict(
            "model", Severity.ERROR, f"{config.get('model')} refuses FSDP", "set ddp.use_megatron_fsdp = False"
        )


RULE = Rule(
    code="FSDP118",
    name="mimo-provider",
    summary="a MegatronMIMO model with FSDP on",
    explanation="""\
validate() accepts it; when the model is made, the provider raises a NotImplementedError.""",
    safety="None: such a model trains with DDP.",
    source=(
        "megatron-bridge 0.6.2, models/megatron_mimo/megatron_mimo_provider.py:525 (504 in 0.5.1; 0.4.2: "
        "models/mimo/mimo_provider.py:407)"
    ),
    check=check(judge),
    traceable=True,
    valid=(
        _model("GPTModelProvider"),
        _model("MegatronMIMOProvider", on=False),
        _model("make_provider"),
    ),
    invalid=(_model("MegatronMIMOProvider"), _model("LlavaMegatronMIMOProvider")),
)
