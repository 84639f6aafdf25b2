"""Find the rules: every module in `transforms` that has a RULE."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from fsdp_migrate import transforms
from fsdp_migrate.cases import Rule


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, by code."""
    found = []
    for module in pkgutil.iter_modules(transforms.__path__):
        rule = getattr(importlib.import_module(f"{transforms.__name__}.{module.name}"), "RULE", None)
        if isinstance(rule, Rule):
            found.append(rule)
    return tuple(sorted(found, key=lambda r: r.code))


def codes() -> tuple[str, ...]:
    return tuple(rule.code for rule in rules())


def enabled(select: tuple[str, ...], ignore: tuple[str, ...]) -> frozenset[str]:
    """Codes that a run looks at: a selected prefix (default: every rule that is on by itself) and no ignored one."""
    chosen = {r.code for r in rules() if (r.code.startswith(select) if select else r.default)}
    return frozenset(c for c in chosen if not (ignore and c.startswith(ignore)))


def needles(chosen: frozenset[str]) -> tuple[bytes, ...]:
    """What a file may have beside the flag that one of the chosen rules looks for."""
    return tuple(dict.fromkeys(needle for rule in rules() if rule.code in chosen for needle in rule.needles))
