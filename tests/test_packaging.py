"""Both folders install as one package, and it never meets a user's own `transforms` and `codemod`."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = set(PROJECT["tool"]["setuptools"]["packages"])

RECIPE = b"def recipe(cfg):\n    cfg.dist.use_megatron_fsdp = False\n    cfg.ddp.use_megatron_fsdp = False\n"


def folders() -> set[str]:
    """Every package in the tree, by the name that it is imported with."""
    names = set()
    for folder, package in (("codemod", "fsdp_migrate"), ("transforms", "fsdp_migrate.transforms")):
        for init in (ROOT / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT / folder).parts
            names.add(".".join((package, *parts)))
    return names


def test_every_package_is_listed() -> None:
    assert folders() == PACKAGES


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    names = ["pyproject.toml", "LICENSE", "README.md", "codemod", "transforms"]
    source.mkdir()
    for name in names:
        if (ROOT / name).exists():
            subprocess.run(["cp", "-R", ROOT / name, source / name], check=True)
    (source / "README.md").touch()
    command: list[str | Path] = [
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        source,
    ]
    subprocess.run([sys.executable, "-m", *command], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh environment that has the wheel, and borrows the dependencies of this one."""
    return environment(tmp_path_factory.mktemp("installed"), str(wheel))


def environment(folder: Path, *what: str) -> Path:
    venv.create(folder, with_pip=False, symlinks=True)
    bin_ = folder / "bin"
    (site,) = (folder / "lib").glob("python*/site-packages")
    command: list[str | Path] = [
        "pip",
        "--python",
        bin_ / "python",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        *what,
    ]
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    subprocess.run([sys.executable, "-m", *command], check=True)
    return bin_


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_the_wheel_holds_the_two_folders_as_one_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fsdp_migrate"}
    assert {"fsdp_migrate/py.typed", "fsdp_migrate/transforms/plan.py", "fsdp_migrate/cli.py"} <= set(names)
    in_tree = {
        str(Path("fsdp_migrate", place, path.relative_to(ROOT / folder)))
        for folder, place in (("codemod", ""), ("transforms", "transforms"))
        for path in (ROOT / folder).rglob("*.py")
    }
    assert in_tree <= set(names)


def test_the_installed_command_uses_the_installed_package(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import fsdp_migrate.transforms as t; print(t.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert PROJECT["project"]["version"] in run(installed / "fsdp-migrate", "--version", cwd=tmp_path)


@pytest.fixture
def rival(tmp_path: Path) -> Path:
    """A repository that has modules of the names of our folders, and breaks when one of them is imported."""
    (tmp_path / "codemod").mkdir()
    for name in ("transforms.py", "codemod/__init__.py", "codemod/cli.py"):
        (tmp_path / name).write_text("raise RuntimeError('the wrong module')\n")
    (tmp_path / "recipe.py").write_bytes(RECIPE)
    return tmp_path


@pytest.mark.parametrize("command", [["fsdp-migrate"], ["python", "-m", "fsdp_migrate"]], ids=["script", "module"])
def test_it_works_in_a_repository_with_the_same_names(installed: Path, rival: Path, command: list[str]) -> None:
    program, *arguments = command
    out = run(installed / program, *arguments, "-j2", ".", cwd=rival, PYTHONPATH=".")
    assert out.startswith("recipe.py:2:5: FSDP001 ")


def test_workers_work_in_a_repository_with_the_same_names(installed: Path, rival: Path) -> None:
    program = rival / "many.py"
    program.write_text(
        "from functools import partial\n"
        "from fsdp_migrate.api import Options\n"
        "from fsdp_migrate.run import migrate, run\n"
        "if __name__ == '__main__':\n"
        "    task = partial(migrate, options=Options(), lines={})\n"
        "    for result in run(['recipe.py'] * 4, task, jobs=2, pool_pays=0, sample=0):\n"
        "        print(result.findings[0].code, result.error)\n"
    )
    assert run(installed / "python", program, cwd=rival, PYTHONPATH=".").split() == ["FSDP001"] * 4


def test_an_editable_install_works(tmp_path: Path, rival: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "LICENSE", "codemod", "transforms"):
        subprocess.run(["cp", "-R", ROOT / name, source / name], check=True)
    (source / "README.md").touch()
    bin_ = environment(tmp_path / "editable", "--editable", str(source))
    where = run(bin_ / "python", "-c", "import fsdp_migrate.transforms as t; print(t.__file__)", cwd=rival)
    assert Path(where.strip()).is_relative_to(source.resolve())
    assert run(bin_ / "fsdp-migrate", "recipe.py", cwd=rival, PYTHONPATH=".").startswith("recipe.py:2:5: FSDP001 ")
