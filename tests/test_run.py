"""Many files: the same results in the same order with any number of workers, whatever happens to them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fsdp_migrate import api
from fsdp_migrate.api import Options
from fsdp_migrate.findings import Finding, Fix, Place, Result, Severity
from fsdp_migrate.run import available_cpus, find, migrate, run

# Work that a worker imports by name.


def echo(path: str) -> Result | None:
    return None if path.startswith("none") else Result(path, path.encode(), path.upper().encode())


def dies(path: str) -> Result | None:
    if path.startswith("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    return echo(path)


def where(path: str) -> Result | None:
    return Result(path, b"", str(os.getpid()).encode())


PATHS = [f"none{n}" if n % 5 == 4 else f"f{n}" for n in range(30)]


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_come_in_the_order_of_the_paths(jobs: int) -> None:
    results = list(run(PATHS, echo, jobs=jobs, pool_pays=0, sample=0))
    assert results == [echo(path) for path in PATHS]


def test_one_job_works_in_this_process() -> None:
    results = list(run(PATHS, where, jobs=1, pool_pays=0, sample=0))
    assert {result.output for result in results if result} == {str(os.getpid()).encode()}


def test_little_work_is_done_in_this_process() -> None:
    results = list(run(PATHS, where, jobs=4, pool_pays=1000))
    assert {result.output for result in results if result} == {str(os.getpid()).encode()}


def test_much_work_is_done_by_workers() -> None:
    results = list(run(PATHS, where, jobs=2, pool_pays=0, sample=0))
    assert str(os.getpid()).encode() not in {result.output for result in results if result}


@pytest.mark.parametrize("crashing", [["crash0"], ["crash0", "crash1"]], ids=["one", "two"])
def test_a_file_that_kills_its_worker_is_reported_and_the_rest_goes_on(crashing: list[str]) -> None:
    paths = PATHS[:7] + crashing[:1] + PATHS[7:20] + crashing[1:] + PATHS[20:]
    results = list(run(paths, dies, jobs=2, pool_pays=0, sample=0))
    assert len(results) == len(paths)
    for path, result in zip(paths, results, strict=True):
        if path in crashing:
            assert result is not None
            assert "the process that migrated it died" in result.error
        else:
            assert result == echo(path)


def test_stopping_early_leaves_no_worker() -> None:
    results = run(PATHS, echo, jobs=2, pool_pays=0, sample=0)
    next(results)
    assert multiprocessing.active_children()
    results.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(
        "import os, time\n"
        "from fsdp_migrate.findings import Result\n"
        "from fsdp_migrate.run import run\n"
        "def work(path):\n"
        "    return Result(path, b'', str(os.getpid()).encode())\n"
        "if __name__ == '__main__':\n"
        "    results = run([str(n) for n in range(40)], work, jobs=2, pool_pays=0, sample=0)\n"
        "    print(next(results).output.decode(), flush=True)\n"
        "    time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    for _ in range(500):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{worker}/stat").exists() and ") Z " in Path(f"/proc/{worker}/stat").read_text():
            return
        time.sleep(0.02)
    pytest.fail("the worker outlived its parent")


def test_available_cpus() -> None:
    assert available_cpus() >= 1


RECIPE = b"""\
def recipe(cfg):
    cfg.dist.use_megatron_fsdp = True
    return cfg
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("recipe.py").write_bytes(RECIPE)
    return "recipe.py"


FINDING = Finding("FSDP001", Severity.ERROR, "moved", Place(2, 1, 2, 2), Fix(()))


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object, object]]:
    calls: list[tuple[str, object, object]] = []

    def migrate_file(path: str, options: Options, *, lines: object = ()) -> Result:
        calls.append((path, options, lines))
        if path == "raises.py":
            raise RuntimeError("boom")
        return Result(path, b"old", b"new", (FINDING,), (FINDING,))

    monkeypatch.setattr(api, "migrate_file", migrate_file)
    return calls


def test_migrate_passes_options_and_the_lines_of_this_file(fake_engine: list[tuple[str, object, object]]) -> None:
    options = Options(unsafe=True)
    migrate("a.py", options, {"a.py": ((1, 2),), "b.py": ((3, 4),)})
    migrate("c.py", options, {})
    assert fake_engine == [("a.py", options, ((1, 2),)), ("c.py", options, ())]


@pytest.mark.usefixtures("fake_engine")
def test_a_frozen_file_keeps_its_findings_and_loses_its_edits() -> None:
    result = migrate("a.py", Options(), {}, frozen={"a.py"})
    assert result == Result("a.py", b"old", b"old", (FINDING,))


@pytest.mark.usefixtures("fake_engine")
def test_an_exception_is_the_result_of_one_file() -> None:
    result = migrate("raises.py", Options(), {})
    assert result is not None
    assert result.error == "internal error (RuntimeError: boom); please report it with this file"
    result = migrate("raises.py", Options(), {}, verbose=True)
    assert result is not None
    assert "Traceback" in result.error


def test_two_names_of_one_file_are_one_file(recipe: str) -> None:
    Path("z_link.py").symlink_to(recipe)
    assert find([recipe, "z_link.py", f"./{recipe}", os.path.realpath(recipe)]).paths == [recipe]


def imported(program: str, *arguments: str) -> set[str]:
    """The modules that a program has imported when it ends."""
    end = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program + end, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


RUN = "import sys\nfrom fsdp_migrate.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass"
HEAVY = {"libcst", "rich", "pathspec", "concurrent.futures", "multiprocessing", "difflib", "torch"}


def test_nothing_heavy_is_imported_when_nothing_matters(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x = 1\n")
    for options in ([], ["--diff"], ["--write"], ["--check"]):
        assert not HEAVY & imported(RUN, *options, str(tmp_path))


def test_git_is_not_run_for_named_files(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x = 1\n")
    loaded = imported(
        "import subprocess, sys\ndef run(*a, **k): raise AssertionError\nsubprocess.Popen = run\n" + RUN,
        str(tmp_path / "a.py"),
    )
    assert "fsdp_migrate.run" in loaded


def test_a_few_files_that_matter_need_no_terminal_library_and_no_pool(recipe: str) -> None:
    assert not (HEAVY - {"libcst", "difflib"}) & imported(RUN, "--diff", recipe)
