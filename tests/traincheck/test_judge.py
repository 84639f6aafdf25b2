"""From numbers to verdicts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fsdp_migrate.traincheck.advice import advise
from fsdp_migrate.traincheck.exchange import Failure, Measured, Outcome, Resumed
from fsdp_migrate.traincheck.job import Job
from fsdp_migrate.traincheck.judge import State, Verdict, judge, relative_difference

DDP = Measured((4.0, 3.0, 2.0), (1.0, 1.0, 1.0), 1.0, 0, {"weights": 100, "gradients": 100, "optimizer": 200}, 9, 9)
FSDP = replace(DDP, elements={"weights": 52, "gradients": 52, "optimizer": 104})
RESUMED = Resumed((1.5, 1.2), (1.5, 1.2), True)
SOUND = Outcome(0, 0, fsdp=FSDP, ddp=DDP, resumed=RESUMED, data_parallel=2)
SECTION = {"use_megatron_fsdp": True, "data_parallel_sharding_strategy": "optim_grads_params"}


def job(**more: Any) -> Job:
    return Job("recipe", "recipe.py", SECTION, SECTION, {"lr": 1e-3}, **more)


def judged(outcome: Outcome, **more: Any) -> Verdict:
    return judge(job(**more), [outcome, replace(outcome, rank=1)], "mcore")


def test_a_sound_recipe_trains() -> None:
    verdict = judged(SOUND)
    assert (verdict.word, verdict.good) == ("trains", True)
    assert {check.state for check in verdict.checks} == {State.PASSED}
    assert judge(job(), [SOUND], "rehearsal").word == "rehearsed"


@pytest.mark.parametrize(
    ("outcome", "failed", "text"),
    [
        (replace(SOUND, refused="unknown ddp field x"), "accepted", "unknown ddp field x"),
        (replace(SOUND, fsdp=replace(FSDP, losses=(4.0, math.nan, 2.0))), "finite", "step 2 of 3"),
        (replace(SOUND, fsdp=replace(FSDP, losses=(4.0, 4.0, 4.0))), "falling", "4.0000 → 4.0000"),
        (replace(SOUND, fsdp=replace(FSDP, changed_tensors=0)), "changed", "0 of 18"),
        (replace(SOUND, fsdp=replace(FSDP, losses=(4.0, 3.1, 2.0))), "parity", "3.3e-02"),
        (replace(SOUND, fsdp=replace(FSDP, gradient_norms=(1.5, 1.0, 1.0))), "parity", "norm 5.0e-01"),
        (replace(SOUND, fsdp=replace(FSDP, elements=DDP.elements)), "sharded", "weights 1.00"),
        (
            replace(SOUND, fsdp=replace(FSDP, elements={**FSDP.elements, "gradients": 100})),
            "sharded",
            "gradients 1.00",
        ),
        (replace(SOUND, resumed=replace(RESUMED, loaded=(1.6, 1.2))), "checkpoint", "1.6000 against 1.5000"),
        (replace(SOUND, resumed=replace(RESUMED, loaded=(1.5, 1.3))), "checkpoint", "8e-02"),
    ],
)
def test_what_fails_is_named_with_its_number(outcome: Outcome, failed: str, text: str) -> None:
    verdict = judged(outcome)
    assert verdict.word.startswith(f"fails: {failed}: ")
    assert text in verdict.word
    assert verdict.advice
    assert not verdict.good


def test_a_refused_config_is_not_judged_further() -> None:
    verdict = judge(job(refusals=("the format",)), [], "mcore")
    assert verdict.word == "fails: accepted: the format"
    assert [check.name for check in verdict.checks] == ["accepted"]


@pytest.mark.parametrize(
    ("outcome", "more", "check"),
    [
        (replace(SOUND, data_parallel=1), {}, "sharded"),
        (replace(SOUND, one_rank_fault=True), {}, "parity"),
        (replace(SOUND, ddp=None), {"baseline": False}, "parity"),
        (replace(SOUND, resumed=None), {"checkpoint": False}, "checkpoint"),
    ],
)
def test_what_cannot_be_checked_here_is_said(outcome: Outcome, more: dict[str, Any], check: str) -> None:
    verdict = judged(outcome, **more)
    assert verdict.check(check).state is State.NOT_CHECKED
    assert verdict.word == "trains"


def test_weights_alone_need_the_next_loss_only() -> None:
    verdict = judged(replace(SOUND, resumed=Resumed((1.5, 1.2), (1.5, 1.3), False)))
    assert verdict.check("checkpoint").state is State.PASSED


def test_a_failure_is_told_with_what_was_being_done() -> None:
    failure = Failure("FSDP: building the model", "OutOfMemoryError", "CUDA out of memory. Tried to allocate 4 GiB")
    verdict = judge(job(), [Outcome(0, 0), Outcome(0, 1, failure=failure)], "mcore")
    assert verdict.word.startswith("fails: run: OutOfMemoryError: CUDA out of memory")
    assert "(while: FSDP: building the model)" in verdict.word
    assert "--hidden" in verdict.advice


def test_a_silent_assertion_is_told_by_its_line() -> None:
    trace = 'File "megatron_fsdp.py", line 337\n    assert self.ddp_config.overlap_grad_reduce\nAssertionError'
    verdict = judge(job(), [Outcome(0, 0, failure=Failure("start", "AssertionError", "", trace))], "mcore")
    assert "assert self.ddp_config.overlap_grad_reduce" in verdict.word
    assert "data_parallel_sharding_strategy must be" in verdict.advice


def test_what_the_releases_cannot_do_is_not_the_recipes_fault() -> None:
    outcome = Outcome(0, 0, failure=Failure("start", "NotHereError", "needs an older torch"))
    assert judge(job(), [outcome], "mcore").word == "not checked: needs an older torch"


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("ValueError: Invalid data_parallel_sharding_strategy: zero3", "optim_grads_params"),
        ("AttributeError: 'NoneType' object has no attribute 'data_parallel_group'", "num_distributed_optimizer"),
        ("Megatron-FSDP requires the fsdp_dtensor checkpointing format!", "ckpt_format"),
        ("killed: rank 1 was ended by SIGKILL", "dmesg"),
        ("hang: no progress for 20 s", "--keep-logs"),
        ("something nobody has seen", ""),
    ],
)
def test_advice(message: str, part: str) -> None:
    assert part in advise(message)
    assert bool(part) == bool(advise(message))


def test_relative_difference() -> None:
    assert relative_difference((1.0, 2.0), (1.0, 2.2)) == pytest.approx(0.2 / 2.2)
    assert relative_difference((1.0,), (1.0, 2.0)) == math.inf
    assert relative_difference((math.nan,), (1.0,)) == math.inf
    assert relative_difference((), ()) == 0.0
