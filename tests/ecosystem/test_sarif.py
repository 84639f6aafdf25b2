"""SARIF against its schema, which npm has (package @microsoft/jest-sarif)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import jsonschema
import pytest

pytestmark = pytest.mark.ecosystem
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> object:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    subprocess.run([npm, "pack", "--silent", "@microsoft/jest-sarif"], cwd=folder, check=True, capture_output=True)
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        member = next(m for m in archive.getmembers() if "sarif-2.1.0" in m.name and m.name.endswith(".json"))
        file = archive.extractfile(member)
        assert file is not None
        return json.load(file)


@pytest.mark.parametrize("words", [(), ("--unsafe-fixes",), ("--select", "FSDP1,FSDP0")], ids=["all", "unsafe", "some"])
def test_a_report_on_everything_is_valid(schema: dict[str, object], words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "fsdp_migrate", "--isolated", "fixtures", "--output-format", "sarif", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    found = json.loads(done.stdout)
    jsonschema.validate(found, schema)
    assert len(found["runs"][0]["results"]) > 100
