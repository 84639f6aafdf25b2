"""Pushing and pull requests: only when asked for, never by force, and nothing secret is kept."""

from __future__ import annotations

from pathlib import Path

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
