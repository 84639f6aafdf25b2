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


LEFT = "del cfg.dist.use_megatron_fsdp"


@pytest.mark.parametrize("kind", ["text", "json", "sarif", "github", "gitlab", "junit"])
def test_what_is_left_in_a_written_file_is_where_it_is_now(run: Run, tmp_path: Path, kind: str) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE)
    done = run("--write", "--output-format", kind)
    lines = (tmp_path / "recipe.py").read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if LEFT in line)
    assert number != RECIPE.splitlines().index(f"    {LEFT}") + 1
    patterns = {
        "text": rf"^recipe\.py:{number}:9: FSDP020",
        "json": rf'"FSDP020".*"line": {number}, "column": 9,',
        "sarif": rf'"FSDP020".*"startLine": {number}, "startColumn": 9,',
        "github": rf",line={number},endLine={number},col=9,",
        "gitlab": rf'"FSDP020".*"begin": {number},',
        "junit": rf'name="FSDP020:{number}:9"',
    }
    assert re.search(patterns[kind], done.stdout.decode(), re.MULTILINE)


def test_what_is_left_of_stdin_is_where_it_is_in_the_output(run: Run) -> None:
    done = run("-", stdin=RECIPE.encode())
    number = next(n for n, line in enumerate(done.stdout.decode().splitlines(), 1) if LEFT in line)
    assert f"stdin.py:{number}:9: FSDP020" in done.stderr.decode()


def test_a_fingerprint_survives_the_writing(run: Run, tmp_path: Path) -> None:
    def left() -> list[str]:
        [file] = json.loads(run("--output-format", "json", "--write").stdout)["files"]
        return [f["fingerprint"] for f in file["findings"] if f["status"] == "by_hand"]

    (tmp_path / "recipe.py").write_text(RECIPE)
    assert left() == left() != []


def test_offsets_are_those_of_the_decoded_file(run: Run, tmp_path: Path) -> None:
    text = "# \U0001f600\r\n" + RECIPE.replace("\n", "\r\n")
    (tmp_path / "recipe.py").write_bytes(b"\xef\xbb\xbf" + text.encode())
    [file] = json.loads(report(run, "json", "--target", "0.6"))["files"]
    for edit in sorted(file["findings"][0]["fix"]["edits"], key=lambda e: -e["start"]):
        text = text[: edit["start"]] + edit["text"] + text[edit["end"] :]
    assert run("--write", "--target", "0.6").returncode == 1
    assert (tmp_path / "recipe.py").read_bytes() == b"\xef\xbb\xbf" + text.encode()


@pytest.mark.parametrize(("words", "target"), [((), None), (("--target", "main"), "main")], ids=["none", "main"])
def test_json_names_the_release(run: Run, tmp_path: Path, words: tuple[str, ...], target: str | None) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE)
    assert json.loads(report(run, "json", *words))["target"] == target


def test_json_names_the_file_exactly(run: Run, named: str) -> None:
    [file] = json.loads(report(run, "json"))["files"]
    assert unquote_to_bytes(file["uri"]) == os.fsencode(named)


@pytest.mark.parametrize(
    ("kind", "variable", "pattern"),
    [("github", "GITHUB_WORKSPACE", "file=([^,]*),"), ("gitlab", "CI_PROJECT_DIR", r'"path": "([^"]*)"')],
    ids=["github", "gitlab"],
)
@pytest.mark.parametrize(
    ("folder", "expected"), [("", "sub/recipe.py"), ("sub", "recipe.py"), ("elsewhere", "recipe.py")]
)
def test_names_are_relative_to_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str, pattern: str, folder: str, expected: str
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "recipe.py").write_text(RECIPE)
    monkeypatch.setenv(variable, str(tmp_path / folder))
    command = [sys.executable, "-m", "fsdp_migrate", "--isolated", "--output-format", kind]
    done = subprocess.run(command, cwd=tmp_path / "sub", capture_output=True, text=True, check=False)
    assert set(re.findall(pattern, done.stdout)) == {expected}


def test_a_report_is_not_looked_at_by_the_run_that_writes_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE)
    words = ("--output-format", "json", "--output-file", "out.json", "--report", "out.md")
    first = run(*words), (tmp_path / "out.json").read_text(), (tmp_path / "out.md").read_text()
    second = run(*words), (tmp_path / "out.json").read_text(), (tmp_path / "out.md").read_text()
    assert "use_megatron_fsdp" in first[2]
    assert (second[0].stderr, *second[1:]) == (first[0].stderr, *first[1:])


def test_a_linked_report_stays_a_link(run: Run, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE)
    (tmp_path / "link.txt").symlink_to("kept.txt")
    assert run("--output-file", "link.txt").returncode == 1
    assert (tmp_path / "link.txt").is_symlink()
    assert "FSDP001" in (tmp_path / "kept.txt").read_text()


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="the system has no /dev/stdout")
def test_a_report_on_a_redirected_stdout_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE)
    command = [sys.executable, "-m", "fsdp_migrate", "--isolated", "--output-file", "/dev/stdout"]
    with open(tmp_path / "log", "ab") as log:
        log.write(b"before\n")
        log.flush()
        subprocess.run(command, cwd=tmp_path, stdout=log, stderr=subprocess.DEVNULL, check=False)
    assert (tmp_path / "log").read_text().startswith("before\nrecipe.py:3:5: FSDP001")
