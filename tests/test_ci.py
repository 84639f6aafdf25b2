"""The hooks for pre-commit, GitHub and GitLab: what they run, run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fsdp_migrate.discover import SUFFIXES

ROOT = Path(__file__).parents[1]
HOOKS: dict[str, dict[str, Any]] = {h["id"]: h for h in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_bytes())}
ACTION = yaml.safe_load((ROOT / ".github/actions/fsdp-migrate/action.yml").read_bytes())
GITLAB = yaml.safe_load((ROOT / ".gitlab/fsdp-migrate.yml").read_bytes())[".fsdp-migrate"]

OLD = "def recipe(cfg):\n    cfg.dist.use_megatron_fsdp = False\n"
NEW = OLD.replace("dist", "ddp")
BY_HAND = "def recipe(cfg):\n    del cfg.dist.use_megatron_fsdp\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    for name, text in {"old.py": OLD, "hand.py": BY_HAND, "skip/old.py": OLD, "clean.py": "x = 1\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    Path("fsdp-migrate.toml").write_text('exclude = ["skip/"]\n')
    return tmp_path


def git(*arguments: str) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *settings, *arguments], check=True, capture_output=True)


def own(folder: Path, *, at: str) -> dict[str, str]:
    """An environment in which the tool, a pip that installs nothing and no other program of that name is found."""
    scripts = folder / at
    scripts.mkdir(parents=True)
    for name, text in {
        "fsdp-migrate": f'exec "{sys.executable}" -m fsdp_migrate "$@"\n',
        "pip": 'printf "%s\\n" "$@" > "$PIP_ARGUMENTS"\n',
        "git": "echo git was run >&2\nexit 99\n",
    }.items():
        (scripts / name).write_text(f"#!/bin/sh\n{text}")
        (scripts / name).chmod(0o755)
    return {**os.environ, "PIP_ARGUMENTS": str(folder / "pip-arguments")}


# ── pre-commit ──────────────────────────────────────────────────────────────────────────────────────────────────────


def hook(name: str, *files: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = own(folder, at=".bin")
    environment["PATH"] = f"{folder / '.bin'}{os.pathsep}{environment['PATH']}"
    command = [*HOOKS[name]["entry"].split(), *files]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_report_hook_looks_at_its_files_alone(repository: Path) -> None:
    done = hook("fsdp-migrate", "old.py", "clean.py", "skip/old.py", folder=repository)
    assert done.returncode == 1
    assert done.stdout.startswith("old.py:2:5: FSDP001 ")
    assert "skip" not in done.stdout and "hand.py" not in done.stdout
    assert "git was run" not in done.stderr
    assert Path("old.py").read_text() == OLD


def test_the_write_hook_writes_what_is_not_committed_and_runs_no_git(repository: Path) -> None:
    done = hook("fsdp-migrate-write", "old.py", "skip/old.py", folder=repository)
    assert (done.returncode, "git was run" in done.stderr) == (0, False)
    assert Path("old.py").read_text() == NEW
    assert [Path(name).read_text() for name in ("skip/old.py", "hand.py")] == [OLD, BY_HAND]


def test_the_write_hook_fails_for_what_is_left(repository: Path) -> None:
    assert hook("fsdp-migrate-write", "hand.py", folder=repository).returncode == 1


@pytest.mark.parametrize("name", HOOKS)
def test_every_kind_of_file_gets_to_the_hooks(name: str) -> None:
    pattern = HOOKS[name]["files"]
    assert all(re.search(pattern, f"a/b{suffix}") for suffix in (*SUFFIXES, "", ".PY"))
    assert not any(re.search(pattern, f"a.py/b{suffix}") for suffix in (".c", ".txt", ".pyc"))


@pytest.mark.ecosystem
def test_pre_commit_itself(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("pre_commit")
    Path(".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: file://{snapshot(tmp_path_factory.mktemp('hooks'))}\n  rev: HEAD\n"
        "  hooks:\n  - id: fsdp-migrate-write\n    args: [--ignore, FSDP022]\n  - id: fsdp-migrate\n"
    )
    git("add", "-A")
    home = tmp_path_factory.mktemp("pre-commit")
    command = [sys.executable, "-m", "pre_commit", "run", "--color=never"]
    done = subprocess.run(
        command, env={**os.environ, "PRE_COMMIT_HOME": str(home)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "files were modified by this hook" in done.stdout
    assert "hand.py:2:" in done.stdout and "FSDP020" in done.stdout
    assert Path("old.py").read_text() == NEW
    assert [Path(name).read_text() for name in ("skip/old.py", "hand.py")] == [OLD, BY_HAND]


def snapshot(folder: Path) -> Path:
    """This checkout, with what is not committed, as a repository of its own."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, check=True
    )
    for name in os.fsdecode(listed.stdout).splitlines():
        if (ROOT / name).is_file() and not name.startswith(("tests/", "fixtures/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    git("init", "-q", str(folder))
    git("-C", str(folder), "add", "-A")
    git("-C", str(folder), "commit", "-qm", "x")
    return folder


# ── GitHub ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def act(step: int, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """One step of the action, as a runner does it: expressions only in `env`, and bash with -e and pipefail."""
    given = {name: inputs.get(name, declared["default"]) for name, declared in ACTION["inputs"].items()}
    given = {f"inputs.{name}": value for name, value in given.items()} | {"github.action_path": "/action"}
    wanted = ACTION["runs"]["steps"][step]
    environment = own(folder, at="runner/fsdp-migrate/bin") if not (folder / "runner").exists() else dict(os.environ)
    environment |= {"RUNNER_TEMP": str(folder / "runner"), "PIP_ARGUMENTS": str(folder / "pip-arguments")}
    for name, value in wanted["env"].items():
        environment[name] = re.sub(r"\$\{\{ *(\S+) *\}\}", lambda m: given[m[1]], value)
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", wanted["run"]]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_no_input_is_text_of_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


@pytest.mark.parametrize(("version", "wanted"), [("", "/action/../../.."), ("0.1.0", "fsdp-migrate==0.1.0")])
def test_the_action_installs(repository: Path, version: str, wanted: str) -> None:
    # What the step makes with `python3 -m venv` is put back by the programs that stand in for its own.
    step = ACTION["runs"]["steps"][0]
    assert step["run"].startswith('python3 -m venv "$RUNNER_TEMP/fsdp-migrate"\n')
    environment = own(repository, at="runner/fsdp-migrate/bin")
    environment |= {"RUNNER_TEMP": str(repository / "runner"), "VERSION": version, "SOURCE": "/action/../../.."}
    script = step["run"].partition("\n")[2]
    subprocess.run(["bash", "-eo", "pipefail", "-c", script], env=environment, check=True)
    assert (repository / "pip-arguments").read_text().splitlines()[-2:] == ["--", wanted]


TEXT = "--output-format text"


@pytest.mark.parametrize(
    ("inputs", "code", "files"),
    [
        ({"args": ""}, 1, {"old.py", "hand.py"}),
        ({"args": TEXT, "paths": "old.py\nskip\n"}, 1, {"old.py"}),
        ({"paths": "clean.py"}, 0, set()),
        ({"args": "--ignore FSDP0\n--isolated"}, 0, set()),
        ({"args": f"--isolated  -q\n{TEXT}", "paths": "skip"}, 1, {"skip/old.py"}),
        ({"args": "", "paths": "a b.py\n-q.py"}, 1, {"a b.py", "-q.py"}),
    ],
)
def test_the_action_runs(repository: Path, inputs: dict[str, str], code: int, files: set[str]) -> None:
    if "-q.py" in inputs.get("paths", ""):
        for name in ("a b.py", "-q.py"):
            Path(name).write_text(OLD)
    done = act(1, repository, **inputs)
    assert done.returncode == code, done.stderr
    assert {line.split(":")[0] for line in done.stdout.splitlines() if not line.startswith(" ")} == files


def test_the_action_annotates(repository: Path) -> None:
    done = act(1, repository)
    assert done.returncode == 1
    assert "::error file=old.py,line=2," in done.stdout


def test_the_action_writes_sarif(repository: Path) -> None:
    done = act(1, repository, sarif="out $(touch evil).sarif")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    (run,) = json.loads(Path("out $(touch evil).sarif").read_bytes())["runs"]
    assert {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]} == {
        "old.py",
        "hand.py",
    }
    assert not Path("evil").exists()


@pytest.mark.parametrize(
    "text", ["$(touch evil)", "`touch evil`", "; touch evil", "'; touch evil; '", "\n$(touch evil)"]
)
@pytest.mark.parametrize("name", ["paths", "args"])
def test_an_input_is_never_a_command(repository: Path, name: str, text: str) -> None:
    assert act(1, repository, **{name: text}).returncode == 2
    assert not Path("evil").exists()


# ── GitLab ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize(
    ("variables", "code", "files"),
    [
        ({"FSDP_MIGRATE_ARGS": ""}, 1, {"old.py", "hand.py"}),
        ({"FSDP_MIGRATE_PATHS": "old.py clean.py", "FSDP_MIGRATE_ARGS": "-q --ignore FSDP020"}, 1, {"old.py"}),
        ({"FSDP_MIGRATE_PATHS": "$(touch evil) ; touch evil *"}, 2, set()),
    ],
)
def test_the_gitlab_job_runs(
    repository: Path, shell: str, variables: dict[str, str], code: int, files: set[str]
) -> None:
    environment = own(repository, at=".fsdp-migrate/bin") | GITLAB["variables"] | variables
    first, *rest = GITLAB["script"]
    assert first == "python3 -m venv .fsdp-migrate"
    done = subprocess.run([shell, "-ec", "\n".join(rest)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert {line.split(":")[0] for line in done.stdout.splitlines() if not line.startswith(" ")} == files
    assert not Path("evil").exists()


def test_the_gitlab_job_writes_what_its_artifact_is(repository: Path) -> None:
    environment = own(repository, at=".fsdp-migrate/bin") | GITLAB["variables"]
    script = "\n".join(GITLAB["script"][1:])
    done = subprocess.run(["sh", "-ec", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    written = json.loads(Path(GITLAB["artifacts"]["reports"]["codequality"]).read_bytes())
    assert {finding["location"]["path"] for finding in written} == {"old.py", "hand.py"}
