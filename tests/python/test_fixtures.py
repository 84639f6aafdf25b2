"""Worked examples: a folder of fixtures/python is a sentence with a file before, a file after and what remains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdp_migrate.api import migrate_source
from fsdp_migrate.findings import Result

FIXTURES = Path(__file__).parents[2] / "fixtures" / "python"
SENTENCES = sorted(folder.name for folder in FIXTURES.iterdir())


def migrate(sentence: str, file: str) -> tuple[Result, str, list[str]]:
    """The result for one file of a fixture, the text that it must have in the end, the codes that must remain."""
    folder = FIXTURES / sentence
    expected = json.loads((folder / "expected.json").read_text())
    result = migrate_source((folder / file).read_bytes(), expected["path"])
    return result, (folder / "after.py").read_text(), expected["remaining"]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_forwards(sentence: str) -> None:
    result, after, remaining = migrate(sentence, "before.py")
    assert result.output.decode() == after
    assert sorted(f.code for f in result.remaining) == remaining
    assert not result.error


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_second_run_edits_nothing_and_says_the_same(sentence: str) -> None:
    result, after, remaining = migrate(sentence, "after.py")
    assert result.output.decode() == after
    assert sorted(f.code for f in result.findings) == remaining
    assert not result.fixed
    assert not result.error


def test_nothing_changes_without_a_finding() -> None:
    """What is not changed is either no business of the tool or explained."""
    silent = [s for s in SENTENCES if not migrate(s, "before.py")[0].findings]
    assert silent == ["look_alikes_stay"]
