"""FSDP211: ``dataset.sequence_length`` became ``dataset.seq_length``."""

from __future__ import annotations

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.findings import Severity
from fsdp_migrate.neighbours.names import SEQUENCE_LENGTH
from fsdp_migrate.neighbours.sighting import check

_BRIDGE = "from megatron.bridge.training.config import ConfigContainer\n"

RULE = Rule(
    code="FSDP211",
    name="sequence-length",
    summary="dataset.sequence_length is dataset.seq_length",
    explanation="""\
In Bridge 0.6 seq_length is the field of GPTDatasetConfig, and finalize() writes it over sequence_length: what is stored
there is lost. Before 0.6 it was the other way around, so older targets are left.""",
    safety="Unsafe where the class of the dataset is not in sight.",
    source="megatron-bridge 0.6.2, training/config.py:231 and 304",
    check=check(SEQUENCE_LENGTH, Severity.WARNING, "{old} is overwritten since Bridge 0.6; it is {new}"),
    default=False,
    needles=(b"sequence_length",),
    valid=(
        Example(f"{_BRIDGE}cfg.dataset.seq_length = 4096\n"),
        Example(f"{_BRIDGE}cfg.dataset.sequence_length = 4096\n", target="0.5"),
        Example("cfg.dataset.sequence_length = 4096\n"),
        Example("dataset:\n  sequence_length: 4096\n", language="yaml"),
    ),
    invalid=(
        Example(f"{_BRIDGE}cfg.dataset.sequence_length = 4096\n", f"{_BRIDGE}cfg.dataset.seq_length = 4096\n"),
        Example(
            "from megatron.bridge.training.config import GPTDatasetConfig\nGPTDatasetConfig(sequence_length=8)\n",
            "from megatron.bridge.training.config import GPTDatasetConfig\nGPTDatasetConfig(seq_length=8)\n",
        ),
        Example(
            "# Megatron-Bridge\ndataset:\n  sequence_length: 8\n",
            "# Megatron-Bridge\ndataset:\n  seq_length: 8\n",
            "yaml",
        ),
    ),
)
