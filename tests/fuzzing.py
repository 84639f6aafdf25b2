"""How many examples the generated tests run: $FSDP_MIGRATE_FUZZ in all, 10,000 by default and then always the same."""

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
