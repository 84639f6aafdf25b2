"""The command line as a user meets it: what it prints where, what it writes, and how it exits."""

from __future__ import annotations

import os
import pty
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from fsdp_migrate import __version__
from fsdp_migrate.cli import SUBCOMMANDS

OLD = b"""\
def recipe(cfg):
    cfg.dist.use_megatron_fsdp = True
    cfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"
    cfg.ddp.average_in_collective = False
    cfg.checkpoint.ckpt_format = "fsdp_dtensor"
    return cfg
"""
NEW = OLD.replace(b"cfg.dist", b"cfg.ddp")
BY_HAND = b"""\
def recipe(cfg):
    del cfg.dist.use_megatron_fsdp
    return cfg
"""
CLEAN = b"x = 1\n"
BROKEN = b"def recipe(cfg):\n    cfg.dist.use_megatron_fsdp = (\n"


@dataclass
class Done:
    code: int
    out: bytes
    err: str


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "fsdp_migrate", *map(str, arguments)]


def run(*arguments: str | Path, data: bytes = b"", **environment: str) -> Done:
    done = subprocess.run(
        command(*arguments),
        input=data,
        capture_output=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr.decode())


def git(*arguments: str) -> bytes:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    return subprocess.run(["git", *settings, *arguments], capture_output=True, check=True).stdout


def commit() -> None:
    git("add", "-A")
    git("commit", "-qm", "x")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    Path("src").mkdir()
    Path("src/old.py").write_bytes(OLD)
    Path("src/clean.py").write_bytes(CLEAN)
    commit()
    return tmp_path


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path = Path()) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts}


# What it does


def test_the_report_changes_nothing(repository: Path) -> None:
    done = run()
    assert done.code == 1
    assert done.out.startswith(b"src/old.py:2:5: FSDP001 ")
    assert "2 files looked at" in done.err
    assert git("status", "--porcelain") == b""


def test_the_diff_applies_and_is_all_of_stdout(repository: Path) -> None:
    done = run("--diff", "src")
    assert done.code == 1
    assert Path("src/old.py").read_bytes() == OLD
    subprocess.run(["git", "apply", "-"], input=done.out, check=True)
    assert Path("src/old.py").read_bytes() == NEW


def test_write_writes_what_the_diff_shows_and_leaves_nothing_to_do(repository: Path) -> None:
    diff = run("--diff").out
    done = run("--write")
    assert (done.code, done.out) == (0, b"src/old.py: fixed FSDP001\n")
    assert contents() == {"src/old.py": NEW, "src/clean.py": CLEAN}
    assert b"".join(git("diff").splitlines(keepends=True)[2:]) == b"".join(diff.splitlines(keepends=True)[1:])
    for options in ([], ["--diff"], ["--check"], ["--write", "--allow-dirty"]):
        done = run(*options)
        assert (done.code, done.out) == (0, b""), options


def test_files_that_do_not_change_are_not_touched(repository: Path) -> None:
    before = Path("src/clean.py").stat()
    run("--write")
    after = Path("src/clean.py").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_check_prints_one_line_for_each_file(repository: Path) -> None:
    Path("src/hand.py").write_bytes(BY_HAND)
    done = run("--check")
    assert done.code == 1
    first, second = done.out.decode().splitlines()
    assert first == "src/hand.py: to look at: FSDP020"
    assert second == "src/old.py: --write fixes FSDP001"


def test_check_and_diff_together(repository: Path) -> None:
    done = run("--check", "--diff", "src/old.py")
    assert done.code == 1
    assert done.out.startswith(b"diff --git a/src/old.py")
    assert done.err.startswith("src/old.py: --write fixes FSDP001\n")


# Exit codes


@pytest.mark.parametrize(
    "content, options, code",
    [
        (CLEAN, [], 0),
        (CLEAN, ["--diff"], 0),
        (CLEAN, ["--check"], 0),
        (CLEAN, ["--write"], 0),
        (OLD, [], 1),
        (OLD, ["--diff"], 1),
        (OLD, ["--check"], 1),
        (OLD, ["--write"], 0),
        (BY_HAND, [], 1),
        (BY_HAND, ["--diff"], 0),
        (BY_HAND, ["--diff", "--check"], 1),
        (BY_HAND, ["--check"], 1),
        (BY_HAND, ["--write"], 1),
        (BROKEN, [], 2),
        (BROKEN, ["--diff"], 2),
        (BROKEN, ["--check"], 2),
        (BROKEN, ["--write"], 2),
    ],
)
def test_exit_codes(plain: Path, content: bytes, options: list[str], code: int) -> None:
    Path("recipe.py").write_bytes(content)
    done = run(*options, "recipe.py")
    assert done.code == code, done
    if content is not OLD or "--write" not in options:
        assert Path("recipe.py").read_bytes() == content


@pytest.mark.parametrize(
    "arguments, hint",
    [
        (["missing.py"], "does not exist: check the spelling"),
        (["--wrong"], "No such option"),
        (["--write", "--diff"], "leave one of them out"),
        (["--write", "--check"], "leave one of them out"),
        (["-", "recipe.py"], "leave the other PATHS out"),
        (["-", "--write"], "leave --write out"),
        (["--stdin-filename", "a.py"], "add it"),
        (["--lines", "recipe.py"], "write for example recipes/llama.py:10-20"),
        (["--lines", "recipe.py:9-3"], "the first is not after the last"),
        (["--lines", "recipe.py:0-3"], "lines count from 1"),
        (["--jobs", "0"], "0 is not in the range"),
        (["--select", "FSDP01,FSPD001"], "did you mean FSDP001?"),
        (["--ignore", "E501"], "'fsdp-migrate rules' lists them all"),
        (["--target", "9"], "'0.4'"),
    ],
)
def test_what_cannot_be_done_exits_2_and_says_what_to_do(plain: Path, arguments: list[str], hint: str) -> None:
    Path("recipe.py").write_bytes(CLEAN)
    done = run(*arguments)
    assert (done.code, done.out) == (2, b"")
    assert hint in done.err
    assert "Traceback" not in done.err


def test_a_file_that_fails_does_not_stop_the_others(plain: Path) -> None:
    Path("a_broken.py").write_bytes(BROKEN)
    Path("b_link.py").symlink_to("nowhere")
    Path("c_old.py").write_bytes(OLD)
    Path("d_latin.py").write_bytes(b"# \xe9\n" + OLD)
    done = run("--write", ".")
    assert done.code == 2
    assert Path("c_old.py").read_bytes() == NEW
    assert Path("a_broken.py").read_bytes() == BROKEN
    for name in ("a_broken.py", "b_link.py", "d_latin.py"):
        assert f"{name}: error: " in done.err
    assert "3 files failed" in done.err


# Safety


def test_files_with_uncommitted_changes_are_refused_and_the_others_written(repository: Path) -> None:
    for name in ("edited.py", "fine.py"):
        Path("src", name).write_bytes(OLD)
    commit()
    Path("src/edited.py").write_bytes(OLD + b"x = 1\n")
    Path("src/new.py").write_bytes(OLD)
    Path("src/clean.py").write_bytes(b"y = 1\n")
    done = run("--write")
    assert done.code == 2
    assert (
        "src/edited.py: error: not written: it has uncommitted changes. Commit it first, or pass --allow-dirty"
        in done.err
    )
    assert "src/new.py: error: not written: it is not committed (git does not track it)" in done.err
    assert "clean.py" not in done.err
    assert contents() == {
        "src/clean.py": b"y = 1\n",
        "src/edited.py": OLD + b"x = 1\n",
        "src/fine.py": NEW,
        "src/new.py": OLD,
        "src/old.py": NEW,
    }
    done = run("--write", "--allow-dirty")
    assert done.code == 0
    assert contents()["src/edited.py"] == NEW + b"x = 1\n"
    assert contents()["src/new.py"] == NEW


def test_without_a_repository_it_warns_and_writes(plain: Path) -> None:
    Path("recipe.py").write_bytes(OLD)
    done = run("--write", "recipe.py")
    assert done.code == 0
    assert "no git repository holds recipe.py: keep a copy" in done.err
    assert Path("recipe.py").read_bytes() == NEW


def test_without_a_git_program_it_warns_and_writes(repository: Path) -> None:
    done = run("--write", PATH="/nowhere")
    assert done.code == 0
    assert "no git repository holds src/old.py" in done.err
    assert Path("src/old.py").read_bytes() == NEW


def test_hard_links(plain: Path) -> None:
    Path("a.py").write_bytes(OLD)
    os.link("a.py", "b.txt")
    done = run("--write", "a.py")
    assert done.code == 2
    assert "pass --allow-hardlinks" in done.err
    assert run("--write", "--allow-hardlinks", "a.py").code == 0
    assert Path("b.txt").read_bytes() == NEW


def test_a_symbolic_link_stays_one(plain: Path) -> None:
    Path("real.py").write_bytes(OLD)
    Path("link.py").symlink_to("real.py")
    assert run("--write", "link.py").code == 0
    assert Path("link.py").is_symlink()
    assert Path("real.py").read_bytes() == NEW


def test_history_is_reported_but_not_edited(repository: Path) -> None:
    Path("docs/versions/0.5.0").mkdir(parents=True)
    frozen = Path("docs/versions/0.5.0/example.py")
    frozen.write_bytes(OLD)
    commit()
    done = run("--write", "docs")
    assert done.code == 1
    assert b"not edited: it describes a past release" in done.out
    assert frozen.read_bytes() == OLD
    assert run("--diff", "docs").out == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_whenever_it_is_interrupted_every_file_is_the_old_or_the_new_one(plain: Path, number: signal.Signals) -> None:
    moments = random.Random(number)
    names = [f"f{n}.py" for n in range(20)]
    for _ in range(6):
        for name in names:
            Path(name).write_bytes(OLD)
        with subprocess.Popen(command("--write", "."), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            time.sleep(moments.uniform(0.05, 0.6))
            child.send_signal(number)
            child.communicate()
        assert {Path(name).read_bytes() for name in names} <= {OLD, NEW}
        if number is signal.SIGINT:
            assert sorted(path.name for path in plain.iterdir()) == sorted(names)


@pytest.mark.parametrize("options", [[], ["--diff"]])
def test_a_closed_pipe_is_quiet(plain: Path, options: list[str]) -> None:
    for n in range(400):
        Path(f"a_rather_long_name_for_a_recipe_{n}.py").write_bytes(OLD)
    with subprocess.Popen(command(*options, "."), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(1)
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == 141


def test_a_closed_pipe_does_not_stop_it_from_writing(plain: Path) -> None:
    for n in range(10):
        Path(f"f{n}.py").write_bytes(OLD)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command("--write", "."), stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert b"Traceback" not in done.stderr
    assert set(contents().values()) == {NEW}


# What it looks at


def test_lines_limit_the_run_to_a_part_of_a_file(plain: Path) -> None:
    second = OLD.replace(b"recipe", b"second")
    Path("a.py").write_bytes(OLD + second)
    Path("b.py").write_bytes(OLD)
    assert run("--write", "--lines", "a.py:7-12").code == 0
    assert contents() == {"a.py": OLD + second.replace(b"cfg.dist", b"cfg.ddp"), "b.py": OLD}
    assert run("--lines", f"{plain}/a.py:1-6", ".").out.count(b"a.py:2:5: FSDP001") == 1
    assert run("--lines", "a.py:1", "--lines", "a.py:3-6", ".").code == 0


def test_select_and_ignore(plain: Path) -> None:
    Path("a.py").write_bytes(b"def recipe(cfg):\n    cfg.dist.use_megatron_fsdp = True\n")
    everything = run("a.py").out
    assert b"FSDP010" in everything
    assert b"FSDP001" in everything
    assert b"FSDP010" not in run("--ignore", "FSDP01", "a.py").out
    only = run("--select", "fsdp010,FSDP011", "a.py").out
    assert b"FSDP001" not in only


def test_exclude_and_include(repository: Path) -> None:
    assert run("--exclude", "src/").code == 0
    assert run("--include", "*.pyi").code == 0
    assert run("--include", "src/**").code == 1


def test_the_number_of_jobs_does_not_change_the_output(plain: Path) -> None:
    for n in range(12):
        Path(f"f{n}.py").write_bytes(OLD if n % 3 else BY_HAND)
    for options in ([], ["--diff"], ["--check"], ["--statistics"]):
        assert run("-j1", *options, ".") == run("-j3", *options, ".")


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_the_name_of_a_subcommand_wins_over_a_folder(plain: Path, name: str) -> None:
    Path(name).mkdir()
    Path(name, "old.py").write_bytes(OLD)
    assert run(f"./{name}").out.startswith(f"{name}/old.py:2:5: FSDP001".encode())


# Standard input


def test_stdin_gives_the_result(plain: Path) -> None:
    done = run("-", "--stdin-filename", "src/recipe.py", data=OLD)
    assert (done.code, done.out) == (0, NEW)
    assert run("-", data=OLD.replace(b"\n", b"\r\n")).out == NEW.replace(b"\n", b"\r\n")
    assert run("-", data=CLEAN) == Done(0, CLEAN, "Nothing to migrate in 1 file.\n")
    assert run("-", data=b"").out == b""


def test_stdin_gives_the_diff(plain: Path) -> None:
    done = run("-", "--stdin-filename", "src/recipe.py", "--diff", data=OLD)
    assert done.code == 1
    assert done.out.startswith(b"diff --git a/src/recipe.py b/src/recipe.py\n")
    assert run("-", "--diff", data=CLEAN).out == b""


def test_stdin_with_something_left_exits_1_and_says_it_on_stderr(plain: Path) -> None:
    done = run("-", "--stdin-filename", "recipe.py", data=BY_HAND)
    assert (done.code, done.out) == (1, BY_HAND)
    assert "recipe.py:2:" in done.err
    assert run("-", "--check", data=BY_HAND).out == b"stdin.py: to look at: FSDP020\n"


def test_stdin_that_cannot_be_parsed_gives_nothing(plain: Path) -> None:
    done = run("-", data=BROKEN)
    assert (done.code, done.out) == (2, b"")
    assert "stdin.py: error: " in done.err


def test_stdin_with_lines(plain: Path) -> None:
    assert run("-", "--stdin-filename", "a.py", "--lines", "a.py:4-6", data=OLD).out == OLD


# What it says


def test_quiet_leaves_the_payload(repository: Path) -> None:
    assert run("-q").err == ""
    assert run("-q").out == run().out
    assert run("-q", "missing.py").err != ""


def test_statistics_follow_the_report_and_never_spoil_a_diff(repository: Path) -> None:
    assert b"FSDP001      1        1" in run("--statistics").out
    done = run("--statistics", "--diff")
    assert b"fixable" not in done.out
    assert "FSDP001      1        1" in done.err


def test_a_name_cannot_command_the_terminal(plain: Path) -> None:
    Path("evil\x1b[2J\n.py").write_bytes(OLD)
    done = run(".")
    assert b"\x1b" not in done.out
    assert done.out.startswith(b"evil\\x1b[2J\\n.py:2:5: ")


def test_names_that_are_not_utf8(plain: Path) -> None:
    name = os.fsdecode(b"latin-\xe9.py")
    Path(name).write_bytes(OLD)
    assert run(".").out.startswith(b"latin-\\xe9.py:2:5: ")
    assert run("--write", name, PYTHONIOENCODING="ascii").code == 0
    assert Path(name).read_bytes() == NEW


def on_terminal(*arguments: str, program: list[str] | None = None, **environment: str) -> str:
    """Everything that a run writes when stdout and stderr are a terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*(program or command()), *arguments],
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", **environment},
    ) as child:
        os.close(follower)
        pieces = []
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:
                break
            if not piece:
                break
            pieces.append(piece)
        child.wait()
    os.close(leader)
    return b"".join(pieces).decode()


def test_colours_on_a_terminal(repository: Path) -> None:
    plain_environment = {"NO_COLOR": ""}
    assert "\x1b[32m+    cfg.ddp.use_megatron_fsdp = True" in on_terminal("--diff", **plain_environment)
    assert "\x1b[1msrc/old.py\x1b[0m:2:5" in on_terminal(**plain_environment)
    assert "\x1b" not in on_terminal("--diff", NO_COLOR="1")
    assert "\x1b" not in on_terminal("--color", "never", "--diff", **plain_environment)
    assert "\x1b" not in on_terminal("--diff", TERM="dumb", **plain_environment)
    assert b"\x1b[32m" in run("--color", "always", "--diff").out
    assert b"\x1b" not in run("--diff").out


def test_a_diff_on_a_terminal_without_colours_commands_nothing(plain: Path) -> None:
    Path("a.py").write_bytes(OLD.replace(b"return cfg", b"return cfg  # \x1b]0;owned\x07"))
    assert "\x1b" not in on_terminal("--diff", "--color", "never", "a.py")


def test_a_long_run_shows_a_bar_on_a_terminal_and_nowhere_else(repository: Path) -> None:
    program = [sys.executable, "-c", "from fsdp_migrate import cli, progress\nprogress.PATIENCE = 0\ncli.main()"]
    shown = on_terminal("--check", program=program)
    assert "Migrating" in shown
    assert "src/old.py" in shown
    assert "Migrating" not in on_terminal("--check", "-q", program=program)
    assert "Migrating" not in on_terminal("--check")
    done = subprocess.run([*program, "--check"], capture_output=True, check=False)
    assert b"Migrating" not in done.stdout + done.stderr


def test_help_lists_options_and_subcommands() -> None:
    for option in ("--help", "-h"):
        done = run(option)
        assert done.code == 0
        assert done.out.startswith(b"Usage: fsdp-migrate [OPTIONS] [PATHS]...\n")
        for word in ("--unsafe-fixes", *SUBCOMMANDS):
            assert word.encode() in done.out


def test_version() -> None:
    assert run("--version").out == f"fsdp-migrate {__version__}\n".encode()


def test_tracebacks_only_with_verbose(plain: Path) -> None:
    program = (
        "import sys\nfrom fsdp_migrate import cli, discover, run\n"
        "def boom(*a, **k): raise RuntimeError('boom')\nrun.find = boom\ncli.main(sys.argv[1:])"
    )
    for options, has_traceback in ((["."], False), (["-v", "."], True)):
        done = subprocess.run([sys.executable, "-c", program, *options], capture_output=True, text=True, check=False)
        assert "boom" in done.stderr
        assert ("Traceback" in done.stderr) is has_traceback
        assert done.returncode == 2
