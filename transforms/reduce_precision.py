"""FSDP129: Megatron-Core 0.19 reads another setting for the precision of gradients."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    path, new = "ddp.grad_reduce_in_fp32", "ddp.megatron_fsdp_main_grads_dtype"
    if not config.fsdp or not config.is_any(path, True) or not config.is_since("0.6"):
        return
    if config.sets(new) and config.get(new) is not None:
        return
    yield Conflict(
        path,
        Severity.INFO,
        f"Megatron-Core 0.19 does not read {path} under FSDP: a bf16 model keeps bf16 gradients",
        f"to keep fp32 gradients set {new} = torch.float32",
    )


RULE = Rule(
    code="FSDP129",
    name="reduce-precision",
    summary="ddp.grad_reduce_in_fp32 has no effect under FSDP since Bridge 0.6",
    explanation="""\
Up to Megatron-Core 0.18 (Bridge 0.5) the adapter took fp32 gradients from it. Since 0.19 a bf16 model accumulates
and reduces in bf16 unless ddp.megatron_fsdp_main_grads_dtype says otherwise. Nothing prints a word, and the loss
differs.""",
    safety="None: the new setting needs an import of torch; it is said where.",
    source=(
        "megatron-core 0.19.2, core/distributed/fsdp/mcore_fsdp_adapter.py (0.18.2 maps it: 119-127); run on 0.16.1 "
        "to 0.19.2"
    ),
    check=check(judge),
    traceable=True,
    valid=examples(
        {"ddp.grad_reduce_in_fp32": False},
        {"ddp.grad_reduce_in_fp32": True, "ddp.megatron_fsdp_main_grads_dtype": "float32"},
    ),
    invalid=examples({"ddp.grad_reduce_in_fp32": True}),
)
