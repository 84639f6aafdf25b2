"""What this machine has, found out without importing torch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata, util
from pathlib import Path

from fsdp_migrate.traincheck.plan import Machine

REHEARSAL_RANKS = 2
"""The fewest ranks on which anything is sharded."""

INSTALL = 'pip install "fsdp-migrate[train]"'


class CannotRunError(Exception):
    """The check cannot run here; the text says what to install or to choose."""


def choose(backend: str, gpus: int | None, environment: Mapping[str, str] = os.environ) -> Machine:
    """The backend and the number of processes for what was asked.

    Raises:
        CannotRunError: a package or the GPUs are missing.
    """
    missing = [name for name in ("torch", "megatron.core") if not installed(name)]
    if missing:
        packages = " and ".join(name.replace("megatron.core", "megatron-core") for name in missing)
        raise CannotRunError(f"{packages} not installed: {INSTALL}")
    here = visible_gpus(environment) if torch_has_cuda() else 0
    if backend == "auto":
        backend = "rehearsal" if here == 0 else "bridge" if installed("megatron.bridge") else "mcore"
    if backend == "bridge" and not installed("megatron.bridge"):
        raise CannotRunError("megatron-bridge not installed: pip install megatron-bridge, or use --backend mcore")
    if backend == "rehearsal":
        return Machine(backend, gpus or REHEARSAL_RANKS)
    if here == 0:
        why = "torch is a CPU build" if not torch_has_cuda() else "no GPU is visible"
        raise CannotRunError(f"--backend {backend} needs a GPU, and {why}: use --backend rehearsal")
    if gpus is not None and gpus > here:
        raise CannotRunError(f"--gpus {gpus}, but {here} visible")
    return Machine(backend, gpus or here, transformer_engine=installed("transformer_engine"))


def installed(module: str) -> bool:
    """Whether a module could be imported; of a dotted name only the parents are."""
    try:
        return util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def version_of(distribution: str) -> str:
    """The installed version, or an empty text."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def torch_has_cuda() -> bool:
    """Whether the installed torch was built for CUDA, from its ``version.py``."""
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return True
    return re.search(r"^cuda\b[^=\n]*=\s*None", text, re.MULTILINE) is None


def _listed_gpus() -> int:
    """How many GPUs ``nvidia-smi`` lists, for systems whose device files have other names."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return 0
    try:
        listed = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


def visible_gpus(environment: Mapping[str, str], devices: Path = Path("/dev")) -> int:
    """How many GPUs this process may use: the driver's device files, or what CUDA_VISIBLE_DEVICES leaves of them."""
    here = sum(re.fullmatch(r"nvidia\d+", path.name) is not None for path in devices.glob("nvidia*")) or _listed_gpus()
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return here
    names = [name.strip() for name in chosen.split(",")]
    valid = next((i for i, name in enumerate(names) if name in ("", "-1")), len(names))
    return min(here, valid)
