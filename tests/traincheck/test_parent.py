"""The parent's side: what it finds out without torch, what it leaves, and what it reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fsdp_migrate.traincheck import environment, launch, recipes, report
from fsdp_migrate.traincheck.exchange import Events, Measured, Outcome, Versions, append_event
from fsdp_migrate.traincheck.job import Job
from fsdp_migrate.traincheck.judge import judge, not_checked
from tests.traincheck.conftest import SHARDED, command

LOSSES = Measured((4.0, 3.0), (1.0, 1.0), 1.0, 3 * 2**30, {"weights": 1, "gradients": 1, "optimizer": 1}, 1, 1)
SECTION = {"use_megatron_fsdp": True}


@pytest.fixture
def checked() -> report.Checked:
    sound = Outcome(0, 0, fsdp=LOSSES, ddp=LOSSES, seconds=2.0)
    diverging = Outcome(1, 0, fsdp=Measured((4.0, float("nan")), (1.0, 1.0)), ddp=LOSSES)
    return report.Checked(
        (
            judge(Job("sound", "a.py", SECTION, SECTION, {}, checkpoint=False), [sound], "mcore"),
            judge(Job("<b>&", "a.py", SECTION, SECTION, {}, checkpoint=False), [diverging], "mcore"),
            not_checked("untraced", "b.py", "could not be traced"),
        ),
        "mcore",
        1,
        Versions("2.11.0", "0.19.2", "", "NVIDIA H200"),
    )


def test_the_parent_never_imports_torch() -> None:
    code = "import sys, fsdp_migrate.traincheck.command; print([m for m in ('torch', 'megatron') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ({"torch", "megatron.core"}, "torch and megatron-core not installed: pip install"),
        ({"torch"}, "torch not installed: pip install"),
        ({"megatron.core"}, "megatron-core not installed: pip install"),
    ],
)
def test_what_to_install_is_one_line(missing: set[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "installed", lambda name: name not in missing)
    with pytest.raises(environment.CannotRunError) as error:
        environment.choose("auto", None)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


def test_without_torch_the_command_says_so(tmp_path: Path) -> None:
    """In an interpreter that has nothing but the tool's own dependencies."""
    (tmp_path / "recipes.json").write_text(json.dumps([{"name": "r", "settings": dict(SHARDED)}]))
    block = "import sys; sys.meta_path.insert(0, type('B', (), {'find_spec': staticmethod(lambda n, *a: "
    block += "(_ for _ in ()).throw(ImportError(n)) if n in ('torch', 'megatron') else None)}))\n"
    code = (
        block + "from fsdp_migrate.traincheck.command import train_check; train_check(['--settings', 'recipes.json'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("fsdp-migrate train-check: torch and megatron-core not installed: pip install")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("chosen", "gpus"), [(None, 3), ("0", 1), ("0,1", 2), ("", 0), ("-1", 0), ("0,-1,1", 1), ("0,1,2,3", 3)]
)
def test_visible_gpus(chosen: str | None, gpus: int, tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    variables = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    assert environment.visible_gpus(variables, tmp_path) == gpus


@pytest.mark.parametrize(
    ("backend", "gpus", "bridge", "chosen"),
    [
        ("auto", 0, True, ("rehearsal", 2)),
        ("auto", 2, True, ("bridge", 2)),
        ("auto", 2, False, ("mcore", 2)),
        ("mcore", 1, True, ("mcore", 1)),
        ("rehearsal", 1, True, ("rehearsal", 2)),
    ],
)
def test_the_backend_that_is_chosen(
    backend: str, gpus: int, bridge: bool, chosen: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "installed", lambda name: bridge or name != "megatron.bridge")
    monkeypatch.setattr(environment, "torch_has_cuda", lambda: gpus > 0)
    monkeypatch.setattr(environment, "visible_gpus", lambda variables: gpus)
    machine = environment.choose(backend, None)
    assert (machine.backend, machine.ranks) == chosen


@pytest.mark.parametrize(("backend", "gpus"), [("mcore", None), ("bridge", None), ("mcore", 2)])
def test_a_gpu_backend_without_one_is_refused(backend: str, gpus: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "installed", lambda name: True)
    monkeypatch.setattr(environment, "torch_has_cuda", lambda: True)
    monkeypatch.setattr(environment, "visible_gpus", lambda variables: gpus is not None)
    with pytest.raises(environment.CannotRunError, match=r"--gpus 2, but|--backend rehearsal"):
        environment.choose(backend, gpus)


def test_events_are_read_by_whole_lines(tmp_path: Path) -> None:
    events = Events(tmp_path)
    assert events.new() == []
    append_event(tmp_path, {"job": 0, "doing": "start"})
    with (tmp_path / "progress.jsonl").open("a") as lines:
        lines.write('{"job": 0, "do')
    assert events.new() == [{"job": 0, "doing": "start"}]
    with (tmp_path / "progress.jsonl").open("a") as lines:
        lines.write('ne": true}\n')
    assert events.new() == [{"job": 0, "done": True}]


def test_folders_of_killed_checks_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    orphan = tmp_path / f"{launch.FOLDER_PREFIX}{ended.pid}-x"
    alive = tmp_path / f"{launch.FOLDER_PREFIX}{os.getpid()}-x"
    other = tmp_path / "something-else"
    for folder in (orphan, alive, other):
        folder.mkdir()
    launch._remove_orphans(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([alive, other])


def test_a_wrong_report_name_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        command("x.py", "--report", "report.pdf"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "a report is a .json, .xml or .html file" in done.stderr


def test_settings_that_are_no_recipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "recipes.json").write_text('{"name": 1}')
    with pytest.raises(recipes.NoRecipesError, match="not a list of recipes"):
        recipes.from_file(tmp_path / "recipes.json")


def test_json(checked: report.Checked) -> None:
    data = json.loads(report.render(checked, "json"))
    assert [recipe["verdict"].split(":")[0] for recipe in data["recipes"]] == ["trains", "fails", "not checked"]
    assert data["recipes"][1]["fsdp"]["losses"] == [4.0, "nan"]
    assert data["versions"]["megatron_core"] == "0.19.2"


def test_junit(checked: report.Checked) -> None:
    suites = ET.fromstring(report.render(checked, "xml"))
    assert [suite.get("name") for suite in suites] == ["sound", "<b>&", "untraced"]
    assert [suite.get("failures") for suite in suites] == [
        "0",
        "3",
        "0",
    ]  # a loss that is not a number neither falls nor equals
    assert "not finite at step 2" in suites[1].find("testcase/failure").get("message")  # type: ignore[union-attr]


def test_html_is_one_well_formed_page(checked: report.Checked) -> None:
    text = report.render(checked, "html")
    open_tags: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "link", "img")
            if tag not in ("meta", "br"):
                open_tags.append(tag)

        def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            assert tag in ("polyline", "path", "rect")

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Parser().feed(text)
    assert open_tags == []
    assert text.count("<polyline") == 4
    assert "3.00 GiB" in text
    assert "http" not in text
    assert "<b>&amp;" not in text


def test_the_table_names_recipe_and_machine(checked: report.Checked, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    report.print_table(checked, Console(width=200))
    out = capsys.readouterr().out
    assert "1 × NVIDIA H200, torch 2.11.0, megatron-core 0.19.2" in out
    assert "4.0000 → 3.0000" in out
    assert "→ the loss left the range of numbers" in out
