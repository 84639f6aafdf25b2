"""What the public recipes of each Megatron-Bridge release set in `ddp`, `dist` and `checkpoint`.

The data files were made by `fsdp_migrate.trace.generate_data` from the published wheels. They hold facts only: names,
setting paths and literal values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from fsdp_migrate.trace.values import from_json

DATA: Final = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class PublicRecipe:
    """What one public recipe sets.

    Attributes:
        release: the release that the facts are from, such as ``0.6.2``.
        settings: by path, such as ``ddp.use_megatron_fsdp``. What is absent has its class's default.
    """

    release: str
    settings: Mapping[str, object]


def public_recipe(module: str, name: str, release: str) -> PublicRecipe | None:
    """Look up a recipe function called without arguments.

    Args:
        module: where it is imported from, such as ``megatron.bridge.recipes.llama``; packages re-export their modules.
        name: such as ``llama3_8b_pretrain_config``.
        release: such as ``0.6.2``, ``0.6`` (its newest known patch) or ``main`` (the newest known release).

    Returns:
        None where the release or the recipe is not known, or modules disagree on the name and `module` is none of them.
    """
    known = known_release(release)
    if known is None:
        return None
    data = _read(known)
    index = data["recipes"].get(name)
    if isinstance(index, dict):
        fitting = {number for home, number in index.items() if _within(home, module)}
        index = fitting.pop() if len(fitting) == 1 else None
    if index is None:
        return None
    settings: dict[str, object] = {}
    for section in data["sets"][index]:
        settings.update({path: from_json(value) for path, value in data["sections"][section].items()})
    return PublicRecipe(known, settings)


def known_release(release: str) -> str | None:
    """The newest known release that `release` stands for."""
    releases = sorted((file.stem for file in DATA.glob("*.json")), key=_version)
    if release == "main":
        return releases[-1] if releases else None
    wanted = release.removeprefix("v").split(".")[:3]
    if release in releases:
        return release
    fitting = [known for known in releases if known.split(".")[: min(2, len(wanted))] == wanted[:2]]
    return fitting[-1] if fitting and wanted != [""] else None


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release))


def _within(home: str, module: str) -> bool:
    return home == module or home.startswith(f"{module}.")


@cache
def _read(release: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((DATA / f"{release}.json").read_text(encoding="utf-8"))
    return data
