"""`--add-ignores`: where the comments go, and that a run is clean afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdp_migrate.api import Options, migrate_source
from fsdp_migrate.findings import Result, Severity

STORE = "cfg.dist.use_megatron_fsdp = True"
MOVE = Options(select=("FSDP001", "FSDP002", "FSDP003", "FSDP004", "FSDP005", "FSDP020", "FSDP9"))
ADD = Options(select=MOVE.select, add_ignores=True)


def left(result: Result) -> list[str]:
    return [f.code for f in result.remaining if f.severity is not Severity.INFO]


WRITTEN = {
    "behind": ("x.py", f"{STORE}\n", f"{STORE}  # fsdp-migrate: ignore[FSDP001]\n"),
    "no line end": ("x.py", STORE, f"{STORE}  # fsdp-migrate: ignore[FSDP001]"),
    "windows": ("x.py", f"{STORE}\r\nx\r\n", f"{STORE}  # fsdp-migrate: ignore[FSDP001]\r\nx\r\n"),
    "byte order mark, non-BMP": (
        "x.py",
        f"\ufeffx = '🚀'; {STORE}\n",
        f"\ufeffx = '🚀'; {STORE}  # fsdp-migrate: ignore[FSDP001]\n",
    ),
    "trailing blanks": ("x.py", f"{STORE}   \n", f"{STORE}  # fsdp-migrate: ignore[FSDP001]\n"),
    "behind another comment": ("x.py", f"{STORE}  # why\n", f"{STORE}  # why  # fsdp-migrate: ignore[FSDP001]\n"),
    "merged behind": (
        "x.py",
        f"{STORE}; print(cfg.dist.use_megatron_fsdp)  # fsdp-migrate: ignore[FSDP001] old\n",
        f"{STORE}; print(cfg.dist.use_megatron_fsdp)  # fsdp-migrate: ignore[FSDP001, FSDP003] old\n",
    ),
    "two codes": (
        "x.py",
        f"{STORE}; print(cfg.dist.use_megatron_fsdp)\n",
        f"{STORE}; print(cfg.dist.use_megatron_fsdp)  # fsdp-migrate: ignore[FSDP001, FSDP003]\n",
    ),
    "one-line if": ("x.py", f"if x: {STORE}\n", f"if x: {STORE}  # fsdp-migrate: ignore[FSDP001]\n"),
    "continued": (
        "x.py",
        "def f(cfg):\n    cfg.dist.use_megatron_fsdp = \\\n        True\n",
        "def f(cfg):\n    # fsdp-migrate: ignore[FSDP001]\n    cfg.dist.use_megatron_fsdp = \\\n        True\n",
    ),
    "continued, windows": (
        "x.py",
        "cfg.dist.use_megatron_fsdp = \\\r\n  True\r\n",
        "# fsdp-migrate: ignore[FSDP001]\r\ncfg.dist.use_megatron_fsdp = \\\r\n  True\r\n",
    ),
    "before a string over lines": (
        "x.py",
        f"{STORE}; x = '''\n'''\n",
        f"# fsdp-migrate: ignore[FSDP001]\n{STORE}; x = '''\n'''\n",
    ),
    "an argument": (
        "x.py",
        "c = ConfigContainer(\n    dist=DistributedInitConfig(use_megatron_fsdp=True),\n    ddp=D(),\n)\n",
        ("c = ConfigContainer(\n    dist=DistributedInitConfig(use_megatron_fsdp=True),"
        "  # fsdp-migrate: ignore[FSDP020]\n    ddp=D(),\n)\n"),
    ),
    "yaml": (
        "x.yaml",
        "dist:\n  use_megatron_fsdp: true\n",
        "dist:\n  use_megatron_fsdp: true  # fsdp-migrate: ignore[FSDP005]\n",
    ),
    "yaml, flow": (
        "x.yaml",
        "dist: {a: 1, use_megatron_fsdp: true}\n",
        "dist: {a: 1, use_megatron_fsdp: true}  # fsdp-migrate: ignore[FSDP005]\n",
    ),
    "yaml, a script": (
        "x.yaml",
        "run: |\n  train \\\n    dist.use_megatron_fsdp=true\n",
        "# fsdp-migrate: ignore[FSDP004]\nrun: |\n  train \\\n    dist.use_megatron_fsdp=true\n",
    ),
    "yaml, a folded line": (
        "x.yaml",
        "run: >\n  train\n  dist.use_megatron_fsdp=true\n  x=1\n",
        "# fsdp-migrate: ignore[FSDP004]\nrun: >\n  train\n  dist.use_megatron_fsdp=true\n  x=1\n",
    ),
    "yaml, a quoted command": (
        "x.yaml",
        "- run: 'train dist.use_megatron_fsdp=true'\n",
        "- run: 'train dist.use_megatron_fsdp=true'  # fsdp-migrate: ignore[FSDP004]\n",
    ),
    "toml": (
        "x.toml",
        "[dist]\nuse_megatron_fsdp = true\n",
        "[dist]\nuse_megatron_fsdp = true  # fsdp-migrate: ignore[FSDP005]\n",
    ),
    "jsonc": (
        "x.jsonc",
        '{"dist": {"use_megatron_fsdp": true}}\n',
        '{"dist": {"use_megatron_fsdp": true}}  // fsdp-migrate: ignore[FSDP005]\n',
    ),
    "json": ("x.json", '{"dist": {"use_megatron_fsdp": true}}\n', None),
    "shell": (
        "x.sh",
        "train dist.use_megatron_fsdp=true\n",
        "train dist.use_megatron_fsdp=true  # fsdp-migrate: ignore[FSDP004]\n",
    ),
    "shell, continued": (
        "x.sh",
        "if x; then\n  train a=1 \\\n    dist.use_megatron_fsdp=true \\\n    b=2\nfi\n",
        ("if x; then\n  # fsdp-migrate: ignore[FSDP004]\n  train a=1 \\\n    dist.use_megatron_fsdp=true \\\n"
        "    b=2\nfi\n"),
    ),
    "shell, an array": (
        "x.sh",
        "A=(\n  dist.use_megatron_fsdp=true\n  b=2\n)\ntrain ${A[@]}\n",
        "A=(\n  dist.use_megatron_fsdp=true  # fsdp-migrate: ignore[FSDP004]\n  b=2\n)\ntrain ${A[@]}\n",
    ),
    "shell, a string over lines": (
        "x.sh",
        'A="a=1\ndist.use_megatron_fsdp=true\nb=2"\ntrain $A\n',
        '# fsdp-migrate: ignore[FSDP004]\nA="a=1\ndist.use_megatron_fsdp=true\nb=2"\ntrain $A\n',
    ),
    "shell, a heredoc": (
        "x.sh",
        f"python - <<'EOF'\n{STORE}\nEOF\n",
        f"# fsdp-migrate: ignore[FSDP001]\npython - <<'EOF'\n{STORE}\nEOF\n",
    ),
    "markdown, in a list": (
        "x.md",
        f"- a\n\n  ```python\n  {STORE}\n  ```\n",
        f"- a\n\n  ```python\n  {STORE}  # fsdp-migrate: ignore[FSDP001]\n  ```\n",
    ),
    "markdown, a prompt": (
        "x.md",
        "```console\n$ train dist.use_megatron_fsdp=true\n```\n",
        "```console\n$ train dist.use_megatron_fsdp=true  # fsdp-migrate: ignore[FSDP004]\n```\n",
    ),
    "shell, json in a heredoc": (
        "x.sh",
        'cat > x.json <<EOF\n{"dist": {"use_megatron_fsdp": true}}\nEOF\n',
        ("# fsdp-migrate: ignore[FSDP005]\n"
        'cat > x.json <<EOF\n{"dist": {"use_megatron_fsdp": true}}\nEOF\n'),
    ),
    "markdown, json": (
        "x.md",
        'a\n\n```json\n{"dist": {"use_megatron_fsdp": true}}\n```\n',
        'a\n\n<!-- fsdp-migrate: ignore[FSDP005] -->\n```json\n{"dist": {"use_megatron_fsdp": true}}\n```\n',
    ),
    "rest": (
        "x.rst",
        f".. code-block:: python\n\n   {STORE}\n",
        f".. code-block:: python\n\n   {STORE}  # fsdp-migrate: ignore[FSDP001]\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "before", "after"), WRITTEN.values(), ids=WRITTEN)
def test_a_comment_is_written(name: str, before: str, after: str | None) -> None:
    result = migrate_source(before.encode(), name, ADD)
    assert not result.error
    if after is None:
        assert result.output == before.encode()
        assert all("per-file-ignores" in f.why for f in result.remaining)
        assert left(result)
        return
    assert result.output.decode() == after
    assert left(migrate_source(result.output, name, MOVE)) == []
    assert migrate_source(result.output, name, ADD).output == result.output


@pytest.mark.parametrize("layout", [1, None])
def test_a_notebook(layout: int | None) -> None:
    source = f"!train dist.use_megatron_fsdp=true\n%time\n{STORE}"
    cell = {"cell_type": "code", "metadata": {}, "source": source.splitlines(True), "outputs": []}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}, indent=layout)
    result = migrate_source(text.encode(), "n.ipynb", ADD)
    assert not result.error
    written = "".join(json.loads(result.output)["cells"][0]["source"])
    assert written == (
        "!train dist.use_megatron_fsdp=true  # fsdp-migrate: ignore[FSDP004]\n"
        f"%time\n{STORE}  # fsdp-migrate: ignore[FSDP001]"
    )
    assert left(migrate_source(result.output, "n.ipynb", MOVE)) == []


FIXTURES = Path(__file__).parents[1] / "fixtures"
DEMO = FIXTURES / "demo"


@pytest.mark.parametrize("path", [p for p in sorted(DEMO.rglob("*")) if p.is_file()], ids=lambda p: p.name)
def test_a_run_is_clean_afterwards(path: Path) -> None:
    once = migrate_source(path.read_bytes(), str(path), Options(add_ignores=True))
    assert not once.error
    again = migrate_source(once.output, str(path), Options())
    assert len(left(again)) == sum("per-file-ignores" in f.why for f in once.remaining)
    assert not again.changed


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/*/before.*")), ids=lambda p: p.parent.name)
def test_every_exemption_survives_the_fixes_around_it(path: Path) -> None:
    source = path.read_bytes()
    for code in sorted({f.code for f in migrate_source(source, str(path)).findings} - {"FSDP021"}):
        exempted = migrate_source(source, str(path), Options(select=(code,), add_ignores=True))
        if not exempted.changed:
            continue
        for unsafe in (False, True):
            result = migrate_source(exempted.output, str(path), Options(unsafe=unsafe))
            assert not result.error
            assert {f.code for f in result.suppressed} == {code}
            assert result.output.count(b"fsdp-migrate: ignore") == exempted.output.count(b"fsdp-migrate: ignore")
