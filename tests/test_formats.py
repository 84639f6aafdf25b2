"""Reports for machines and people: valid whatever the names and sources are, and the same findings in each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote_to_bytes

import jsonschema
import pytest

RECIPE = """\
def recipe():
    cfg = base()
    cfg.dist.use_megatron_fsdp = True
    return cfg


def other(cfg):
    del cfg.dist.use_megatron_fsdp
"""
NAMES = {
    "plain": "recipe.py",
    "blanks": "two words.py",
    "percent": "100%,a:b#c.py",
    "markup": "<script>alert(1)</script>&.py",
    "newline": "a\n::error::b.py",
    "escape": "\x1b[31mred\x07.py",
    "bidi": "a\u202eb.py",
    "not_utf8": os.fsdecode(b"caf\xe9.py"),
    "quotes": "\"'`|*_[x](y).py",
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    def start(*words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "fsdp_migrate", "--isolated", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, input=stdin, check=False)

    return start


Run = Callable[..., subprocess.CompletedProcess[bytes]]


def report(run: Run, kind: str, *words: str) -> bytes:
    done = run("--output-format", kind, *words)
    assert done.returncode == 1, done.stderr
    return done.stdout


@pytest.fixture(params=NAMES.values(), ids=NAMES)
def named(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name = str(request.param).replace("/", "\u2215")
    (tmp_path / name).write_text(RECIPE)
    return name


def test_json_is_what_its_schema_says(run: Run, named: str) -> None:
    schema = json.loads(run_schema())
    found = json.loads(report(run, "json"))
    jsonschema.validate(found, schema)
    [file] = found["files"]
    assert file["path"].isprintable()
    assert [(f["code"], f["status"]) for f in file["findings"]] == [
        ("FSDP001", "fixable"),
        ("FSDP010", "fixable"),
        ("FSDP011", "fixable"),
        ("FSDP012", "fixable"),
        ("FSDP020", "by_hand"),
    ]
    assert file["findings"][-1]["why_not_fixed"]
    assert found["exit_code"] == 1


def run_schema() -> str:
    command = [sys.executable, "-m", "fsdp_migrate", "schema"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_sarif_names_the_file_exactly(run: Run, named: str) -> None:
    [found] = json.loads(report(run, "sarif"))["runs"]
    assert len(found["results"]) == 5
    for result in found["results"]:
        location = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert unquote_to_bytes(location["uri"]) == os.fsencode(named)
        assert location["uriBaseId"] in found["originalUriBaseIds"]
        assert found["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert found["invocations"][0]["exitCode"] == 1


def test_github_gets_one_command_a_finding(run: Run, named: str) -> None:
    lines = report(run, "github").decode().splitlines()
    assert len(lines) == 5
    pattern = (
        r"::(error|warning|notice) file=([^:,]*),line=\d+,endLine=\d+(,col=\d+,endColumn=\d+)?,title=FSDP\d+::[^\r\n]*"
    )
    assert all(re.fullmatch(pattern, line) for line in lines)


def test_gitlab_entries_have_what_gitlab_asks_for(run: Run, named: str) -> None:
    found = json.loads(report(run, "gitlab"))
    assert len(found) == len({entry["fingerprint"] for entry in found}) == 5
    for entry in found:
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert entry["location"]["path"].isprintable()
        assert entry["location"]["lines"]["begin"] > 0


def test_junit_is_well_formed_and_counts(run: Run, named: str) -> None:
    root = ET.fromstring(report(run, "junit"))
    [suite] = root.iter("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "5", "0")
    assert len(list(suite.iter("failure"))) == 5


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def test_the_page_has_no_script_and_nothing_from_elsewhere(run: Run, named: str, tmp_path: Path) -> None:
    assert run("--report", "out.html", "--report", "out.md").returncode == 1
    text = (tmp_path / "out.html").read_text()
    page = _Page()
    page.feed(text)
    assert not {"script", "img", "iframe", "link", "object"} & set(page.tags)
    assert all(link.startswith("#") for link in page.links)
    assert "\x1b" not in text
    markdown = (tmp_path / "out.md").read_text()
    assert "<script>" not in re.sub(r"(?s)```.*?```", "", markdown).replace("\\<", "")


def test_a_fingerprint_survives_lines_above(run: Run, tmp_path: Path) -> None:
    def fingerprints() -> list[str]:
        return [f["fingerprint"] for f in json.loads(report(run, "json"))["files"][0]["findings"]]

    (tmp_path / "recipe.py").write_text(RECIPE + RECIPE.replace("recipe", "again"))
    before = fingerprints()
    assert len(set(before)) == len(before)
    (tmp_path / "recipe.py").write_text("import os\n\n" + RECIPE + RECIPE.replace("recipe", "again"))
    assert fingerprints() == before


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_columns_count_characters_and_edits_apply(run: Run, tmp_path: Path, ending: str) -> None:
    text = RECIPE.replace("    cfg.dist", "    x = '\U0001f600'; cfg.dist").replace("\n", ending)
    (tmp_path / "recipe.py").write_bytes(text.encode())
    [file] = json.loads(report(run, "json"))["files"]
    first = file["findings"][0]
    assert text.splitlines()[first["line"] - 1][first["column"] - 1 :].startswith("cfg.dist")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for edit in reversed(first["fix"]["edits"]):
        begin = starts[edit["line"] - 1] + edit["column"] - 1
        end = starts[edit["end_line"] - 1] + edit["end_column"] - 1
        text = text[:begin] + edit["text"] + text[end:]
    assert run("--write", "--allow-dirty").returncode == 1
    assert (tmp_path / "recipe.py").read_bytes() == text.encode()


def test_after_writing_only_what_is_left_is_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE)
    done = run("--write", "--output-format", "json")
    [file] = json.loads(done.stdout)["files"]
    assert [f["status"] for f in file["findings"]] == [*["fixed"] * 4, "by_hand"]
    assert file["written"]
    (tmp_path / "recipe.py").write_text(RECIPE)
    assert len(run("--write", "--output-format", "github").stdout.splitlines()) == 1


def test_a_file_that_failed_is_in_every_report(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n    cfg.dist.use_megatron_fsdp = True\n")
    for kind in ("json", "sarif", "github", "gitlab", "junit"):
        done = run("--output-format", kind)
        assert done.returncode == 2
        assert b"broken.py" in done.stdout
    assert (
        json.loads(run("--output-format", "sarif").stdout)["runs"][0]["invocations"][0]["executionSuccessful"] is False
    )


def test_exempted_findings_are_suppressions(run: Run, tmp_path: Path) -> None:
    line = "    cfg.dist.use_megatron_fsdp = True"
    (tmp_path / "recipe.py").write_text(RECIPE.replace(line, line + "  # fsdp-migrate: ignore[FSDP0] kept on purpose"))
    [found] = json.loads(report(run, "sarif"))["runs"]
    kept = [r["suppressions"][0]["justification"] for r in found["results"] if "suppressions" in r]
    assert kept
    assert all("kept on purpose" in text for text in kept)


def test_a_file_elsewhere_has_an_absolute_uri(run: Run, tmp_path: Path) -> None:
    other = tmp_path.parent / f"{tmp_path.name}-other.py"
    other.write_text(RECIPE)
    [found] = json.loads(report(run, "sarif", str(other)))["runs"]
    location = found["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": other.as_uri()}


@pytest.mark.parametrize("words", [("--diff",), ("-",)], ids=["diff", "stdin"])
def test_stdout_is_taken_so_the_report_needs_a_file(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE)
    done = run(*words, "--output-format", "json", stdin=RECIPE.encode())
    assert done.returncode == 2
    assert b"--output-file" in done.stderr
    done = run(*words, "--output-format", "json", "--output-file", "out.json", stdin=RECIPE.encode())
    assert done.returncode == 1
    assert b"cfg.ddp.use_megatron_fsdp" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())["files"]


def test_text_in_a_file_has_no_colour(run: Run, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE)
    done = run("--color", "always", "--output-file", "out.txt")
    assert done.stdout == b""
    assert (tmp_path / "out.txt").read_text().startswith("recipe.py:3:5: FSDP001")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--report", "out.pdf"), "name a file that ends in .html or .md"),
        (("--output-file", "no/such/folder.txt"), "cannot be written"),
    ],
    ids=["kind_of_report", "folder"],
)
def test_errors_say_what_to_do(run: Run, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE)
    done = run(*words)
    assert done.returncode == 2
    assert message in done.stderr.decode()
