"""Notebooks: only the source of changed cells is another one, and what comes out is a notebook."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fsdp_migrate.api import migrate_source
from fsdp_migrate.diff import unified_diff

nbformat = pytest.importorskip("nbformat")


def cell(source: Any, kind: str = "code") -> dict[str, Any]:
    made = {"cell_type": kind, "id": "c", "metadata": {"tags": ["é"]}, "source": source}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebook(*cells: dict[str, Any], **layout: Any) -> bytes:
    numbered = [made | {"id": f"c{i}"} for i, made in enumerate(cells)]
    whole = {"cells": numbered, "metadata": {"é": 1}, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(whole, **({"indent": 1, "ensure_ascii": False} | layout)) + "\n").encode()


def migrated(data: bytes) -> list[str]:
    """The sources of the cells afterwards; everything else in the notebook must be as it was."""
    result = migrate_source(data, "train.ipynb")
    assert not result.error
    nbformat.validate(nbformat.reads(result.output.decode(), as_version=4))
    before, after = json.loads(data), json.loads(result.output)
    sources = ["".join(c.pop("source")) for c in after["cells"]]
    for c in before["cells"]:
        c.pop("source")
    assert before == after
    return sources


LAYOUTS: list[dict[str, Any]] = [{}, {"indent": 4}, {"indent": None}, {"ensure_ascii": True}, {"indent": "\t"}]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("is_list", [True, False], ids=["lines", "string"])
def test_a_move_and_its_companions_in_every_layout(layout: dict[str, Any], is_list: bool) -> None:
    source = "name = 'ü🚀\\n'\ncfg.dist.use_megatron_fsdp = True"
    lines: Any = source.splitlines(keepends=True) if is_list else source
    data = notebook(cell("# Text: é", "markdown"), cell(lines), **layout)
    assert migrated(data) == [
        "# Text: é",
        (
            "name = 'ü🚀\\n'\ncfg.ddp.use_megatron_fsdp = True\n"
            "cfg.ddp.data_parallel_sharding_strategy = 'optim_grads_params'\ncfg.ddp.average_in_collective = False\n"
            "cfg.checkpoint.ckpt_format = 'fsdp_dtensor'"
        ),
    ]


@pytest.mark.parametrize("is_list", [True, False], ids=["lines", "string"])
@pytest.mark.parametrize(
    "source",
    [
        "cfg.dist.use_megatron_fsdp = False\ncfg.ddp.use_megatron_fsdp = False",
        "cfg.ddp.use_megatron_fsdp = False\ncfg.dist.use_megatron_fsdp = False",
    ],
    ids=["first", "last"],
)
def test_a_removed_line_leaves_no_empty_string(source: str, is_list: bool) -> None:
    lines: Any = source.splitlines(keepends=True) if is_list else source
    data = notebook(cell(lines))
    assert migrated(data) == ["cfg.ddp.use_megatron_fsdp = False"]
    if is_list:
        assert json.loads(migrate_source(data, "a.ipynb").output)["cells"][0]["source"] == [
            "cfg.ddp.use_megatron_fsdp = False"
        ]


def test_magics_shell_lines_and_cells_of_another_language() -> None:
    data = notebook(
        cell(["%load_ext x\n", "!python a.py dist.use_megatron_fsdp=false \\\n", "    b=1\n", "y = !ls\n", "x = 1"]),
        cell("%%bash\npython a.py dist.use_megatron_fsdp=false ddp.use_megatron_fsdp=false"),
        cell("%%writefile conf.yaml\ndist:\n  use_megatron_fsdp: false\n  a: 1\n"),
        cell("%%javascript\ncfg.dist.use_megatron_fsdp = True"),
        cell("```python\ncfg.dist.use_megatron_fsdp = False\n```\n", "markdown"),
    )
    assert migrated(data) == [
        "%load_ext x\n!python a.py ddp.use_megatron_fsdp=false \\\n    b=1\ny = !ls\nx = 1",
        "%%bash\npython a.py ddp.use_megatron_fsdp=false",
        "%%writefile conf.yaml\ndist:\n  a: 1\nddp:\n  use_megatron_fsdp: false\n",
        "%%javascript\ncfg.dist.use_megatron_fsdp = True",
        "```python\ncfg.ddp.use_megatron_fsdp = False\n```\n",
    ]


def test_cells_run_one_after_the_other() -> None:
    """Moved, the later cell would switch FSDP off again; before, either flag switched it on."""
    data = notebook(cell("cfg.dist.use_megatron_fsdp = True"), cell("cfg.ddp.use_megatron_fsdp = False"))
    result = migrate_source(data, "train.ipynb")
    assert not result.changed
    assert [f.code for f in result.findings] == ["FSDP020"]
    assert result.findings[0].message.startswith("cell 1: ")


def test_a_cell_that_is_no_python_hides_no_other() -> None:
    data = notebook(cell("cfg.dist.use_megatron_fsdp = = 1"), cell("cfg.dist.use_megatron_fsdp = False"))
    assert migrated(data)[1] == "cfg.ddp.use_megatron_fsdp = False"
    assert "FSDP020" in [f.code for f in migrate_source(data, "a.ipynb").remaining]


def test_the_diff_names_the_cell() -> None:
    data = notebook(*[cell(f"x = {i}") for i in range(5)], cell("cfg.dist.use_megatron_fsdp = False"))
    result = migrate_source(data, "train.ipynb")
    headers = [line for line in unified_diff("train.ipynb", data, result.output).split(b"\n") if line[:2] == b"@@"]
    assert len(headers) == 1
    assert headers[0].endswith(b"@@ cell 6")


@pytest.mark.parametrize(
    "data", [b'{"dist": {"use_megatron_fsdp": true}}', b'[{"use_megatron_fsdp": "dist"}]', b"dist"]
)
def test_what_is_no_notebook_is_an_error_of_that_file(data: bytes) -> None:
    result = migrate_source(data + b" use_megatron_fsdp", "a.ipynb")
    assert result.error
    assert not result.changed
