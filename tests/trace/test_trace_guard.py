"""Hostile recipes: nothing they do reaches the caller, the disk, the network or another recipe."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from fsdp_migrate.trace import trace_targets

HOSTILE = Path(__file__).parents[2] / "fixtures" / "trace" / "hostile" / "recipes.py"


def reasons(*names: str, timeout: float = 20.0) -> dict[str, str]:
    """Trace hostile recipes, with a harmless one before and after."""
    targets = [f"{HOSTILE}::{name}_config" for name in ("a_good", *names, "z_last")]
    recipes = trace_targets(targets, timeout=timeout)
    assert recipes[0]["ddp.use_megatron_fsdp"] is True
    assert recipes[-1]["ddp.use_megatron_fsdp"] is True
    return {recipe.name.removesuffix("_config"): recipe.reason for recipe in recipes[1:-1]}


def test_endless_loops_end():
    found = reasons("endless_loop", "endless_loop_that_catches_everything", timeout=1.5)
    assert set(found.values()) == {"took longer than 1.5 s"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("exits", "called sys.exit(1): no GPU"),
        ("exits_at_once", "ended the process with exit status 3"),
        ("forks", "starting a process is refused"),
        ("runs_a_command", "starting a process is refused"),
        ("runs_a_shell", "starting a process is refused"),
        ("allocates_one_gigabyte", "MemoryError"),
        ("allocates", "MemoryError"),
        ("connects", "network access is refused"),
        ("resolves_a_name", "network access is refused"),
        ("kills_its_parent", "sending a signal is refused"),
        ("kills_itself", "ended the process with SIG"),
        ("recurses", "RecursionError"),
        ("raises_a_base_exception", "KeyboardInterrupt"),
        ("raises_without_text", "Odd"),
        ("closes_every_descriptor", "ended the process"),
        ("breaks_the_interpreter", "ended the process"),
        ("writes_to_every_descriptor", ""),
        ("leaves_a_thread", ""),
        ("huge", ""),
        ("holds_itself", ""),
        ("odd_numbers", ""),
    ],
)
def test_what_becomes_of(name, reason):
    found = reasons(name)[name]
    assert reason in found
    assert bool(reason) == bool(found)


@pytest.mark.parametrize(
    "name",
    [
        "leaves_a_timer_that_ends_the_process",
        "clears_the_import_system",
        "changes_the_environment",
        "removes_its_folder",
        "watches_the_interpreter",
    ],
)
def test_the_next_recipe_finds_a_sound_process(name):
    _, after = trace_targets([f"{HOSTILE}::{n}_config" for n in (name, "needs_a_sound_process")])
    assert after.reason == ""
    assert after["train.found"] == ["wave", True, None]


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")
def test_nothing_is_left_running_when_the_caller_is_killed(tmp_path):
    recipe = tmp_path / "recipe.py"
    recipe.write_text(f"import os\ndef my_config():\n    while True: os.path.exists({str(tmp_path)!r})\n")
    code = f"from fsdp_migrate.trace import trace_targets; trace_targets([{str(recipe)!r}], timeout=120)"
    caller = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_for(lambda: children_of(caller.pid))
        [child] = children_of(caller.pid)
    finally:
        caller.kill()
        caller.wait()
    wait_for(lambda: not Path(f"/proc/{child}").exists() or is_zombie(child))


def wait_for(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    """Processes that have started to run recipes: their working directory is the temporary one."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"fsdp_migrate.trace.child" in Path(f"/proc/{child}/cmdline").read_bytes()]


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_what_recipes_print_goes_nowhere(capfd):
    assert reasons("prints") == {"prints": ""}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("writes_a_file", True),
        ("writes_through_a_link", True),
        ("removes_a_file", True),
        ("renames_a_file", True),
        ("writes_in_its_own_folder", False),
    ],
)
def test_nothing_outside_the_temporary_folder_changes(tmp_path, monkeypatch, name, refused):
    copy = tmp_path / "recipes.py"
    copy.write_bytes(HOSTILE.read_bytes())
    monkeypatch.chdir(tmp_path)
    [recipe] = trace_targets([f"{copy}::{name}_config"])
    assert ("without side effects" in recipe.reason) is refused
    assert [file.name for file in tmp_path.iterdir()] == ["recipes.py"]
    assert copy.read_bytes() == HOSTILE.read_bytes()


def test_files_of_the_working_directory_can_be_read(repository, monkeypatch):
    monkeypatch.chdir(repository.root)
    repository.write({"data/size.txt": "8"})
    recipe = repository.one(
        """
        import torch

        def my_config():
            with open("data/size.txt") as file:
                return torch.ConfigContainer(train=int(file.read()))
        """
    )
    assert recipe["train"] == 8


def test_a_module_that_kills_the_process_is_named_once(repository):
    repository.write(
        {
            "deadly.py": "import os\nos._exit(5)\n",
            "a.py": "import deadly\ndef a_config(): pass\n",
            "b.py": "import deadly\ndef b_config(): pass\n",
            "c.py": "import torch\ndef c_config(): return torch.ConfigContainer(train=1)\n",
        }
    )
    first, second, third = repository.trace("a.py", "b.py", "c.py")
    for recipe in (first, second):
        assert "deadly.py cannot be loaded: ended the process with exit status 5" in recipe.reason
    assert third["train"] == 1


def test_a_module_is_not_blamed_for_what_imports_it(repository):
    repository.write(
        {
            "common.py": "import torch\n",
            "a.py": "import common, os\nos._exit(5)\ndef a_config(): pass\n",
            "b.py": "from common import torch\ndef b_config(): return torch.ConfigContainer(train=1)\n",
        }
    )
    first, second = repository.trace("a.py", "b.py")
    assert first.reason == "cannot be loaded: ended the process with exit status 5"
    assert second["train"] == 1


def test_a_script_that_kills_the_process(repository):
    repository.write(
        {
            "script.py": "import os\nfrom x import pretrain\npretrain_it = os._exit(6)\npretrain(1)\n",
            "recipe.py": "import torch\ndef c_config(): return torch.ConfigContainer(train=1)\n",
        }
    )
    script, recipe = repository.trace("script.py", "recipe.py")
    assert script.reason == "ended the process with exit status 6"
    assert recipe["train"] == 1


def test_a_recipe_does_not_see_the_arguments_of_the_caller(repository):
    recipe = repository.one(
        """
        import sys
        import torch

        def my_config():
            return torch.ConfigContainer(train=sys.argv[1:], model=sys.stdin.read())
        """
    )
    assert (recipe["train"], recipe["model"]) == ([], "")
