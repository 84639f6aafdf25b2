"""Markdown and reST: what a stretch of code is, and what is reported instead of edited."""

from __future__ import annotations

import pytest

from fsdp_migrate.api import Options, migrate_source

OLD, NEW = "cfg.dist.use_megatron_fsdp = False", "cfg.ddp.use_megatron_fsdp = False"


def check(before: str, after: str | None = None, path: str = "a.md", unsafe: bool = False) -> list[str]:
    """Migrate twice; the codes that remain."""
    result = migrate_source(before.encode(), path, Options(unsafe=unsafe))
    assert not result.error
    assert result.output.decode() == (before if after is None else after)
    assert not migrate_source(result.output, path, Options(unsafe=unsafe)).changed
    return sorted({f.code for f in result.remaining})


@pytest.mark.parametrize(
    "block",
    [
        "```python\n{}\n```\n",
        "~~~~ py title=x\n{}\n~~~~\n",
        "1. Do\n\n   ```python\n   {}\n   ```\n",
        "<Tab>\n\n      ```python\n      {}\n      ```\n</Tab>\n",
        "> ```python\n> {}\n> ```\n",
        "- ```python\n  {}\n  ```\n",
        "```\n{}\n```\n",
        "```148:154:src/config.py\n{}\n```\n",
        "```{{code-block}} python\n:linenos:\n{}\n```\n",
        "```python\n>>> {}\n1\n```\n",
        "```pycon\n>>> if x:\n...     {}\nTrue\n```\n",
        "```python\n...\n    {}\n...\n```\n",
        "```python\n{}\nif x:\n```\n",
        "```python\n%load_ext x\n{}\n!ls -l\n```\n",
        "```python\n{}",
        "```python\r\n{}\r\n```\r\n",
    ],
)
def test_a_python_block_at_any_indentation_and_complete_or_not(block: str) -> None:
    assert check(block.format(OLD), block.format(NEW)) == []


@pytest.mark.parametrize(
    "block",
    [
        ".. code-block:: python\n   :linenos:\n\n   {}\n\nText.\n",
        ".. code::\n\n   {}\n",
        "So::\n\n    {}\n\nText.\n",
        ">>> {}\n1\n\nText.\n",
    ],
)
def test_rest(block: str) -> None:
    assert check(block.format(OLD), block.format(NEW), "a.rst") == []


def test_prompts_and_output_of_a_console() -> None:
    before = (
        "```console\n(env) me@host:~$ torchrun a.py \\\n>   dist.use_megatron_fsdp=false \\\n"
        ">   ddp.use_megatron_fsdp=false\nout: $x (\n$ ls\n```\n"
    )
    assert check(before, before.replace(">   dist.use_megatron_fsdp=false \\\n", "")) == []


def test_placeholders_are_no_redirections() -> None:
    before = "```bash\npython a.py x=<your_path> \\\n    dist.use_megatron_fsdp=false \\\n    y=<the name>\n```\n"
    assert check(before, before.replace("dist.", "ddp.")) == []


@pytest.mark.parametrize("language", ["python", "yaml", "json"])
def test_a_block_that_cannot_be_parsed_is_reported_and_hides_no_other(language: str) -> None:
    broken = f'```{language}\ncfg.dist.use_megatron_fsdp = = [True\n  "dist": }}: {{\n```\n'
    assert check(f"{broken}```python\n{OLD}\n```\n", f"{broken}```python\n{NEW}\n```\n") == ["FSDP020"]


def test_prose_is_reported_and_changed_on_request() -> None:
    before = "Set `cfg.dist.use_megatron_fsdp`.\n"
    assert check(before) == ["FSDP007"]
    assert check(before, "Set `cfg.ddp.use_megatron_fsdp`.\n", unsafe=True) == []


@pytest.mark.parametrize(
    "text",
    [
        "Set `dist.use_megatron_fsdp` and `ddp.use_megatron_fsdp`.\n",
        "Give `use_megatron_fsdp` to `DistributedInitConfig`.\n",
    ],
)
def test_prose_that_needs_other_words_is_never_changed(text: str) -> None:
    assert check(text, unsafe=True) == ["FSDP007"]


def test_a_quotation_of_a_source_file_gets_no_companions() -> None:
    assert check("```74:98:scripts/overrides.py\nrecipe.ddp.use_megatron_fsdp = True\n```\n") == []


def test_languages_of_others_stay() -> None:
    assert check("```cpp\ncfg.dist.use_megatron_fsdp = true;\n```\n") == ["FSDP007"]
