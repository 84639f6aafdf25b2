"""Effective configs: what a recipe really ends up with.

`trace_targets` runs recipe functions and scripts in a child process, in which whatever cannot be imported is a
recording stand-in, and returns the settings each one ends up with. `compare` judges two such results, before and after
a migration. Nothing here executes user code in the calling process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsdp_migrate.trace.comparison import Comparison, Difference, Status, compare
    from fsdp_migrate.trace.public import public_recipe
    from fsdp_migrate.trace.run import TraceError, trace_targets
    from fsdp_migrate.trace.values import Assumption, Setting, TracedRecipe, Unknown
    from fsdp_migrate.trace.verification import affected_files, verify

__all__ = [
    "Assumption",
    "Comparison",
    "Difference",
    "Setting",
    "Status",
    "TraceError",
    "TracedRecipe",
    "Unknown",
    "affected_files",
    "compare",
    "public_recipe",
    "trace_targets",
    "verify",
]

_HOMES = {
    "comparison": ("Comparison", "Difference", "Status", "compare"),
    "public": ("public_recipe",),
    "run": ("TraceError", "trace_targets"),
    "values": ("Assumption", "Setting", "TracedRecipe", "Unknown"),
    "verification": ("affected_files", "verify"),
}


def __getattr__(name: str) -> object:
    """Import on first use: a run that traces nothing should not pay for it."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            loaded = import_module(f"{__name__}.{module}")
            globals().update({n: getattr(loaded, n) for n in names})
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
