"""Seconds to trace every public recipe of an unpacked Megatron-Bridge wheel.

    python tests/bench/trace.py path/to/unpacked/wheel [repetitions]

The target is 2 s for 0.6.2 on two cores. Prints the fastest and the slowest run.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fsdp_migrate.trace import trace_targets


def main(wheel: Path, repetitions: int) -> None:
    folders = [wheel / "megatron" / "bridge" / name for name in ("recipes", "perf_recipes")]
    targets = [str(folder) for folder in folders if folder.is_dir()]
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        recipes = trace_targets(targets, release="", project_root=wheel)
        seconds.append(time.perf_counter() - start)
    evaluated = sum(not recipe.reason for recipe in recipes)
    sys.stdout.write(
        f"{evaluated} of {len(recipes)} recipes evaluated, {min(seconds):.2f} to {max(seconds):.2f} s "
        f"in {repetitions} runs\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
