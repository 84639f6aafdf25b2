"""FSDP131: With pipeline parallelism, stages name their weights alike."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Rule
from fsdp_migrate.conflicts import Config, Conflict, check, examples
from fsdp_migrate.findings import Severity


def judge(config: Config) -> Iterator[Conflict]:
    path = "model.pipeline_model_parallel_size"
    if config.fsdp and config.exceeds(path, 1) and config.keeps_checkpoints is not False:
        if config.keeps_checkpoints is None and not config.traced:
            return
        yield Conflict(
            path,
            Severity.WARNING,
            "fsdp_dtensor checkpoints mix up the weights of pipeline stages",
            "use tensor or expert parallelism instead, or prove that a loaded model goes on as before",
        )


RULE = Rule(
    code="FSDP131",
    name="pipeline-checkpoint",
    summary="FSDP checkpoints with pipeline parallelism",
    explanation="""\
The names in an fsdp_dtensor checkpoint count from the first layer of the stage. Two stages have the same names, the
checkpoint keeps one of them, and the other stage silently loads weights that are not its own. No release tests it.""",
    safety="None: save without pipeline parallelism, or compare what is loaded.",
    source=(
        "Megatron-LM issue 7452, item 12; megatron-core 0.19.2, core/optimizer/distrib_optimizer.py:1439; simulated "
        "with torch's checkpoint"
    ),
    check=check(judge),
    traceable=True,
    valid=examples({"model.pipeline_model_parallel_size": 1, "checkpoint.save": "/out"}),
    invalid=examples({"model.pipeline_model_parallel_size": 4, "checkpoint.save": "/out"}),
)
