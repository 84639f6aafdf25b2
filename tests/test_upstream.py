"""The release that a run is for."""

from __future__ import annotations

import pytest

from fsdp_migrate.upstream import release_of


@pytest.mark.parametrize(
    ("target", "release"),
    [("0.4", "0.4"), ("main", "main"), ("0.5.1", "0.5"), ("0.6.2", "0.6"), ("0.3.1", "0.4"), ("0.7.0", "main")],
)
def test_a_version_is_one_of_the_known_releases(target: str, release: str) -> None:
    assert release_of(target) == release
