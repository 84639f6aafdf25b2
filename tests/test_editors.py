"""Quick fixes by script, completion, the manual, the rule reference."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import click
import pytest

from fsdp_migrate.cli import SUBCOMMANDS, cli
from fsdp_migrate.editing import Positions
from fsdp_migrate.reference import reference

RECIPE = """\
def recipe():
    cfg = base()
    x = "\U0001f600"; cfg.dist.use_megatron_fsdp = True
    return cfg


def other(on):
    cfg = base()
    cfg.ddp.use_megatron_fsdp = on
    return cfg


def gone(cfg):
    del cfg.dist.use_megatron_fsdp
"""
FIXED = RECIPE.replace(
    "cfg.dist.use_megatron_fsdp = True",
    """\
cfg.ddp.use_megatron_fsdp = True
    cfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"
    cfg.ddp.average_in_collective = False
    cfg.checkpoint.ckpt_format = "fsdp_dtensor\"""",
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "recipe.py").write_text(RECIPE)
    return tmp_path / "recipe.py"


def quickfix(file: Path, where: str, *words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "fsdp_migrate", "quickfix", f"{file.name}:{where}", *words]
    return subprocess.run(command, cwd=file.parent, capture_output=True, input=stdin, check=False)


def applied(text: str, edit: dict[str, object], uri: str) -> str:
    """A WorkspaceEdit carried out as an editor does."""
    positions = Positions(text)
    [(name, changes)] = edit["changes"].items()  # type: ignore[attr-defined]
    assert name == uri
    for change in sorted(changes, key=lambda c: (c["range"]["start"]["line"], c["range"]["start"]["character"]))[::-1]:
        start, end = (positions.offset(**change["range"][side]) for side in ("start", "end"))
        text = text[:start] + change["newText"] + text[end:]
    return text


@pytest.mark.parametrize("where", ["3", "3:22"], ids=["line", "column"])
def test_the_edit_is_the_fix_of_that_scope_alone(file: Path, where: str) -> None:
    done = quickfix(file, where)
    assert done.returncode == 0, done.stderr
    assert applied(RECIPE, json.loads(done.stdout), file.as_uri()) == FIXED
    assert file.read_text() == RECIPE


def test_write_applies_it(file: Path) -> None:
    done = quickfix(file, "3", "--write")
    assert (done.returncode, done.stdout) == (0, b"")
    assert file.read_text() == FIXED


def test_an_unsaved_text_comes_from_stdin(file: Path) -> None:
    unsaved = f"# unsaved\n{RECIPE}"
    done = quickfix(file, "4", "--stdin", stdin=unsaved.encode())
    assert applied(unsaved, json.loads(done.stdout), file.as_uri()) == f"# unsaved\n{FIXED}"
    done = quickfix(file, "4", "--stdin", "--write", stdin=unsaved.encode())
    assert done.stdout.decode() == f"# unsaved\n{FIXED}"
    assert file.read_text() == RECIPE


def test_unsafe_fixes_are_applied_when_asked_for(file: Path) -> None:
    assert quickfix(file, "9").returncode == 1
    done = quickfix(file, "9", "--unsafe-fixes")
    assert 'ckpt_format = "fsdp_dtensor"' in applied(RECIPE, json.loads(done.stdout), file.as_uri())


@pytest.mark.parametrize(
    ("where", "code", "message"),
    [
        ("1", 1, "nothing was found on line 1"),
        ("9", 1, "--unsafe-fixes"),
        ("14", 1, "by hand"),
        ("99", 2, "has no line 99"),
        ("0", 2, "lines count from 1"),
        ("x", 2, "is not FILE:LINE"),
    ],
    ids=["nothing", "unsafe", "by_hand", "behind_the_end", "zero", "no_number"],
)
def test_what_cannot_be_done_says_why(file: Path, where: str, code: int, message: str) -> None:
    done = quickfix(file, where)
    assert (done.returncode, done.stdout) == (code, b"")
    assert message in done.stderr.decode()


def test_a_file_that_cannot_be_looked_at(file: Path) -> None:
    file.write_text("def f(:\n    cfg.dist.use_megatron_fsdp = True\n")
    done = quickfix(file, "2")
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    file.unlink()
    assert b"does not exist: check the spelling" in quickfix(file, "2").stderr


@pytest.mark.parametrize(
    ("text", "line", "character", "offset"),
    [
        ("a\U0001f600b", 0, 3, 2),
        ("a\rb\r\nc\nd", 3, 0, 7),
        ("ab\n", 0, 99, 3),
        ("ab", 9, 0, 2),
    ],
    ids=["beyond_the_first_plane", "every_line_end", "behind_a_line", "behind_the_text"],
)
def test_positions_are_an_editors(text: str, line: int, character: int, offset: int) -> None:
    assert Positions(text).offset(line, character) == offset


def test_positions_and_offsets_are_inverse() -> None:
    text = "x = '\U0001f600é'\r\n\ttext\rlast\n"
    for encoding in ("utf-8", "utf-16", "utf-32"):
        positions = Positions(text, encoding)
        inside = [at for at in range(len(text) + 1) if text[at - 1 : at + 1] != "\r\n"]
        assert [positions.offset(**positions.position(at)) for at in inside] == inside


def complete(*words: str) -> list[str]:
    variables = {"_FSDP_MIGRATE_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("fsdp-migrate", *words))}
    variables["COMP_CWORD"] = str(len(words))
    script = "from fsdp_migrate.cli import main; main()"
    command = [sys.executable, "-c", f"import sys; sys.argv[0] = 'fsdp-migrate'; {script}"]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("tra",), {"trace", "train-check"}),
        (("--un",), {"--unsafe-fixes"}),
        (("src", "--di"), {"--diff"}),
        (("--select", "FSDP01"), {"FSDP010", "FSDP011", "FSDP012", "FSDP013"}),
        (("explain", "FSDP02"), {"FSDP020", "FSDP021", "FSDP022", "FSDP023"}),
        (("--target", "0."), {"0.4", "0.5", "0.6"}),
    ],
    ids=["subcommand", "option", "option_behind_a_path", "codes", "code", "choice"],
)
def test_completion_knows_words_options_and_codes(words: tuple[str, ...], expected: set[str]) -> None:
    assert expected <= set(complete(*words))


def test_a_subcommand_is_offered_as_the_first_word_only() -> None:
    assert "trace" not in complete("src", "tra")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_the_program(shell: str) -> None:
    command = [sys.executable, "-m", "fsdp_migrate", "completion", shell]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "_FSDP_MIGRATE_COMPLETE" in script


def test_the_reference_in_transforms_is_current() -> None:
    file = Path(__file__).parents[1] / "transforms" / "README.md"
    assert file.read_text(encoding="utf-8") == reference(), "run: fsdp-migrate rules --markdown > transforms/README.md"


def test_the_manual_names_every_option(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / ".ci" / "man.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    pages = {page.stem: page.read_text().replace("\\-", "-") for page in tmp_path.glob("*.1")}
    assert {"fsdp-migrate", *(f"fsdp-migrate-{name}" for name in SUBCOMMANDS)} == set(pages)
    command = cli.get_command(click.Context(cli), "migrate")
    assert command is not None
    words = [word for parameter in command.params for word in parameter.opts if word.startswith("-")]
    assert [word for word in words if word not in pages["fsdp-migrate"]] == []


def test_the_problem_matcher_of_the_readme_reads_the_report(file: Path) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    task = next(
        json.loads(block) for block in re.findall(r"```json\n(.*?)```", readme, re.S) if "problemMatcher" in block
    )
    pattern = task["problemMatcher"]["pattern"]
    command = [sys.executable, "-m", "fsdp_migrate", file.name]
    lines = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False).stdout.splitlines()
    found = [match for line in lines if (match := re.fullmatch(pattern["regexp"], line))]
    first = {name: found[0][pattern[name]] for name in ("file", "line", "column", "code")}
    assert first == {"file": "recipe.py", "line": "3", "column": "14", "code": "FSDP001"}
    assert len(found) == len([line for line in lines if not line.startswith(" ")])


def test_the_picture_of_a_terminal_is_current() -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(root / ".ci" / "picture.py")], capture_output=True, text=True, check=True
    )
    kept = (root / ".ci" / "terminal.svg").read_text(encoding="utf-8")

    def words(svg: str) -> list[str]:
        return [text.strip() for text in ET.fromstring(svg).itertext() if text.strip() and "{" not in text]

    assert words(kept) == words(done.stdout), "run: python .ci/picture.py > .ci/terminal.svg"
