"""What one check is asked to do: the values that travel from the parent to the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe as it was traced: dotted settings such as ``ddp.use_megatron_fsdp`` and their values.

    `file` is for the reader, `path` for a backend that runs the recipe. `unknown` are settings whose value only the
    absent libraries know, with the expression that makes it. `reason`, when there is one, says why the recipe could not
    be traced at all.
    """

    name: str
    file: str
    settings: Mapping[str, Any]
    unknown: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A value of the recipe that does not run as it stands. `own` is None where the recipe leaves it open."""

    setting: str
    own: Any
    run_as: Any
    why: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The scaled-down GPT. Lengths in tokens, widths in elements."""

    layers: int = 2
    hidden: int = 256
    heads: int = 8
    seq_length: int = 128
    vocabulary: int = 1024
    gated: bool = False
    per_token_loss: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One recipe, fitted to the machine.

    `own_ddp` is the recipe's ``ddp`` section, which must be accepted as it stands; `ddp` is the section that runs.
    `refusals` are reasons why a release would not take the config; a job with any is not run.
    `path` is where the recipe's function `name` lies, for the backend that calls it.
    """

    name: str
    file: str
    own_ddp: Mapping[str, Any]
    ddp: Mapping[str, Any]
    optimizer: Mapping[str, Any]
    shape: Shape = Shape()
    precision: str = "bf16"
    tensor_parallel: int = 1
    steps: int = 8
    micro_batches: int = 2
    micro_batch_size: int = 2
    seed: int = 1234
    baseline: bool = True
    checkpoint: bool = True
    replaced: tuple[Replacement, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    path: str = ""

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON values, read back by `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Job:
        """The job that `to_json` wrote."""
        values = dict(data)
        values["shape"] = Shape(**values["shape"])
        values["replaced"] = tuple(Replacement(**item) for item in values["replaced"])
        values["notes"] = tuple(values["notes"])
        values["refusals"] = tuple(values["refusals"])
        return cls(**values)
