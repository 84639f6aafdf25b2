"""Names, sources and settings that want to be read as something else by whatever shows them."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.security.conftest import RECIPE, command

ESCAPE = "\x1b]0;owned\x07\x1b[2J"
BIDI = "\u202e\u2066"
NAMES = [
    f"a{ESCAPE}.py",
    f"b{BIDI}.py",
    "c\n::error::owned.py",
    "d\r\n::set-output name=x::owned.py",
    "<script>alert(1)</script>.py".replace("/", "\u2044"),
    "'\" onmouseover=alert(1) x='.py",
    "]]><!--.py",
    "%0A::warning::owned.py",
    "[red]markup[\u2044red] |x| `y` [z](javascript:1).py",
    "\udcff\udcfe.py",
    "{{constructor.constructor('alert(1)')()}}.py",
]
# What a finding quotes comes from the file.
QUOTED = {
    "words.sh": f"python t.py '~dist.use_megatron_fsdp{ESCAPE}<script>x</script>' +dist.use_megatron_fsdp=true\n",
    "reason.py": "# fsdp-migrate: ignore-file[FSDP001] </script><img src=x onerror=alert(1)> "
    f"{ESCAPE}{BIDI} ::error::owned\n{RECIPE.decode()}",
    "code.py": f"# fsdp-migrate: ignore[<script>alert(1)</script>{ESCAPE}]\n" + RECIPE.decode(),
    "prose.md": f"Set dist.use_megatron_fsdp {ESCAPE}{BIDI}<script>alert(1)</script>\n",
    "broken.yaml": f"dist:\n  use_megatron_fsdp: true\n<script>{BIDI}: [\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).write_bytes(RECIPE)
    for name, text in QUOTED.items():
        (tmp_path / name).write_text(text, newline="")
    (tmp_path / f"link{ESCAPE}{BIDI}\n::error::owned.py").symlink_to(f"nowhere{ESCAPE}")
    return tmp_path


def demand_harmless(shown: bytes) -> None:
    text = shown.decode("utf-8", "surrogateescape")
    for character in "\x1b\x07\r\u202e\u2066":
        assert character not in text, text[max(0, text.index(character) - 80) :][:160]


FORMATS = ["text", "json", "sarif", "github", "gitlab", "junit"]


@pytest.mark.parametrize("name", FORMATS)
def test_no_output_commands_a_terminal(tree: Path, name: str) -> None:
    done = command("--output-format", name, "--unsafe-fixes", "-v", "--statistics", ".", cwd=tree)
    assert done.returncode == 2
    demand_harmless(done.stdout)
    demand_harmless(done.stderr)


@pytest.mark.parametrize("words", ["--check", "--write --allow-dirty", "--show-settings"])
def test_nor_do_the_other_commands(tree: Path, words: str) -> None:
    done = command(*words.split(), ".", cwd=tree)
    demand_harmless(done.stdout)
    demand_harmless(done.stderr)


def test_nor_does_a_coloured_diff(tree: Path) -> None:
    done = command("--diff", "--color", "always", ".", cwd=tree)
    assert b"\x1b]0" not in done.stdout
    assert b"\x1b[2J" not in done.stdout
    assert BIDI.encode() not in done.stdout


def test_nor_does_a_name_that_looks_like_an_option(tree: Path) -> None:
    for words in (
        ["--x" + ESCAPE],
        ["--lines", ESCAPE],
        ["--select", ESCAPE],
        ["--config", ESCAPE],
        ["explain", ESCAPE],
    ):
        done = command(*words, cwd=tree)
        assert done.returncode == 2
        demand_harmless(done.stderr)


def test_annotations_are_one_line_each(tree: Path) -> None:
    lines = command("--output-format", "github", ".", cwd=tree).stdout.decode().splitlines()
    assert lines
    for line in lines:
        head, _, _ = line.removeprefix("::").partition("::")
        assert head.startswith(("error file=", "warning file=", "notice file=")), line


def test_machines_can_read_what_they_get(tree: Path) -> None:
    for name in ("json", "sarif", "gitlab"):
        json.loads(command("--output-format", name, ".", cwd=tree).stdout)
    ET.fromstring(command("--output-format", "junit", ".", cwd=tree).stdout)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen += [(tag, name) for name, _ in attrs] or [(tag, "")]
        self.seen += [(tag, "javascript:") for _, value in attrs if (value or "").lower().startswith("javascript:")]


def test_a_page_has_no_markup_but_its_own(tree: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "recipe.py").write_bytes(RECIPE)
    pages = []
    for folder in (tree, plain):
        command("--report", "report.html", ".", cwd=folder)
        page = (folder / "report.html").read_text()
        demand_harmless(page.encode())
        tags = Tags()
        tags.feed(page)
        pages.append(set(tags.seen))
    hostile, harmless = pages
    assert not {(tag, name) for tag, name in hostile if name.startswith("on") or name == "javascript:" or tag == "img"}
    scripts = [page.count(("script", "")) for page in map(list, pages)]
    assert scripts[0] == scripts[1]
    assert {tag for tag, _ in hostile} <= {tag for tag, _ in harmless} | {
        "details",
        "summary",
        "del",
        "ins",
        "code",
        "pre",
    }


@pytest.mark.parametrize(
    "text",
    [
        f"select = ['{ESCAPE}']".replace("\x1b", "\\u001b").replace("\x07", "\\u0007").replace("'", '"'),
        '"\\u001b[2J" = 1',
        "x = " + "[" * 5_000,
        "x = " + "9" * 5_000,
        "\0",
        'exclude = ["' + "*a" * 40 + 'b"]',
        'exclude = ["../../**", "/**", "~/*", "${HOME}", "a\\u0000b"]',
    ],
)
def test_settings_files_do_no_harm(tmp_path: Path, text: str) -> None:
    (tmp_path / "fsdp-migrate.toml").write_text(text)
    (tmp_path / ("a" * 200 + ".py")).write_bytes(RECIPE)
    done = command("--diff", ".", cwd=tmp_path)
    assert done.returncode in (0, 1, 2)
    assert b"Please report" not in done.stderr
    demand_harmless(done.stderr)


def test_patterns_that_keep_a_program_busy(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*a" * 40 + "b\n" + "**/a*" * 40 + "b\n")
    for n in range(3):
        folder = tmp_path / "/".join(["a" * 60] * 3)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("a" * (200 + n) + ".py")).write_bytes(RECIPE)
    done = subprocess.run(
        [sys.executable, "-m", "fsdp_migrate", "--check", "."],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
