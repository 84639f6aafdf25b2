"""What the command imports, compiles and starts while it looks at a tree full of Python that wants to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.security.conftest import RECIPE, Trap, command, git

# Modules that the command itself or the interpreter may ask for, and files that other tools run when they see them.
_NAMES = """
    ast click codecs codemod concurrent conftest fsdp_migrate json libcst multiprocessing noxfile pathspec re rich setup
    sitecustomize tomllib transforms tree_sitter tree_sitter_bash usercustomize yaml
"""
SHADOWS = _NAMES.split()

# Every worker starts on the first file.
POOLED = """
import sys
from fsdp_migrate import run
run.run.__kwdefaults__.update(pool_pays=0, sample=0)
from fsdp_migrate.cli import main
if __name__ == "__main__":
    main()
"""


def hostile(folder: Path, trap: Trap) -> Path:
    folder.mkdir(parents=True)
    for name in SHADOWS:
        (folder / f"{name}.py").write_bytes(trap.python.encode() + RECIPE)
        (folder / "src" / name).mkdir(parents=True)
        (folder / "src" / name / "__init__.py").write_bytes(trap.python.encode() + RECIPE)
    (folder / "evil.pth").write_text(f"import os; {trap.python}")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'
    )
    (folder / "config.yaml").write_text(
        "dist:\n  use_megatron_fsdp: true\n"
        f"a: !!python/object/apply:os.system ['{trap.program}']\n"
        f"b: !!python/name:os.system\nc: !!python/module:conftest\nd: ${{oc.env:HOME}}\n_target_: os.system\n"
    )
    (folder / "model.pkl").write_bytes(b"cos\nsystem\n(S'" + str(trap.program).encode() + b"'\ntR.")
    (folder / "run.sh").write_text(
        f"#!/bin/sh\n$({trap.program}) python t.py dist.use_megatron_fsdp=true `{trap.program}`\n"
    )
    (folder / "doc.md").write_text(f"```python\n{trap.python}cfg.dist.use_megatron_fsdp = True\n!{trap.program}\n```\n")
    (folder / "base.py").write_text(f"from conftest import recipe as base\n{trap.python}")
    (folder / "derived.py").write_text(
        "from base import base\n\n\n"
        "def derived():\n    cfg = base()\n    cfg.dist.use_megatron_fsdp = True\n    return cfg\n"
    )
    return folder


def test_nothing_in_the_tree_runs(tmp_path: Path, trap: Trap) -> None:
    folder = hostile(tmp_path / "repository", trap)
    git("init", "-q", cwd=folder)
    for line in (".", "--diff --unsafe-fixes .", "--check .", "rules", "--write --allow-dirty ."):
        done = command(*line.split(), cwd=folder)
        assert done.returncode in (0, 1), done.stderr
    assert trap.sprung == ""
    assert b"ddp.use_megatron_fsdp = True" in (folder / "derived.py").read_bytes()


def test_workers_import_nothing_from_the_tree(tmp_path: Path, trap: Trap) -> None:
    folder = hostile(tmp_path / "repository", trap)
    program = tmp_path / "program" / "pooled"
    program.parent.mkdir()
    program.write_text(POOLED)
    done = subprocess.run(
        [sys.executable, program, "--diff", "-j2", "."], cwd=folder, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stderr
    assert trap.sprung == ""


AUDITED = """
import json, os, sys
CHANGES = "os.rename os.remove os.truncate os.mkdir os.link os.symlink os.chmod os.chown".split()
NEVER = (
    "os.system os.exec os.posix_spawn os.spawn os.fork pickle.find_class socket.connect socket.bind ctypes.dlopen "
    "shutil.rmtree tempfile.mkstemp code.__new__"
).split()
tree, seen = os.path.realpath(sys.argv.pop(1)), []
def inside(path):
    return isinstance(path, (str, bytes)) and os.path.realpath(os.fsdecode(path)).startswith(tree + os.sep)
def hook(event, arguments):
    match event:
        case "exec":
            name = arguments[0].co_filename
            # What `ast.parse` calls a text, and what an import calls a file. dataclasses and enum make "<string>".
            if name == "<unknown>" or (inside(name) and not name.startswith("<")):
                seen.append([event, name])
        case "import":
            if inside(arguments[1] or ""):
                seen.append([event, *map(str, arguments[:2])])
        case "subprocess.Popen":
            seen.append([event, str(arguments[0])])
        case "open":
            path, mode, flags = arguments
            if not isinstance(path, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                if not inside(path) and path != os.devnull and "__pycache__" not in str(path):
                    seen.append([event, str(path)])
        case _ if event in CHANGES:
            # A descriptor of the folder comes with a bare name.
            if isinstance(arguments[0], (str, bytes)) and os.path.isabs(arguments[0]) and not inside(arguments[0]):
                if "__pycache__" not in str(arguments[0]):
                    seen.append([event, str(arguments[0])])
        case _ if event in NEVER:
            seen.append([event, *map(str, arguments)])
from fsdp_migrate.cli import main
sys.addaudithook(hook)
try:
    main()
except SystemExit as end:
    hook_result = {"status": end.code, "seen": seen}
print(json.dumps(hook_result), file=sys.stderr)
"""


def test_the_interpreter_confirms_it(tmp_path: Path, trap: Trap) -> None:
    folder = hostile(tmp_path / "repository", trap)
    git("init", "-q", cwd=folder)
    program = tmp_path / "program" / "audited"
    program.parent.mkdir()
    program.write_text(AUDITED)
    done = subprocess.run(
        [sys.executable, program, folder, "--write", "--allow-dirty", "-j1", "-q", "."],
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    result = json.loads(done.stderr.splitlines()[-1])
    assert result["status"] == 1  # something is left to do by hand
    assert result["seen"] == [["subprocess.Popen", "git"]]
