"""From numbers to verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from fsdp_migrate.traincheck import advice
from fsdp_migrate.traincheck.exchange import Failure, Measured, Outcome
from fsdp_migrate.traincheck.job import Job

PARITY = {"fp32": 1e-5, "bf16": 1e-3}
"""Largest relative difference between the FSDP and the DDP loss at any step, by precision."""

GRADIENT_PARITY = {"fp32": 1e-4, "bf16": 2e-2}
"""Largest relative difference of the first step's gradient norm. Adam hides a wrong factor; the norm shows it."""

RELOADED = 1e-6
"""Largest relative difference between the next loss of the run that saved and of the one that loaded."""

PADDING = 1.15
"""A rank's share of a small model may be this much above 1 / data-parallel size: shards are padded to equal length."""

SHARDED_PARTS = {
    "optim": ("optimizer",),
    "optim_grads": ("optimizer", "gradients"),
    "optim_grads_params": ("optimizer", "gradients", "weights"),
}
"""What each strategy spreads over the ranks; ``no_shard`` is not in it (``param_and_grad_buffer.py``)."""


class State(Enum):
    """What became of one check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one recipe. `text` holds the number; `advice` what to do when it failed."""

    name: str
    state: State
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said about one recipe.

    `word` is ``trains``, ``rehearsed``, ``fails: ...`` or ``not checked: ...``; `good` means the best word that the
    backend has. `peak_bytes` are for the ranks in order, under FSDP and under plain DDP; `seconds` is the slowest
    rank's.
    """

    name: str
    file: str
    word: str
    good: bool
    checks: tuple[Check, ...] = ()
    advice: str = ""
    job: Job | None = None
    fsdp: Measured | None = None
    ddp: Measured | None = None
    peak_bytes: tuple[int, ...] = ()
    ddp_peak_bytes: tuple[int, ...] = ()
    seconds: float = 0.0
    trace: str = ""

    def check(self, name: str) -> Check:
        """The check of that name. Raises `KeyError` where it was not made."""
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)


def not_checked(name: str, file: str, why: str) -> Verdict:
    """A recipe that could not even be made into a job."""
    return Verdict(name, file, f"not checked: {why}", good=False)


def judge(job: Job, outcomes: Sequence[Outcome], backend: str) -> Verdict:
    """The verdict on one job from what its ranks measured, in order of rank."""
    first = outcomes[0] if outcomes else Outcome(0, 0)
    failing = next((outcome for outcome in outcomes if outcome.failure is not None), None)
    if failing is not None and failing.failure is not None and failing.failure.kind == "NotHereError":
        return _verdict(job, outcomes, (), f"not checked: {failing.failure.message}", "")
    checks = [_accepted(job, first)]
    if checks[0].state is State.PASSED:
        if failing is not None and failing.failure is not None:
            checks.append(_run_failed(failing.failure))
        checks += [_finite(first), _falling(first), _changed(outcomes), _parity(job, first)]
        checks += [_sharded(job, outcomes), _reloaded(job, first)]
    failed = next((check for check in checks if check.state is State.FAILED), None)
    if failed is not None:
        word = f"fails: {failed.name}: {failed.text}"
    else:
        word = "rehearsed" if backend == "rehearsal" else "trains"
    return _verdict(job, outcomes, tuple(checks), word, failed.advice if failed else "")


def _verdict(job: Job, outcomes: Sequence[Outcome], checks: tuple[Check, ...], word: str, what_to_do: str) -> Verdict:
    first = outcomes[0] if outcomes else Outcome(0, 0)
    failure = next((outcome.failure for outcome in outcomes if outcome.failure is not None), None)
    return Verdict(
        name=job.name,
        file=job.file,
        word=word,
        good=word in ("trains", "rehearsed"),
        checks=checks,
        advice=what_to_do,
        job=job,
        fsdp=first.fsdp,
        ddp=first.ddp,
        peak_bytes=tuple(outcome.fsdp.peak_bytes for outcome in outcomes if outcome.fsdp),
        ddp_peak_bytes=tuple(outcome.ddp.peak_bytes for outcome in outcomes if outcome.ddp),
        seconds=max((outcome.seconds for outcome in outcomes), default=0.0),
        trace=failure.trace if failure else "",
    )


def _accepted(job: Job, first: Outcome) -> Check:
    if job.refusals:
        return Check("accepted", State.FAILED, job.refusals[0], "; ".join(job.refusals[1:]))
    if first.refused:
        return Check("accepted", State.FAILED, first.refused, advice.advise(first.refused))
    return Check("accepted", State.PASSED, "the recipe's own values are accepted")


def _run_failed(failure: Failure) -> Check:
    """Upstream asserts without a text in places; then the line that asserted is what tells."""
    said = str(failure)
    last_line = next((line for line in reversed(failure.trace.splitlines()) if line.startswith("    ")), "").strip()
    if failure.kind == "AssertionError" and not failure.message:
        said = f"AssertionError at `{last_line}`"
    what_to_do = advice.advise(said) or advice.advise("\n".join(failure.trace.splitlines()[-6:]))
    return Check("run", State.FAILED, f"{said} (while: {failure.phase})", what_to_do)


def _finite(first: Outcome) -> Check:
    if first.fsdp is None:
        return Check("finite", State.NOT_CHECKED, "did not train to the end")
    losses = first.fsdp.losses
    bad = next((step for step, loss in enumerate(losses) if not math.isfinite(loss)), None)
    if bad is not None:
        text = f"loss is not finite at step {bad + 1} of {len(losses)}"
        return Check("finite", State.FAILED, text, advice.advise(text))
    return Check("finite", State.PASSED, f"loss finite at all {len(losses)} steps")


def _falling(first: Outcome) -> Check:
    if first.fsdp is None:
        return Check("falling", State.NOT_CHECKED, "did not train to the end")
    losses = first.fsdp.losses
    if len(losses) < 2:
        return Check("falling", State.NOT_CHECKED, "one step only")
    text = f"loss {losses[0]:.4f} → {losses[-1]:.4f}"
    if losses[-1] < losses[0]:
        return Check("falling", State.PASSED, text)
    return Check("falling", State.FAILED, text, advice.NOT_FALLING)


def _changed(outcomes: Sequence[Outcome]) -> Check:
    runs = [outcome.fsdp for outcome in outcomes if outcome.fsdp and outcome.fsdp.tensors]
    if not runs:
        return Check("changed", State.NOT_CHECKED, "did not train to the end")
    changed, tensors = sum(run.changed_tensors for run in runs), sum(run.tensors for run in runs)
    text = f"{changed} of {tensors} parameter shards changed"
    if changed:
        return Check("changed", State.PASSED, text)
    return Check("changed", State.FAILED, text, advice.NOT_CHANGED)


def _parity(job: Job, first: Outcome) -> Check:
    if not job.baseline:
        return Check("parity", State.NOT_CHECKED, "switched off")
    if first.fsdp is None or first.ddp is None:
        return Check("parity", State.NOT_CHECKED, "no two curves to compare")
    if first.one_rank_fault:
        why = "upstream multiplies gradients on one data-parallel rank with these dtypes (Megatron-LM issue 6660)"
        return Check("parity", State.NOT_CHECKED, why)
    difference = relative_difference(first.fsdp.losses, first.ddp.losses)
    limit = PARITY[job.precision]
    norms = relative_difference(first.fsdp.gradient_norms[:1], first.ddp.gradient_norms[:1])
    norm_limit = GRADIENT_PARITY[job.precision]
    text = (
        f"FSDP against DDP: loss {difference:.1e} (limit {limit:.0e}), gradient norm {norms:.1e} (limit "
        f"{norm_limit:.0e}), {job.precision}"
    )
    if difference <= limit and norms <= norm_limit:
        return Check("parity", State.PASSED, text)
    return Check("parity", State.FAILED, text, advice.NOT_EQUAL_TO_DDP)


def relative_difference(curve: Sequence[float], reference: Sequence[float]) -> float:
    """The largest relative difference at any step; infinite where a curve is not finite or ends early."""
    if len(curve) != len(reference) or not all(math.isfinite(loss) for loss in (*curve, *reference)):
        return math.inf
    return max((abs(a - b) / max(abs(b), 1e-12) for a, b in zip(curve, reference, strict=True)), default=0.0)


def _sharded(job: Job, outcomes: Sequence[Outcome]) -> Check:
    ranks = outcomes[0].data_parallel if outcomes else 1
    if ranks == 1:
        return Check("sharded", State.NOT_CHECKED, "one data-parallel rank")
    runs = [outcome.fsdp for outcome in outcomes if outcome.fsdp and outcome.fsdp.elements]
    if not runs:
        return Check("sharded", State.NOT_CHECKED, "did not train to the end")
    whole = next((outcome.ddp.elements for outcome in outcomes if outcome.ddp), None)
    if not whole:
        return Check("sharded", State.NOT_CHECKED, "no DDP run to compare with")
    shares = {part: max(run.elements[part] for run in runs) / whole[part] for part in whole if whole[part]}
    text = f"{', '.join(f'{part} {share:.2f}' for part, share in shares.items())} of DDP's on each of {ranks} ranks"
    expected = SHARDED_PARTS.get(str(job.ddp.get("data_parallel_sharding_strategy", "no_shard")), ())
    kept_whole = [part for part in expected if shares.get(part, 0.0) > PADDING / ranks]
    if not expected or kept_whole:
        return Check("sharded", State.FAILED, f"not sharded: {text}", advice.NOT_SHARDED)
    return Check("sharded", State.PASSED, text)


def _reloaded(job: Job, first: Outcome) -> Check:
    if not job.checkpoint:
        return Check("checkpoint", State.NOT_CHECKED, "switched off")
    resumed = first.resumed
    if resumed is None or not resumed.loaded:
        return Check("checkpoint", State.NOT_CHECKED, "did not come to it")
    count = len(resumed.loaded) if resumed.optimizer else 1
    difference = relative_difference(resumed.loaded[:count], resumed.went_on[:count])
    saved = "weights and moments" if resumed.optimizer else "weights"
    text = (
        f"fsdp_dtensor, {saved}: next loss {resumed.loaded[0]:.4f} against {resumed.went_on[0]:.4f} ({difference:.0e})"
    )
    if difference <= RELOADED:
        return Check("checkpoint", State.PASSED, text)
    return Check("checkpoint", State.FAILED, text, advice.NOT_RELOADED)
