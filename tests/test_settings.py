"""Settings: which file holds for which source file, what beats what, and what is wrong with a file."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from fsdp_migrate.registry import codes, enabled
from fsdp_migrate.settings import Chosen, Settings, SettingsError, forget, inline, listing, read_file

RECIPE = "def recipe():\n    cfg = base()\n    cfg.dist.use_megatron_fsdp = True\n    return cfg\n"
HEADER = "[tool.fsdp-migrate]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("a/b", ".git"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("x.py", "a/x.py", "a/b/x.py"):
        (tmp_path / name).write_text(RECIPE)
    forget()
    return tmp_path


def run(*arguments: str, data: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fsdp_migrate", *arguments]
    return subprocess.run(command, input=data, capture_output=True, text=True, check=False)


def chosen_by(chosen: Chosen, path: str) -> set[str]:
    options = chosen.options(path)
    return set(enabled(options.select, options.ignore))


# ── Which file ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_nearest_file_holds_alone(project: Path) -> None:
    Path("pyproject.toml").write_text(HEADER + 'select = ["FSDP001"]\ntarget = "main"\n')
    Path("a/fsdp-migrate.toml").write_text('select = ["FSDP003"]\n')
    Path("a/b/pyproject.toml").write_text('[project]\nname = "x"\n')  # without the table it does not count
    assert chosen_by(Chosen(), "x.py") == {"FSDP001"}
    assert chosen_by(Chosen(), "a/b/x.py") == {"FSDP003"}
    assert [Chosen().options(p).target for p in ("x.py", "a/x.py")] == ["main", ""]


def test_in_one_folder_the_own_file_beats_pyproject(project: Path) -> None:
    Path("pyproject.toml").write_text(HEADER + 'select = ["FSDP001"]\n')
    Path("fsdp-migrate.toml").write_text('select = ["FSDP003"]\n')
    assert chosen_by(Chosen(), "x.py") == {"FSDP003"}


def test_the_search_ends_at_the_repository(project: Path) -> None:
    Path("pyproject.toml").write_text(HEADER + 'select = ["FSDP001"]\n')
    Path("a/b/.git").write_text("gitdir: elsewhere\n")
    assert chosen_by(Chosen(), "a/x.py") == {"FSDP001"}
    assert chosen_by(Chosen(), "a/b/x.py") == set(enabled((), ()))


def test_a_named_file_and_no_file(project: Path) -> None:
    Path("pyproject.toml").write_text(HEADER + 'select = ["FSDP001"]\n')
    Path("other.toml").write_text('select = ["FSDP003"]\n')
    assert chosen_by(Chosen(file=str(project / "other.toml")), "x.py") == {"FSDP003"}
    assert chosen_by(Chosen(isolated=True), "x.py") == set(enabled((), ()))
    with pytest.raises(SettingsError, match="no such settings file"):
        Chosen(file=str(project / "none.toml")).options("x.py")


def test_a_pipe_or_a_folder_of_that_name_is_no_settings_file(project: Path) -> None:
    Path("fsdp-migrate.toml").mkdir()
    assert chosen_by(Chosen(), "x.py") == set(enabled((), ()))


# ── What beats what ─────────────────────────────────────────────────────────────────────────────────────────────────

LAYERS = {
    "files": ('ignore = ["FSDP01"]', "", {"FSDP001"}, {"FSDP010"}),
    "extend-select adds": (
        'select = ["FSDP001"]\nextend-select = ["FSDP010"]',
        "",
        {"FSDP001", "FSDP010"},
        {"FSDP003"},
    ),
    "ignore adds up": ('ignore = ["FSDP01"]', 'ignore = ["FSDP003"]', {"FSDP001"}, {"FSDP010", "FSDP003"}),
    "select starts afresh": ('ignore = ["FSDP01"]', 'select = ["FSDP0"]', {"FSDP010"}, {"FSDP900"}),
    "extend-select brings back": ('ignore = ["FSDP01"]', 'extend-select = ["FSDP012"]', {"FSDP012"}, {"FSDP010"}),
}


@pytest.mark.parametrize(("file", "line", "on", "off"), LAYERS.values(), ids=LAYERS)
def test_the_command_line_beats_files(project: Path, file: str, line: str, on: set[str], off: set[str]) -> None:
    Path("fsdp-migrate.toml").write_text(file)
    selected = chosen_by(Chosen(inline(line)), "x.py")
    assert on <= selected
    assert not off & selected


def test_everything_can_be_ignored(project: Path) -> None:
    Path("fsdp-migrate.toml").write_text('ignore = ["FSDP"]')
    assert chosen_by(Chosen(), "x.py") == set()


@pytest.mark.parametrize(
    ("pattern", "path", "holds"),
    [
        ("x.py", "a/b/x.py", True),
        ("/x.py", "a/x.py", False),
        ("a/**", "a/b/x.py", True),
        ("b/", "a/b/x.py", True),
        ("*.yaml", "x.py", False),
    ],
)
def test_codes_are_ignored_per_file(project: Path, pattern: str, path: str, holds: bool) -> None:
    Path("fsdp-migrate.toml").write_text(f'per-file-ignores = {{"{pattern}" = ["FSDP00"]}}')
    assert ("FSDP001" not in chosen_by(Chosen(), path)) is holds


def test_patterns_are_relative_to_their_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a/fsdp-migrate.toml").write_text('exclude = ["/b/x.py"]')
    assert Chosen().left_out()("a/b/x.py") == "exclude, a/fsdp-migrate.toml:1"
    monkeypatch.chdir("a/b")
    assert Chosen().left_out()("x.py")
    assert not Chosen().left_out()("../x.py")


def test_a_choice_goes_to_workers(project: Path) -> None:
    Path("fsdp-migrate.toml").write_text('select = ["FSDP003"]')
    assert pickle.loads(pickle.dumps(Chosen().options))("x.py") == Chosen().options("x.py")


# ── What is wrong ───────────────────────────────────────────────────────────────────────────────────────────────────

WRONG = {
    "key": ('\nsellect = ["FSDP001"]', 'fsdp-migrate.toml:2: there is no setting \'sellect\': did you mean select?'),
    "underscore": ('extend_select = []', "did you mean extend-select?"),
    "code": ('select = ["FSPD001"]', "no rule code begins with 'FSPD001': did you mean FSDP001?"),
    "empty code": ('ignore = [""]', "no rule code begins with ''"),
    "type": ('x = 1\nselect = "FSDP001"', "there is no setting 'x'"),
    "string": ('select = "FSDP001"', "1: select must be a list of strings"),
    "bool": ("unsafe-fixes = 1", "unsafe-fixes must be true or false"),
    "target": ('\n\ntarget = "0.7"', "fsdp-migrate.toml:3: target must be one of '0.4', '0.5', '0.6', 'main'"),
    "table": ("per-file-ignores = []", "per-file-ignores must be a table"),
    "inner": ('select = []\n[per-file-ignores]\n"x" = "y"', "fsdp-migrate.toml:2: per-file-ignores must be a table"),
    "root": ('root-names = ["a b"]', "root-names must be a list of names"),
    "section": ('section-names = {optim = ["x"]}', "section-names must be a table of dist, ddp, checkpoint"),
    "toml": ("select = [", "is not valid TOML"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_says_where_and_what(project: Path, text: str, message: str) -> None:
    Path("fsdp-migrate.toml").write_text(text)
    with pytest.raises(SettingsError) as error:
        Chosen().options("a/x.py")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"[project]\nselect = 1\n\n{HEADER}x = 1\nbad = 1\n", 5),
        (f'{HEADER}# bad = 1\n\n"bad" = 1\n', 4),
        (f"{HEADER}\n[tool.fsdp-migrate.bad]\nx = 1\n", 3),
        ("[ tool . 'fsdp-migrate' ]\r\n\r\nbad = 1\r\n", 3),
    ],
)
def test_the_line_in_pyproject(project: Path, text: str, line: int) -> None:
    Path("pyproject.toml").write_text(text, newline="")
    with pytest.raises(SettingsError, match=rf"^pyproject\.toml:{line}: "):
        read_file("pyproject.toml")


# ── The command ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_with_settings(project: Path) -> None:
    text = 'select = ["FSDP0"]\nexclude = ["b/"]\nper-file-ignores = {"a/x.py" = ["FSDP01"]}\n'
    Path("pyproject.toml").write_text(HEADER + text)
    done = run(".", "-q")
    assert {line.split(":")[0] for line in done.stdout.splitlines()} == {"a/x.py", "x.py"}
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("a/")] == ["FSDP001"]
    assert "a/b/x.py" in run("a/b/x.py", "-q").stdout
    assert run("a/b/x.py", "-q", "--force-exclude").stdout == ""
    assert "a/b/x.py" in run(".", "-q", "--isolated").stdout
    assert "a/b/x.py" in run(".", "-q", "--exclude", "nothing").stdout


def test_a_run_over_nothing_says_what_left_it_out(project: Path) -> None:
    Path("fsdp-migrate.toml").write_text('exclude = ["a/"]')
    done = run("a")
    assert done.returncode == 0
    assert "every file is left out: 2 by exclude, fsdp-migrate.toml:1; --isolated looks at them" in done.stderr
    assert "left out" not in run(".").stderr


def test_stdin_gets_the_settings_of_its_name(project: Path) -> None:
    Path("a/fsdp-migrate.toml").write_text('ignore = ["FSDP01"]')
    done = run("--stdin-filename", "a/new.py", "-", data=RECIPE)
    assert done.stdout == RECIPE.replace("dist", "ddp")
    assert run("--stdin-filename", "new.py", "-", data=RECIPE).stdout.count("\n") == 7


def test_stdin_may_be_excluded_by_its_name(project: Path) -> None:
    Path("fsdp-migrate.toml").write_text('exclude = ["a/"]')
    arguments = ["--stdin-filename", "a/new.py", "-"]
    assert run(*arguments, data=RECIPE).stdout != RECIPE
    assert run("--force-exclude", *arguments, data=RECIPE).stdout == RECIPE
    assert run("--force-exclude", "--diff", *arguments, data=RECIPE).stdout == ""


@pytest.mark.parametrize("arguments", [(".",), ("--stdin-filename", "x.py", "-"), ("--show-settings",)])
def test_a_wrong_file_ends_the_run(project: Path, arguments: tuple[str, ...]) -> None:
    Path("fsdp-migrate.toml").write_text("selct = []")
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: fsdp-migrate.toml:1: there is no setting 'selct': did you mean select?\n"


def test_show_settings(project: Path) -> None:
    Path("fsdp-migrate.toml").write_text('\nselect = ["FSDP0"]\nsection-names = {dist = ["init"]}\n')
    done = run("--show-settings", "a", "--target", "main", "--config", "unsafe-fixes = true")
    assert done.returncode == 0
    shown = dict(line.split(" = ", 1) for line in done.stdout.splitlines()[1:])
    assert shown["select"] == '["FSDP0"]  # fsdp-migrate.toml:2'
    assert shown["section-names"] == '{"dist" = ["init"]}  # fsdp-migrate.toml:3'
    assert shown["target"] == '"main"  # --target'
    assert shown["unsafe-fixes"] == "true  # --config 'unsafe-fixes = true'"
    assert shown["ignore"] == "[]  # default"


def test_what_is_shown_can_be_read_back(project: Path) -> None:
    text = 'select = ["FSDP0"]\nper-file-ignores = {"ü x" = ["FSDP01"], y = []}\nunsafe-fixes = true\n'
    once = inline(text) if codes() else Settings()
    shown = "".join(line for line in listing(once) if "target" not in line)
    assert {**once.values} == {key: value for key, value in inline(shown).values.items() if key in once.values}


def test_nothing_of_it_is_imported_where_nothing_matters(project: Path) -> None:
    Path("x.py").write_text("x = 1\n")
    program = (
        "import sys\nfrom fsdp_migrate.cli import _status\n_status(['x.py', '--diff'])\n"
        "print([m for m in ('tomllib', 'pathspec', 'fsdp_migrate.registry', 'libcst') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
