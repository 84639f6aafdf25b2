"""How many examples the generated tests run: parts of $FSDP_MIGRATE_FUZZ, by default of 10,000 and always the same."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_GIVEN = os.environ.get("FSDP_MIGRATE_FUZZ", "")


def share(part: float) -> settings:
    """Settings for a test that gets this part of all examples."""
    return settings(
        max_examples=max(10, round(part * int(_GIVEN or 10_000))),
        deadline=None,
        derandomize=not _GIVEN,
        suppress_health_check=list(HealthCheck),
    )
