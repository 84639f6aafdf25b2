"""Many repositories of every kind of trouble: previewed, applied, applied again, killed and resumed, on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bulk.repositories import BRANCH, KINDS, git, make, plan, snapshot

NUMBER = int(os.environ.get("FSDP_MIGRATE_REPOSITORIES", "36"))
TOOL = [sys.executable, "-m", "fsdp_migrate", "bulk"]


def bulk(*words: str | Path, code: int | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*TOOL, *map(str, words)], capture_output=True, text=True)
    assert code is None or done.returncode == code, done.stderr
    return done


def rows(plan: Path) -> dict[str, dict[str, Any]]:
    """What the report says, by repository; without times."""
    reported = json.loads(bulk("report", "--format", "json", plan, code=0).stdout)["repositories"]
    for row in reported:
        del row["seconds"]
        for check in row["checks"]:
            del check["seconds"]
    return {row["key"]: row for row in reported}


def heads(plan: Path) -> dict[str, str]:
    mirrors = plan.with_suffix(".bulk") / "mirrors"
    return {
        mirror.name: git(mirror, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads")
        for mirror in sorted(mirrors.glob("*.git"))
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("bulk")
    return folder, make(folder / "repositories", NUMBER)


@pytest.fixture(scope="module")
def before(world: tuple[Path, dict[str, str]]) -> dict[str, tuple[int, int, str]]:
    return snapshot(world[0] / "repositories")


@pytest.fixture(scope="module")
def applied(world: tuple[Path, dict[str, str]], before: object) -> tuple[Path, dict[str, dict[str, Any]]]:
    path = plan(world[0])
    bulk("apply", path, code=2)
    return path, rows(path)


def another(world: tuple[Path, dict[str, str]], name: str) -> Path:
    """The same plan under another name: with a state and a work folder of its own."""
    path = plan(world[0]).rename(world[0] / f"{name}.toml")
    plan(world[0])
    return path


def test_every_kind_of_repository_gets_its_row(world: Any, applied: Any) -> None:
    by_name = {row["name"]: row for row in reversed(applied[1].values())}
    wrong = []
    for name, kind in world[1].items():
        row, expected = by_name[f"repositories/{name}"], KINDS[kind]
        text = "\n".join([row["reason"], *row["notes"], *row["left"]])
        if row["state"] != expected.state or expected.said not in text:
            wrong.append((name, row["state"], text))
    assert not wrong
    reasons = {row["reason"] for row in applied[1].values()}
    assert "is not there: correct the entry in the plan" in reasons
    assert "is the same repository as repositories/000-recipe: remove one of them" in reasons
    assert any(reason.startswith("is no path and no URL") for reason in reasons)


def test_a_commit_holds_the_migration_and_nothing_else(applied: Any) -> None:
    path, found = applied
    changed = [row for row in found.values() if row["state"] == "changed"]
    assert changed
    for row in changed:
        mirror = path.with_suffix(".bulk") / "mirrors" / f"{row['key']}.git"
        assert git(mirror, "rev-parse", f"refs/heads/{BRANCH}", f"{row['commit']}^").split() == [
            row["commit"],
            row["base"],
        ]
        assert git(mirror, "log", "-1", "--format=%an <%ae>, %cn, %s", BRANCH) == (
            "Platform Team <platform@example.com>, Platform Team, Move the flag"
        )
        names = git(mirror, "diff", "--name-only", "-z", row["base"], row["commit"]).split("\0")
        assert sorted(filter(None, names)) == sorted(file["path"] for file in row["files"])
        git(mirror, "fsck", "--strict", "--no-dangling")
    failed = [row["key"] for row in found.values() if row["state"] != "changed"]
    assert not [key for key in failed if heads(path).get(f"{key}.git")]
    assert not os.listdir(path.with_suffix(".bulk") / "trees") or not any(
        (path.with_suffix(".bulk") / "trees").glob("*recipe*")
    )


def test_line_ends_stay_as_they_are_committed(applied: Any) -> None:
    row = next(row for row in applied[1].values() if row["name"].endswith("-line-ends"))
    mirror = applied[0].with_suffix(".bulk") / "mirrors" / f"{row['key']}.git"
    assert "\r" not in git(mirror, "show", f"{BRANCH}:recipe.py")


def test_nothing_in_the_repositories_is_touched_or_executed(world: Any, before: Any, applied: Any) -> None:
    assert snapshot(world[0] / "repositories") == before
    assert not (world[0] / "repositories" / "executed").exists()


def test_a_second_run_finds_everything_done(applied: Any) -> None:
    path, found = applied
    refs = heads(path)
    events = [json.loads(line) for line in bulk("apply", "--progress", "json", path).stderr.splitlines()[:-1]]
    cached = {event["key"] for event in events if event["event"] == "end" and event["cached"]}
    assert cached == {key for key, row in found.items() if row["state"] != "failed"}
    assert rows(path) == found
    assert heads(path) == refs


def test_preview_says_what_apply_does(world: Any, before: Any, applied: Any) -> None:
    path = another(world, "previewed")
    bulk("preview", path, code=2)
    seen = rows(path)
    for key, row in applied[1].items():
        if row["state"] == "changed":
            assert (seen[key]["diff"], seen[key]["left"]) == (row["diff"], row["left"])
    assert not any(heads(path).values())
    assert snapshot(world[0] / "repositories") == before


@pytest.mark.parametrize("after", [1, 20])
def test_a_killed_run_is_resumed(world: Any, before: Any, applied: Any, after: int) -> None:
    path = another(world, f"killed-{after}")
    with subprocess.Popen([*TOOL, "apply", "--progress", "json", path], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if json.loads(line).get("done") == after:
                break
        run.send_signal(signal.SIGKILL)
    kept = rows(path)
    assert after - 1 <= len(kept) < len(applied[1])
    bulk("apply", path, code=2)
    assert rows(path) == applied[1]
    assert heads(path) == heads(applied[0])
    assert snapshot(world[0] / "repositories") == before


def test_ctrl_c_is_resumed(world: Any, applied: Any) -> None:
    path = another(world, "interrupted")
    with subprocess.Popen([*TOOL, "apply", "--progress", "json", path], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if json.loads(line).get("done") == 5:
                break
        run.send_signal(signal.SIGINT)
        run.stderr.read()
    assert run.returncode == 130
    bulk("apply", path, code=2)
    assert rows(path) == applied[1]


def test_a_dask_cluster_comes_to_the_same(world: Any, before: Any, applied: Any) -> None:
    distributed = pytest.importorskip("distributed")
    path = another(world, "dask")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        bulk("apply", "--scheduler", cluster.scheduler_address, path, code=2)
    assert rows(path) == applied[1]
    assert heads(path) == heads(applied[0])
    assert snapshot(world[0] / "repositories") == before


def test_two_runs_on_one_plan_exclude_each_other(applied: Any) -> None:
    from fsdp_migrate.bulk.state import lock

    with lock(str(applied[0].with_suffix(".bulk") / "lock")):
        done = bulk("apply", applied[0], code=2)
    assert f"process {os.getpid()} works on this plan" in done.stderr
