"""Make the data files of `public_recipe` from unpacked Megatron-Bridge wheels.

    pip download --no-deps --python-version 3.12 --only-binary=:all: megatron-bridge==0.6.2
    python -m zipfile -e megatron_bridge-0.6.2-py3-none-any.whl 0.6.2
    python -m fsdp_migrate.trace.generate_data 0.6.2

The release is read from the wheel's metadata. Recipes are evaluated like any other, with stand-ins; only literal values
below `ddp`, `dist` and `checkpoint` are kept, each distinct set of a section once.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from fsdp_migrate.trace.public import DATA
from fsdp_migrate.trace.run import trace_targets
from fsdp_migrate.trace.values import TracedRecipe, to_json

_SECTIONS = ("ddp", "dist", "checkpoint")
_FOLDERS = ("recipes", "perf_recipes")


def release_of(wheel: Path) -> str:
    """The version in an unpacked wheel's metadata."""
    [folder] = wheel.glob("megatron_bridge-*.dist-info")
    return folder.name.removeprefix("megatron_bridge-").removesuffix(".dist-info")


def facts(wheel: Path) -> Mapping[str, object]:
    """What the public recipes of an unpacked wheel set, in the form of a data file."""
    folders = [wheel / "megatron" / "bridge" / name for name in _FOLDERS]
    recipes = trace_targets(
        [str(folder) for folder in folders if folder.is_dir()],
        release="",
        project_root=wheel,
        aliases=True,
    )
    sections: dict[str, int] = {}
    sets: dict[tuple[int, ...], int] = {}
    homes: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for recipe in recipes:
        if recipe.reason:
            continue
        parts = tuple(sections.setdefault(part, len(sections)) for part in _parts(recipe))
        module = recipe.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        homes[recipe.name][module] = sets.setdefault(parts, len(sets))
    return {
        "release": release_of(wheel),
        "sections": [json.loads(part) for part in sections],
        "sets": [list(parts) for parts in sets],
        "recipes": {name: _index(modules) for name, modules in sorted(homes.items())},
    }


def _parts(recipe: TracedRecipe) -> Sequence[str]:
    """The three sections as JSON texts."""
    return [
        json.dumps({s.path: to_json(s.value) for s in recipe.settings if s.path.startswith(f"{name}.")}, sort_keys=True)
        for name in _SECTIONS
    ]


def _index(modules: Mapping[str, int]) -> int | Mapping[str, int]:
    numbers = set(modules.values())
    return numbers.pop() if len(numbers) == 1 else dict(sorted(modules.items()))


def main(wheels: Sequence[str]) -> None:
    if not wheels:
        sys.exit("usage: python -m fsdp_migrate.trace.generate_data WHEEL_DIR...")
    DATA.mkdir(exist_ok=True)
    for wheel in map(Path, wheels):
        found = facts(wheel.absolute())
        file = DATA / f"{found['release']}.json"
        file.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")
        sys.stdout.write(f"{file}: {file.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
