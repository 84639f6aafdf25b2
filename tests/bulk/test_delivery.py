"""Pushing and pull requests: only when asked for, never by force, and nothing secret is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdp_migrate.bulk.sources import without_credentials
from tests.bulk.repositories import BRANCH, RECIPE, git, made
from tests.bulk.test_bulk import bulk, rows

PLAN = f"""\
repositories = ["a", "b"]
branch = "{BRANCH}"
message = "Move"
author = "Platform <platform@example.com>"
at-end = ["sh", "-c", "echo opened >> ../../../opened; echo https://user:secret@example.com/1?token=x", "{{branch}}"]
"""


def test_a_branch_is_pushed_and_opened_once_and_grows_with_its_base(tmp_path: Path) -> None:
    source, refusing = (made(tmp_path / name, {"recipe.py": RECIPE}) for name in "ab")
    git(refusing, "config", "transfer.hideRefs", "refs/heads/fsdp-migrate")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    bulk("apply", path, code=0)
    assert git(source, "branch", "--list", BRANCH) == ""
    for _ in range(2):
        bulk("apply", "--push", "--open", path, code=2)
    first = git(source, "rev-parse", BRANCH)
    (source / "new.py").write_text("x = 1\n")
    git(source, "add", "new.py")
    git(source, "commit", "-q", "-m", "Go on")
    bulk("apply", "--push", "--open", path, code=2)
    assert git(source, "rev-parse", f"{BRANCH}^1", f"{BRANCH}^2").split() == [first, git(source, "rev-parse", "main")]
    assert (tmp_path / "opened").read_text() == "opened\n"
    assert git(source, "status", "--short") == ""
    found = {row["name"]: row for row in rows(path).values()}
    assert (found["a"]["delivered"], found["a"]["url"]) == ("opened", "https://example.com/1")
    assert found["b"]["reason"].startswith("the push was rejected")
    assert b"secret" not in (tmp_path / "plan.bulk" / "state.sqlite").read_bytes()


@pytest.mark.parametrize("place", ["hooks", "elsewhere"])
def test_a_push_neither_runs_nor_goes_around_a_hook(tmp_path: Path, place: str) -> None:
    source = made(tmp_path / "a", {"recipe.py": RECIPE})
    hooks = source / ".git" / place
    hooks.mkdir()
    (hooks / "pre-receive").write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\n")
    (hooks / "pre-receive").chmod(0o755)
    if place != "hooks":
        git(source, "config", "core.hooksPath", ".git/elsewhere")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace(', "b"', ""))
    bulk("apply", "--push", path, code=2)
    (row,) = rows(path).values()
    assert "for its hook pre-receive" in row["reason"]
    assert row["commit"]
    assert git(source, "branch", "--list", BRANCH) == ""
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:hush@host/a.git", "https://host/a.git"),
        ("https://hush@host:8443/a?access_token=hush", "https://host:8443/a"),
        ("fatal: unable to access 'https://me:hush@host/a/': no", "fatal: unable to access 'https://host/a/': no"),
        ("me:hush@host:team/a.git", "host:team/a.git"),
        ("git@host:team/a.git", "git@host:team/a.git"),
        ("ssh://git@host/a.git", "ssh://host/a.git"),
        ("recipes/a.py:3: FSDP001 moved to b@c:d", "recipes/a.py:3: FSDP001 moved to b@c:d"),
    ],
)
def test_credentials_are_left_out(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
