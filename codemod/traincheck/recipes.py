"""Where the settings of the recipes come from: a trace of the targets, or a JSON file of settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fsdp_migrate.traincheck.job import Recipe


class NoRecipesError(Exception):
    """The targets or the settings file could not be read; the text says what to do."""


def traced(targets: Sequence[str]) -> tuple[Recipe, ...]:
    """The recipes of ``file``, ``file::function`` and folder targets, evaluated in a child process."""
    from fsdp_migrate.trace import TraceError, Unknown, trace_targets

    try:
        recipes = trace_targets(targets)
    except (TraceError, ValueError, OSError) as error:
        raise NoRecipesError(str(error)) from error
    found = []
    for recipe in recipes:
        settings, unknown = {}, {}
        for setting in recipe.settings:
            if isinstance(setting.value, Unknown) and not setting.value.text.startswith("torch."):
                unknown[setting.path] = setting.value.text
            else:
                settings[setting.path] = _plain(setting.value)
        path = _located(recipe.file, targets)
        found.append(Recipe(recipe.name, recipe.file, settings, unknown, recipe.reason, path))
    return tuple(found)


def _located(file: str, targets: Sequence[str]) -> str:
    """The absolute path of a traced file, which is told relative to its project's root."""
    starts = [Path(target.partition("::")[0]).absolute() for target in targets]
    candidates = [Path(file).absolute(), *(folder / file for start in starts for folder in start.parents)]
    return str(next((path for path in candidates if path.is_file()), candidates[0]))


def _plain(value: Any) -> Any:
    """A traced value as JSON; names such as ``torch.float32`` stay text."""
    if hasattr(value, "text"):
        return value.text
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def from_file(path: Path) -> tuple[Recipe, ...]:
    """Recipes from a JSON list of ``{"name", "file", "settings", "unknown", "reason"}``; `name` must be there."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return tuple(
            Recipe(
                entry["name"],
                entry.get("file", str(path)),
                entry.get("settings", {}),
                entry.get("unknown", {}),
                entry.get("reason", ""),
                str(path.parent / entry.get("file", path.name)),
            )
            for entry in entries
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoRecipesError(f"{path}: not a list of recipes with a name and settings ({error!r})") from error
