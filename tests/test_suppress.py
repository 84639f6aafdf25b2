"""Comments that exempt findings: where they may stand, what they cover, and what is wrong with them."""

from __future__ import annotations

import json

import pytest

from fsdp_migrate.api import Options, migrate_source
from fsdp_migrate.findings import Result

ALL = "FSDP0"
STORE = "cfg.dist.use_megatron_fsdp = True"
LIBRARY = Options(select=("FSDP001", "FSDP002", "FSDP003", "FSDP004", "FSDP005", "FSDP007", "FSDP020", "FSDP9"))
"""Without companions and what they would add to every example."""


def look(text: str, name: str = "recipe.py", options: Options = LIBRARY, **more: object) -> Result:
    result = migrate_source(text.encode(), name, options, **more)  # type: ignore[arg-type]
    assert not result.error
    return result


def kept(result: Result) -> list[str]:
    return sorted(f.code for f in result.suppressed)


def told(result: Result) -> list[str]:
    return sorted(f.code for f in result.findings)


COVERED = {
    "behind": ("recipe.py", f"{STORE}  # fsdp-migrate: ignore[FSDP001] old release\n"),
    "behind, no line end": ("recipe.py", f"{STORE}  # fsdp-migrate: ignore[FSDP001]"),
    "above": ("recipe.py", f"# fsdp-migrate: ignore[FSDP001] old release\n{STORE}\n"),
    "above, with more comments and blank lines": (
        "recipe.py",
        f"# fsdp-migrate: ignore[FSDP001]\n# It is old.\n\n{STORE}\n",
    ),
    "windows line ends": ("recipe.py", f"# fsdp-migrate: ignore[FSDP001]\r\n{STORE}\r\n"),
    "byte order mark": ("recipe.py", f"\ufeff{STORE}  # fsdp-migrate: ignore[FSDP001]\n"),
    "non-BMP before it": ("recipe.py", f"x = '🚀'; {STORE}  # fsdp-migrate: ignore[FSDP001]\n"),
    "behind another comment": ("recipe.py", f"{STORE}  # noqa: X  # fsdp-migrate: ignore[FSDP001]\n"),
    "a group": ("recipe.py", f"{STORE}  # fsdp-migrate: ignore[FSDP0]\n"),
    "lower case": ("recipe.py", f"{STORE}  # fsdp-migrate: ignore[fsdp001]\n"),
    "one-line if": ("recipe.py", f"if x: {STORE}  # fsdp-migrate: ignore[FSDP001]\n"),
    "two statements": ("recipe.py", f"x = 1; {STORE}  # fsdp-migrate: ignore[FSDP001]\n"),
    "behind a statement that begins behind another": (
        "recipe.py",
        "x = 1; y = (\n    cfg.dist.use_megatron_fsdp\n)  # fsdp-migrate: ignore[FSDP003]\n",
    ),
    "beyond ASCII": (
        "recipe.py",
        f"# -*- coding: utf-8 -*-\nx = 'é'\n\n\ndef f(cfg):\n    {STORE}  # é # fsdp-migrate: ignore[FSDP001] é\n",
    ),
    "above a decorated function": (
        "recipe.py",
        f"# fsdp-migrate: ignore[FSDP001]\n@once\n@twice(1)\ndef f(cfg):\n    x = 1\n    {STORE}\n",
    ),
    "above a compound statement": ("recipe.py", f"# fsdp-migrate: ignore[FSDP001]\nif x:\n    y()\n    {STORE}\n"),
    "above an argument": (
        "recipe.py",
        (
            "c = ConfigContainer(\n    # fsdp-migrate: ignore[FSDP002]\n    dist=DistributedInitConfig(\n"
            "        use_megatron_fsdp=True,\n    ),\n    ddp=DistributedDataParallelConfig(),\n)\n"
        ),
    ),
    "behind an argument": (
        "recipe.py",
        (
            "c = ConfigContainer(\n"
            "    dist=DistributedInitConfig(use_megatron_fsdp=True),  # fsdp-migrate: ignore[FSDP002]\n"
            "    ddp=DistributedDataParallelConfig(),\n)\n"
        ),
    ),
    "behind the last line of a statement": (
        "recipe.py",
        (
            "c = ConfigContainer(\n    dist=DistributedInitConfig(use_megatron_fsdp=True),\n"
            "    ddp=DistributedDataParallelConfig(),\n)  # fsdp-migrate: ignore[FSDP002]\n"
        ),
    ),
    "a file": ("recipe.py", f"# fsdp-migrate: ignore-file[FSDP001] frozen\nx = 1\n\n\n{STORE}\n"),
    "a file, at its end": ("recipe.py", f"x = 1\n{STORE}\n# fsdp-migrate: ignore-file[FSDP001]\n"),
    "yaml, behind": ("o.yaml", "dist:\n  use_megatron_fsdp: true  # fsdp-migrate: ignore[FSDP005]\n"),
    "yaml, above": ("o.yaml", "dist:\n  # fsdp-migrate: ignore[FSDP005]\n  use_megatron_fsdp: true\n"),
    "yaml, above the section": (
        "o.yaml",
        "# fsdp-migrate: ignore[FSDP005]\ndist:\n  a: 1\n  use_megatron_fsdp: true\n",
    ),
    "yaml, flow": ("o.yaml", "dist: {a: 1,\n  use_megatron_fsdp: true}  # fsdp-migrate: ignore[FSDP005]\n"),
    "yaml, list": ("o.yaml", "words:\n  # fsdp-migrate: ignore[FSDP004]\n  - dist.use_megatron_fsdp=true\n"),
    "yaml, a file": ("o.yaml", "# fsdp-migrate: ignore-file[FSDP005]\ndist:\n  use_megatron_fsdp: true\n"),
    "yaml, a script inside": (
        "o.yaml",
        "run: |\n  train dist.use_megatron_fsdp=true  # fsdp-migrate: ignore[FSDP004]\n",
    ),
    "toml": ("o.toml", "[dist]\nuse_megatron_fsdp = true  # fsdp-migrate: ignore[FSDP005]\n"),
    "toml, above the table": ("o.toml", "# fsdp-migrate: ignore[FSDP005]\n[dist]\nuse_megatron_fsdp = true\n"),
    "json with comments": (
        "o.jsonc",
        '{"dist": {\n  // fsdp-migrate: ignore[FSDP005]\n  "use_megatron_fsdp": true}}\n',
    ),
    "shell, behind": ("l.sh", "train dist.use_megatron_fsdp=true  # fsdp-migrate: ignore[FSDP004]\n"),
    "shell, continued": (
        "l.sh",
        "# fsdp-migrate: ignore[FSDP004]\ntrain a=1 \\\n  dist.use_megatron_fsdp=true \\\n  b=2\n",
    ),
    "shell, behind the last line": (
        "l.sh",
        "train a=1 \\\n  dist.use_megatron_fsdp=true \\\n  b=2  # fsdp-migrate: ignore[FSDP004]\n",
    ),
    "shell, array": ("l.sh", "A=(\n  dist.use_megatron_fsdp=true  # fsdp-migrate: ignore[FSDP004]\n)\ntrain ${A[@]}\n"),
    "shell, above a heredoc": (
        "l.sh",
        f"# fsdp-migrate: ignore[FSDP001]\npython - <<'EOF'\n{STORE}\nEOF\n",
    ),
    "shell, in a heredoc": ("l.sh", f"python - <<'EOF'\n{STORE}  # fsdp-migrate: ignore[FSDP001]\nEOF\n"),
    "markdown, in a block": ("d.md", f"```python\n{STORE}  # fsdp-migrate: ignore[FSDP001]\n```\n"),
    "markdown, in a list": ("d.md", f"- a\n\n  ```python\n  # fsdp-migrate: ignore[FSDP001]\n  {STORE}\n  ```\n"),
    "markdown, above a block": (
        "d.md",
        f"<!-- fsdp-migrate: ignore[FSDP001] history -->\n```python\nx = 1\n\n{STORE}\n```\n",
    ),
    "markdown, prose": ("d.md", "<!-- fsdp-migrate: ignore-file[FSDP007] -->\n\nSet `dist.use_megatron_fsdp`.\n"),
    "markdown, a paragraph": (
        "d.md",
        "<!-- fsdp-migrate: ignore[FSDP007] -->\nSet\n`dist.use_megatron_fsdp`\n\nand.\n",
    ),
    "mdx": ("d.mdx", "{/* fsdp-migrate: ignore-file[FSDP007] */}\n\nSet `dist.use_megatron_fsdp`.\n"),
    "rest": ("d.rst", ".. fsdp-migrate: ignore-file[FSDP007]\n\nSet ``dist.use_megatron_fsdp``.\n"),
    "rest, in a block": ("d.rst", f".. code-block:: python\n\n   {STORE}  # fsdp-migrate: ignore[FSDP001]\n"),
}


@pytest.mark.parametrize(("name", "text"), COVERED.values(), ids=COVERED)
def test_a_comment_exempts(name: str, text: str) -> None:
    result = look(text, name)
    assert kept(result)
    assert told(result) == []
    assert not result.changed


NOT_COVERED = {
    "a string": ("recipe.py", f'x = "# fsdp-migrate: ignore-file[FSDP001]"\n{STORE}\n'),
    "a docstring": ("recipe.py", f'"""\n# fsdp-migrate: ignore-file[FSDP001]\n"""\n{STORE}\n'),
    "yaml, a string": ("o.yaml", 'x: "# fsdp-migrate: ignore-file[FSDP005]"\ndist:\n  use_megatron_fsdp: true\n'),
    "yaml, a block": ("o.yaml", "x: |\n  # fsdp-migrate: ignore-file[FSDP005]\ndist:\n  use_megatron_fsdp: true\n"),
    "shell, a string": ("l.sh", "x='# fsdp-migrate: ignore-file[FSDP004]'\ntrain dist.use_megatron_fsdp=true\n"),
    "shell, a heredoc": (
        "l.sh",
        "cat > x.txt <<EOF\n# fsdp-migrate: ignore-file[FSDP004]\nEOF\ntrain dist.use_megatron_fsdp=true\n",
    ),
    "markdown, a fence that shows it": (
        "d.md",
        "```markdown\n<!-- fsdp-migrate: ignore-file[FSDP007] -->\n```\n\nSet `dist.use_megatron_fsdp`.\n",
    ),
}


@pytest.mark.parametrize(("name", "text"), NOT_COVERED.values(), ids=NOT_COVERED)
def test_what_is_no_comment_exempts_nothing(name: str, text: str) -> None:
    result = look(text, name)
    assert kept(result) == []
    assert told(result)


OTHER_LINES = {
    "the line above": f"x = 1  # fsdp-migrate: ignore[FSDP001]\n{STORE}\n",
    "above another statement": f"# fsdp-migrate: ignore[FSDP001]\nx = 1\n{STORE}\n",
    "another code": f"{STORE}  # fsdp-migrate: ignore[FSDP003]\n",
    "behind a header": f"if x:  # fsdp-migrate: ignore[FSDP001]\n    {STORE}\n",
}


@pytest.mark.parametrize("text", OTHER_LINES.values(), ids=OTHER_LINES)
def test_a_comment_elsewhere_is_unused_and_goes_with_the_fix(text: str) -> None:
    result = look(text)
    assert told(result) == ["FSDP001", "FSDP900"]
    assert "fsdp-migrate" not in result.output.decode()
    assert "cfg.ddp.use_megatron_fsdp = True" in result.output.decode()


def test_two_findings_on_a_line_are_told_apart() -> None:
    text = f"{STORE}  # was dist.use_megatron_fsdp # fsdp-migrate: ignore[FSDP007]\n"
    result = look(text)
    assert (kept(result), told(result)) == (["FSDP007"], ["FSDP001"])
    assert result.output.decode() == text.replace("cfg.dist", "cfg.ddp")


def test_an_exempted_part_holds_the_whole_move() -> None:
    text = "cfg.dist.use_megatron_fsdp = on()\nprint(cfg.dist.use_megatron_fsdp)  # fsdp-migrate: ignore[FSDP003]\n"
    result = look(text)
    assert kept(result) == ["FSDP003"]
    assert [(f.code, "exempts" in f.why) for f in result.findings] == [("FSDP001", True)]
    assert not result.changed


BASE = "def base_on():\n    cfg = base()\n    cfg.dist.use_megatron_fsdp = True\n    return cfg\n\n\n"
DERIVED = "def derived():\n    cfg = base_on()\n    cfg.dist.use_megatron_fsdp = {value}{comment}\n    return cfg\n"


@pytest.mark.parametrize(
    ("value", "comment", "lines", "moves"),
    [
        ("False", "  # fsdp-migrate: ignore[FSDP0] old", (), False),
        ("on", "  # fsdp-migrate: ignore[FSDP001, FSDP021]", (), False),
        ("True", "  # fsdp-migrate: ignore[FSDP0] old", (), True),
        ("False", "", (), True),
        ("False", "", ((3, 3),), False),
    ],
)
def test_a_base_does_not_move_alone(value: str, comment: str, lines: tuple[tuple[int, int], ...], moves: bool) -> None:
    # Old Bridge computes dist OR ddp: over a base that is on through ddp, dist = False has no effect.
    result = look(BASE + DERIVED.format(value=value, comment=comment), lines=lines)
    assert ("cfg.ddp.use_megatron_fsdp = True" in result.output.decode()) is moves
    if not moves:
        assert not result.changed
        assert [f.why.partition(",")[0] for f in result.findings if f.place.line == 3 and f.code == "FSDP001"] == [
            "a recipe that derives from this one is not migrated along"
        ]


def test_an_exempted_companion_is_not_added() -> None:
    comment = "# fsdp-migrate: ignore[FSDP010, FSDP011] the launcher sets them"
    text = f"def f():\n    cfg = base()\n    {comment}\n    {STORE}\n    return cfg\n"
    result = look(text, options=Options())
    assert result.output.decode() == text.replace("dist", "ddp").replace(
        "    return", '    cfg.checkpoint.ckpt_format = "fsdp_dtensor"\n    return'
    )
    assert kept(look(result.output.decode(), options=Options())) == ["FSDP010", "FSDP011"]


def test_a_comment_about_the_move_itself_goes_with_it() -> None:
    text = (
        "def f(cfg):\n    cfg.dist.use_megatron_fsdp = False  # fsdp-migrate: ignore[FSDP021] meant so\n    use(cfg)\n"
    )
    result = look(text, options=Options())
    assert kept(result) == ["FSDP021"]
    assert result.output.decode() == "def f(cfg):\n    cfg.ddp.use_megatron_fsdp = False\n    use(cfg)\n"


def test_a_comment_that_the_move_would_leave_behind_stops_it() -> None:
    comment = "# fsdp-migrate: ignore[FSDP01] the launcher sets them"
    text = f"{comment}\ndist:\n  use_megatron_fsdp: true\n  a: 1\nddp:\n  b: 1\n"
    result = migrate_source(text.encode(), "o.yaml")
    assert "give it another meaning: put it above the statement that stays, use ignore-file" in result.error
    assert not result.changed
    whole = migrate_source(text.replace("ignore[", "ignore-file[").encode(), "o.yaml")
    assert "ddp:\n  b: 1\n  use_megatron_fsdp: true\n" in whole.output.decode()


def test_the_reason_is_kept() -> None:
    (finding,) = look(f"{STORE}  # fsdp-migrate: ignore[FSDP001] runs on 0.5\n").suppressed
    assert finding.why == "exempted by a comment: runs on 0.5"


UNUSED = {
    "one of two": ("x.py", f"{STORE}  # fsdp-migrate: ignore[FSDP001, FSDP003] why\n", "ignore[FSDP001] why"),
    "the only line": ("x.py", "# fsdp-migrate: ignore[FSDP001]", ""),
    "the last line": ("x.py", "x = 1\n# fsdp-migrate: ignore[FSDP001]", "x = 1"),
    "the last line, windows": ("x.py", "x = 1\r\n# fsdp-migrate: ignore[FSDP001]", "x = 1"),
    "between comments": ("x.py", "x = 1  # a # fsdp-migrate: ignore[FSDP001] b # c\n", "x = 1  # a # c\n"),
    "markdown": ("x.md", "a\n<!-- fsdp-migrate: ignore-file[FSDP007] -->\nb\n", "a\nb\n"),
    "shell": ("x.sh", "a  # fsdp-migrate: ignore[FSDP004]\n", "a\n"),
}


@pytest.mark.parametrize(("name", "text", "left"), UNUSED.values(), ids=UNUSED)
def test_what_is_unused_goes(name: str, text: str, left: str) -> None:
    result = look(text, name)
    assert told(result) == ["FSDP900"]
    if left.startswith("ignore"):
        assert left in result.output.decode() and "FSDP003" not in result.output.decode()
    else:
        assert result.output.decode() == left


@pytest.mark.parametrize(
    ("select", "ignore", "is_told"),
    [
        ((), (), True),
        (("FSDP003", "FSDP900"), (), False),
        (("FSDP00", "FSDP900"), (), True),
        ((), ("FSDP001",), False),
        ((), ("FSDP900",), False),
    ],
)
def test_only_codes_that_the_run_looked_at_are_called_unused(
    select: tuple[str, ...], ignore: tuple[str, ...], is_told: bool
) -> None:
    options = Options(select=select, ignore=ignore)
    result = look("x = 1  # fsdp-migrate: ignore[FSDP001]\n", options=options)
    assert told(result) == (["FSDP900"] if is_told else [])


def test_what_a_trace_may_still_find_is_not_called_unused() -> None:
    assert told(look("x = 1  # fsdp-migrate: ignore[FSDP105]\n", options=Options())) == []
    assert told(look("x = 1  # fsdp-migrate: ignore[FSDP1]\n", options=Options())) == []


def test_lines_that_were_not_asked_for_are_not_called_unused() -> None:
    result = look(f"{STORE}  # fsdp-migrate: ignore[FSDP001]\nx = 1\n", lines=((2, 2),))
    assert told(result) == kept(result) == []


@pytest.mark.parametrize("comment", ["ignore", "ignore[]", "ignore[FSDP001 why"])
def test_a_comment_without_a_code_is_an_error_and_exempts_nothing(comment: str) -> None:
    result = look(f"{STORE}  # fsdp-migrate: {comment}\n")
    assert told(result) == ["FSDP001", "FSDP901"]


@pytest.mark.parametrize("magic", ["", "%time\n", "!ls\n"])
def test_notebooks(magic: str) -> None:
    source = f"{magic}{STORE}  # fsdp-migrate: ignore[FSDP001]\n# fsdp-migrate: ignore[FSDP003]\nx = 1"
    cell = {"cell_type": "code", "metadata": {}, "source": source.splitlines(True), "outputs": []}
    for layout in (1, None):
        text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}, indent=layout)
        result = look(text, "n.ipynb")
        assert (kept(result), told(result)) == (["FSDP001"], ["FSDP900"])
        after = "".join(json.loads(result.output)["cells"][0]["source"])
        assert after == source.replace("# fsdp-migrate: ignore[FSDP003]\n", "")
