"""The training check for real, on two gloo ranks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.traincheck.conftest import SHARDED, Rehearse, Settings, command

torch = pytest.importorskip("torch")
pytest.importorskip("megatron.core")
pytestmark = pytest.mark.rehearsal

STRATEGIES = ("optim_grads_params", "optim_grads", "optim", "no_shard")


def strategies() -> dict[str, Settings]:
    return {name: {**SHARDED, "ddp.data_parallel_sharding_strategy": name} for name in STRATEGIES}


def state(recipe: dict[str, Any], check: str) -> tuple[str, str]:
    [found] = [item for item in recipe["checks"] if item["name"] == check]
    return found["state"], found["text"]


@pytest.fixture(scope="module")
def installed(rehearse: Rehearse) -> dict[str, Any]:
    """The installed Megatron-Core on everything that is to be told apart, in one check."""
    faults: dict[str, Settings] = {
        "wrong_strategy": {**SHARDED, "ddp.data_parallel_sharding_strategy": "zero3"},
        "double_buffer": {**SHARDED, "ddp.fsdp_double_buffer": True},
        "double_buffer_again": {**SHARDED, "ddp.fsdp_double_buffer": True, "optimizer.lr": 1e-3},
        "diverging": {**SHARDED, "optimizer.lr": 10.0},
        "unknown_field": {**SHARDED, "ddp.data_parallel_sharding_strategi": "optim"},
        "torch_dist": {**SHARDED, "checkpoint.save": "checkpoints", "checkpoint.ckpt_format": "torch_dist"},
        "outer_alone": {**SHARDED, "ddp.outer_dp_sharding_strategy": "optim"},
        "gated": {**SHARDED, "model.gated_linear_unit": True},
        "not_fsdp": {"ddp.use_megatron_fsdp": False},
    }
    return rehearse({**strategies(), **faults})


@pytest.mark.parametrize("name", ["optim_grads_params", "optim_grads", "double_buffer", "double_buffer_again", "gated"])
def test_a_sound_recipe_is_rehearsed(installed: dict[str, Any], name: str) -> None:
    recipe = installed["recipes"][name]
    assert recipe["verdict"] == "rehearsed", recipe["trace"]
    assert {item["state"] for item in recipe["checks"]} == {"passed"}
    differences = [abs(a - b) / b for a, b in zip(recipe["fsdp"]["losses"], recipe["ddp"]["losses"], strict=True)]
    assert max(differences) <= 1e-5


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("no_shard", "fails: "),
        ("wrong_strategy", "fails: accepted: ddp.data_parallel_sharding_strategy = 'zero3' is no sharding strategy"),
        ("diverging", "fails: falling: loss "),
        ("unknown_field", "fails: accepted: unknown ddp field data_parallel_sharding_strategi"),
        ("torch_dist", "fails: accepted: FSDP is on and checkpoint.ckpt_format ends up as 'torch_dist'"),
        ("outer_alone", 'fails: accepted: ddp.outer_dp_sharding_strategy = "optim" needs'),
        ("not_fsdp", "not checked: Megatron FSDP is not switched on"),
    ],
)
def test_a_fault_is_named(installed: dict[str, Any], name: str, verdict: str) -> None:
    recipe = installed["recipes"][name]
    assert recipe["verdict"].startswith(verdict)
    says_what_to_do = ": set " in recipe["verdict"] or "(FSDP" in recipe["verdict"]
    assert verdict.startswith("not") or recipe["advice"] or says_what_to_do


def test_no_shard_is_not_sharded(installed: dict[str, Any]) -> None:
    kind, text = state(installed["recipes"]["no_shard"], "sharded")
    assert (kind, text[:11]) == ("failed", "not sharded")


def test_what_is_wrong_upstream_in_0_16_is_caught(installed: dict[str, Any]) -> None:
    if not installed["versions"]["megatron_core"].startswith("0.16."):
        pytest.skip("another megatron-core is installed")
    for name in ("optim", "no_shard"):
        assert state(installed["recipes"][name], "parity")[0] == "failed", name


def test_what_would_end_a_launch_is_refused_before(installed: dict[str, Any]) -> None:
    assert installed["launches"] == 1
    assert installed["exit"] == 1


def test_the_report_says_what_a_rehearsal_does_not_show(installed: dict[str, Any]) -> None:
    assert "says nothing about memory, overlap, NCCL options, CUDA graphs or fp8" in installed["stdout"]
    settings = {item["setting"] for item in installed["recipes"]["optim_grads_params"]["replaced"]}
    assert {"model", "mixed_precision", "ddp.gradient_reduce_div_fusion"} <= settings


@pytest.mark.ecosystem
def test_all_strategies_on_the_newest_release(rehearse: Rehearse, megatron_core: Callable[[str], list[Path]]) -> None:
    tensor_parallel = {**SHARDED, "model.tensor_model_parallel_size": 2, "model.gated_linear_unit": True}
    report = rehearse({**strategies(), "tensor_parallel": tensor_parallel}, python_path=megatron_core("0.19.2"))
    # Unpacked inside a git repository, it appends the commit.
    assert report["versions"]["megatron_core"].partition("+")[0] == "0.19.2"
    for name, recipe in report["recipes"].items():
        assert state(recipe, "parity")[0] == "passed", name
        assert "weights and moments" in state(recipe, "checkpoint")[1]
        assert state(recipe, "checkpoint")[0] == "passed", name
        expected = {"no_shard": "failed", "tensor_parallel": "not checked"}
        assert state(recipe, "sharded")[0] == expected.get(name, "passed"), name


class Running:
    """A check that trains for ever, and the process ids of its ranks."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        recipe = {"name": "endless", "settings": dict(SHARDED)}
        (folder / "recipes.json").write_text(json.dumps([recipe]), encoding="utf-8")
        (folder / "tmp").mkdir()
        arguments = ["--settings", "recipes.json", "--backend", "rehearsal", "--steps", "1000000", *options]
        self.process = subprocess.Popen(
            command(*arguments),
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder / "tmp")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._wait_for_steps()
        pids = (folder / "tmp").glob("*/rank-*.pid")
        self.ranks = [int(path.read_text(encoding="ascii")) for path in sorted(pids)]

    def _wait_for_steps(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.process.poll() is None:
            if any("step 3 of" in path.read_text() for path in (self.folder / "tmp").glob("*/progress.jsonl")):
                return
            time.sleep(0.1)
        self.process.kill()
        pytest.fail(f"did not come to a third step: {self.process.communicate()[0]}")

    def end(self) -> tuple[int, str]:
        """The exit code and what was printed; no rank and no file may be left."""
        output = self.process.communicate(timeout=90)[0]
        deadline = time.monotonic() + 10
        while any(map(_is_running, self.ranks)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(_is_running, self.ranks))
        return self.process.returncode, output


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_worker_is_named(tmp_path: Path) -> None:
    running = Running(tmp_path)
    os.kill(running.ranks[1], signal.SIGKILL)
    code, output = running.end()
    assert code == 1
    assert "rank 1 was ended by SIGKILL" in output
    assert "killed from outside" in output
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_hanging_worker_is_ended(tmp_path: Path) -> None:
    running = Running(tmp_path, "--timeout", "5")
    os.kill(running.ranks[1], signal.SIGSTOP)
    code, output = running.end()
    assert code == 1
    assert "no progress for 5 s" in output
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_an_interrupt_leaves_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    running = Running(tmp_path)
    running.process.send_signal(number)
    assert running.end()[0] == code
    assert list((tmp_path / "tmp").iterdir()) == []


def test_workers_die_with_the_parent(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.process.kill()
    running.end()
