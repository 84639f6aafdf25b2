"""Every fixture: what becomes of a file, what is left to do, and that a second run finds nothing new."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdp_migrate.api import migrate_source

FIXTURES = sorted(p for p in (Path(__file__).parents[2] / "fixtures" / "formats").iterdir() if p.is_dir())


def files(fixture: Path) -> tuple[Path, Path, list[str]]:
    before = next(fixture.glob("before*"))
    return before, fixture / before.name.replace("before", "after"), (fixture / "remaining").read_text().split()


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda p: p.name)
def test_forwards(fixture: Path) -> None:
    before, after, remaining = files(fixture)
    result = migrate_source(before.read_bytes(), before.name)
    assert not result.error
    assert result.output.decode() == after.read_text()
    assert sorted(f.code for f in result.remaining) == remaining


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda p: p.name)
def test_again(fixture: Path) -> None:
    _, after, remaining = files(fixture)
    result = migrate_source(after.read_bytes(), after.name)
    assert not result.error
    assert not result.changed
    assert sorted(f.code for f in result.findings) == remaining
