"""The format of checkpoints, told by the files in their directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fsdp_migrate.api import Options, migrate_source
from fsdp_migrate.checkpoint_directory import format_of

FORMATS = {
    "torch_dist": (["iter_0000010/metadata.json", "iter_0000010/.metadata", "latest_train_state.pt"], "torch_dist"),
    "fsdp_dtensor": (["iter_0000010/.metadata", "iter_0000010/__0_0.distcp"], "fsdp_dtensor"),
    "both": (["iter_0000010/.metadata", "iter_0000020/metadata.json"], ""),
    "hugging face": (["config.json", "model-00001-of-00002.safetensors"], "hf"),
    "a tokenizer only": (["config.json", "tokenizer.json"], ""),
    "nothing yet": (["progress.txt"], ""),
}


@pytest.mark.parametrize(("files", "found"), FORMATS.values(), ids=FORMATS.keys())
def test_a_directory_has_a_format(tmp_path: Path, files: Sequence[str], found: str) -> None:
    made(tmp_path, files)
    assert format_of(str(tmp_path)) == found


def test_one_iteration_has_a_format_and_a_directory_that_is_not_there_has_none(tmp_path: Path) -> None:
    made(tmp_path, FORMATS["fsdp_dtensor"][0])
    assert format_of(str(tmp_path / "iter_0000010")) == "fsdp_dtensor"
    assert format_of(str(tmp_path / "elsewhere")) == ""


SEVERITIES = {
    "load": ('cfg.checkpoint.load = "{old}"', ["error"]),
    "load one iteration": ('cfg.checkpoint.load = "{old}/iter_0000010"', ["warning"]),
    "pretrained": ('cfg.checkpoint.pretrained_checkpoint = "{old}"', ["error"]),
    "pretrained behind a run": (
        'cfg.checkpoint.load = "{new}"\n    cfg.checkpoint.pretrained_checkpoint = "{old}"',
        [],
    ),
    "save": ('cfg.checkpoint.save = "{old}"', []),
}


@pytest.mark.parametrize(("line", "severities"), SEVERITIES.values(), ids=SEVERITIES.keys())
def test_fsdp_and_the_checkpoints_of_a_run_without(tmp_path: Path, line: str, severities: list[str]) -> None:
    made(tmp_path / "old", FORMATS["torch_dist"][0])
    made(tmp_path / "new", FORMATS["fsdp_dtensor"][0])
    text = f"def recipe():\n    cfg = base()\n    cfg.ddp.use_megatron_fsdp = True\n    {line}\n    return cfg\n"
    text = text.format(old=tmp_path.as_posix() + "/old", new=tmp_path.as_posix() + "/new")
    result = migrate_source(text.encode(), "recipe.py", Options(select=("FSDP141",)))
    assert [finding.severity.value for finding in result.findings] == severities


def made(folder: Path, files: Sequence[str]) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
