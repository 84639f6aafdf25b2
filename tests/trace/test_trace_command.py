"""``fsdp-migrate trace`` as a user meets it: output, exit codes, stdout and stderr."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from fsdp_migrate.trace.command import trace

RECIPE = """
    from megatron.bridge.training.config import ConfigContainer
    import torch

    def my_config(size=1):
        cfg = ConfigContainer(train=torch.Train(size=size))
        cfg.ddp.use_megatron_fsdp = False
        cfg.ddp.use_megatron_fsdp = True
        cfg.model.dtype = torch.bfloat16
        return cfg
"""
BROKEN = "\ndef broken_config():\n    raise ValueError('[bold]no[/bold]')\n"


@pytest.fixture
def run(repository, monkeypatch):
    monkeypatch.chdir(repository.root)
    repository.write({"recipe.py": RECIPE})

    def invoke(*arguments: str):
        return CliRunner().invoke(trace, list(arguments))

    return invoke


def test_flat(run):
    result = run("recipe.py", "--output-format", "flat")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "# my_config (recipe.py:5)",
        "train.size = 1",
        "ddp.use_megatron_fsdp = true",
        "model.dtype = <torch.bfloat16>",
    ]
    assert result.stderr == "1 of 1 recipe evaluated\n"


def test_flat_verbose_has_places_and_what_was_overridden(run):
    lines = run("recipe.py", "--output-format", "flat", "--verbose", "--section", "ddp").stdout.splitlines()
    assert lines[1:] == [
        "# ddp.use_megatron_fsdp = false  overridden, recipe.py:7",
        "ddp.use_megatron_fsdp = true  # recipe.py:8",
    ]


def test_json(run, repository):
    (repository.root / "recipe.py").open("a").write(BROKEN)
    result = run("recipe.py", "--output-format", "json")
    assert result.exit_code == 1
    good, broken = json.loads(result.stdout)
    assert good["settings"][2] == {
        "path": "model.dtype",
        "value": {"unknown": "torch.bfloat16"},
        "file": "recipe.py",
        "line": 9,
    }
    assert broken == {
        "name": "broken_config",
        "file": "recipe.py",
        "line": 12,
        "reason": "ValueError: [bold]no[/bold] (recipe.py:13)",
    }


def test_text_is_not_cut_and_shows_names_as_they_are(run, repository):
    (repository.root / "recipe.py").open("a").write(BROKEN)
    result = run("recipe.py", "-v")
    assert "  ddp.use_megatron_fsdp  true              recipe.py:8\n" in result.stdout
    assert "  not evaluated: ValueError: [bold]no[/bold] (recipe.py:13)\n" in result.stdout
    assert result.stderr == "1 of 2 recipes evaluated\n"


def test_arguments_words_and_files(run, repository):
    pytest.importorskip("yaml")
    repository.write({"over.yaml": "train:\n  size: 5\nddp:\n  x: a\n"})
    result = run("recipe.py::my_config", "--arg", "size=[1, 2]", "--overrides", "over.yaml", "+ddp.y=1", "~model.dtype")
    assert result.exit_code == 0
    flat = run("recipe.py", "--arg", "size=text", "ddp.y=1", "--output-format", "flat").stdout
    assert 'train.size = "text"' in flat
    assert "ddp.y = 1" in flat


def test_script_arguments(run, repository):
    repository.write(
        {
            "script.py": """
                import sys
                from megatron.bridge.training.config import ConfigContainer
                from megatron.bridge.training.pretrain import pretrain
                pretrain(ConfigContainer(train=sys.argv[1:]))
            """
        }
    )
    result = run("script.py", "--output-format", "flat", "--", "--iters", "3", "a=b")
    assert 'train = ["--iters", "3", "a=b"]' in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.py"], "absent.py does not exist"),
        (["empty"], "no recipe found"),
        (["recipe.py", "a.b=[1"], "lacks its closing"),
        (["a.b=1"], "no recipe found"),
        (["recipe.py", "--arg", "size"], "write NAME=VALUE"),
        ([], "Missing argument"),
        (["recipe.py", "--overrides", "absent.yaml"], "does not exist"),
    ],
)
def test_what_cannot_be_done_is_exit_code_2(run, repository, arguments, message):
    (repository.root / "empty").mkdir()
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr


def test_help_says_that_code_is_executed(run):
    assert "executed" in run("--help").stdout


def test_conflicts_stand_below_the_settings(run, repository):
    repository.write({"recipe.py": RECIPE.replace("cfg.model.dtype", "cfg.dist.use_tp_pp_dp_mapping = True  #")})
    assert "FSDP104 dist.use_tp_pp_dp_mapping does not go with Megatron FSDP (line 9)" in run("recipe.py").stdout
    [recipe] = json.loads(run("recipe.py", "--output-format", "json", "--target", "0.6.2").stdout)
    assert ("FSDP104", "error", 9) in {(f["code"], f["severity"], f["line"]) for f in recipe["findings"]}
