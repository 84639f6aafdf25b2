"""One job on Megatron-Core: FSDP, its checkpoint, plain DDP. For the `mcore` backend and the rehearsal."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import megatron.core
import torch
import torch.distributed as dist
from megatron.core import parallel_state

from fsdp_migrate.traincheck import checkpoint, drift, mcore
from fsdp_migrate.traincheck.exchange import Measured, Resumed, Versions
from fsdp_migrate.traincheck.job import Job

NEXT_STEPS = 2
"""Steps after a checkpoint: the first shows the weights, the second the optimizer's moments as well."""

Report = Callable[[str], None]
Keep = Callable[..., None]


def start(*, on_gpu: bool) -> tuple[Callable[[Job, Path, Report, Keep], None], Versions, Callable[[], None]]:
    """Process groups and CUDA, once for all jobs: what runs a job, what it runs with, and what ends it."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
    drift.check_pairing()
    device_name = torch.cuda.get_device_name(device) if on_gpu else "CPU"
    versions = Versions(torch=torch.__version__, megatron_core=megatron.core.__version__, device=device_name)
    cache: dict[str, Measured] = {}

    def run(job: Job, folder: Path, report: Report, keep: Keep) -> None:
        _run(job, folder, device, cache, report, keep)

    return run, versions, dist.destroy_process_group


def _run(job: Job, folder: Path, device: torch.device, cache: dict[str, Measured], report: Report, keep: Keep) -> None:
    refusal = refused(job)
    if refusal:
        keep(refused=refusal)
        return
    _parallel_sizes(job)
    group = parallel_state.get_data_parallel_group()
    keep(data_parallel=dist.get_world_size(group))
    report("FSDP: building the model")
    trainer = mcore.Trainer(job, device, fsdp=True, seed=job.seed)
    keep(one_rank_fault=dist.get_world_size(group) == 1 and drift.one_rank_gradient_fault(trainer.ddp))
    keep(fsdp=trainer.train(report))
    if job.checkpoint:
        keep(resumed=_resume(trainer, folder, report))
    trainer.close()
    if job.baseline:
        key = _baseline_key(job)
        if key not in cache:
            report("DDP: building the model")
            plain = mcore.Trainer(job, device, fsdp=False, seed=job.seed)
            cache[key] = plain.train(report)
            plain.close()
        keep(ddp=cache[key])


def refused(job: Job) -> str:
    """Why the installed Megatron-Core does not take the recipe's own ``ddp`` section; empty if it does."""
    unknown = drift.unknown_ddp_fields(job.own_ddp)
    if unknown:
        return f"unknown ddp field {', '.join(unknown)} (megatron-core {megatron.core.__version__})"
    try:
        drift.ddp_config(job.own_ddp)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _parallel_sizes(job: Job) -> None:
    if parallel_state.model_parallel_is_initialized():
        if parallel_state.get_tensor_model_parallel_world_size() == job.tensor_parallel:
            return
        parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=job.tensor_parallel)


def _resume(trainer: mcore.Trainer, folder: Path, report: Report) -> Resumed:
    started = time.perf_counter()
    moments = drift.saves_optimizer_state()
    report("checkpoint: saving")
    checkpoint.save(trainer, folder, optimizer=moments)
    dist.barrier()
    files = tuple(sorted(path.name for path in folder.iterdir()))
    report("checkpoint: going on")
    went_on = tuple(trainer.step()[0] for _ in range(NEXT_STEPS))
    report("checkpoint: loading into a fresh model")
    fresh = mcore.Trainer(trainer.job, trainer.device, fsdp=True, seed=trainer.job.seed + 1)
    checkpoint.load(fresh, folder, optimizer=moments)
    report("checkpoint: going on from it")
    loaded = tuple(fresh.step()[0] for _ in range(NEXT_STEPS))
    dist.barrier()
    fresh.close()
    if dist.get_rank() == 0:
        shutil.rmtree(folder)
    return Resumed(went_on, loaded, moments, files, time.perf_counter() - started)


def _baseline_key(job: Job) -> str:
    """What plain DDP depends on; recipes that agree on it share one run."""
    section = [(name, job.ddp.get(name)) for name in mcore.BASELINE_DDP_FIELDS]
    sizes = (job.tensor_parallel, job.steps, job.micro_batches, job.micro_batch_size, job.seed)
    return repr((section, sorted(job.optimizer.items()), job.shape, job.precision, sizes))
