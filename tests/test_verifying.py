"""`--verify`: what a recipe would notice is not written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fsdp_migrate.api import migrate_file
from fsdp_migrate.run import Outcome
from fsdp_migrate.trace import Status
from fsdp_migrate.transforms import plan
from fsdp_migrate.verifying import verified

RECIPE = """\
from megatron.bridge.recipes.common import _pretrain_common


def tiny_pretrain_config():
    cfg = _pretrain_common()
    cfg.dist.use_megatron_fsdp = True
    cfg.ddp.use_megatron_fsdp = False
    return cfg
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "recipes" / "tiny.py"
    file.parent.mkdir()
    file.write_text(RECIPE)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return file


def _outcome(file: Path) -> Outcome:
    result = migrate_file(str(file))
    assert result is not None and result.changed
    return Outcome(result, "")


def test_a_right_migration_is_kept(recipe: Path) -> None:
    kept, verdicts = verified([_outcome(recipe)], "")
    assert kept[0].result.changed
    assert [v.status for v in verdicts] == [Status.COMPANIONS]


def test_a_wrong_rule_is_caught(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the invariant the plan takes its first idea: it deletes the dist store, and FSDP goes off."""
    monkeypatch.setattr(plan._Run, "check", lambda self, state: None)
    outcome = _outcome(recipe)
    assert b"= True" not in outcome.result.output
    kept, verdicts = verified([outcome], "")
    assert [v.status for v in verdicts] == [Status.DIFFERENT]
    assert not kept[0].result.changed
    assert not kept[0].result.fixed
    assert "tiny_pretrain_config would end up different" in kept[0].result.findings[0].why


@pytest.mark.parametrize("option", ["--diff", "--write"])
def test_the_command_verifies(recipe: Path, option: str) -> None:
    command = [sys.executable, "-m", "fsdp_migrate", "recipes", option, "--verify", "--allow-dirty"]
    done = subprocess.run(command, cwd=recipe.parent.parent, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if option == "--diff" else 0), done.stderr
    assert "companions added" in done.stderr
    assert (recipe.read_text() == RECIPE) is (option == "--diff")


def test_verify_wants_a_change_to_look_at(recipe: Path) -> None:
    command = [sys.executable, "-m", "fsdp_migrate", "--verify", str(recipe)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "add --diff or --write" in done.stderr
