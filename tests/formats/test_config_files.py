"""YAML, JSON and TOML: what is moved where, and what is left alone and why."""

from __future__ import annotations

import pytest

from fsdp_migrate.api import Options, migrate_source


def check(path: str, before: str, after: str | None = None, unsafe: bool = False) -> list[str]:
    result = migrate_source(before.encode(), path, Options(unsafe=unsafe))
    assert not result.error
    assert result.output.decode() == (before if after is None else after)
    return sorted({f.code for f in result.remaining})


@pytest.mark.parametrize(
    "text",
    [
        "dist: &d\n  use_megatron_fsdp: true\nother: *d\n",
        "x: &d\n  use_megatron_fsdp: true\ndist:\n  <<: *d\n",
        "x: &d\n  dist:\n    use_megatron_fsdp: true\n<<: *d\n",
        "dist:\n  use_megatron_fsdp: true\nddp:\n  <<: {a: 1}\n",
        "dist:\n  use_megatron_fsdp: &on true\nddp:\n  use_megatron_fsdp: *on\n",
        "dist:\n  use_megatron_fsdp: true\n  use_megatron_fsdp: false\n",
        "dist:\n  use_megatron_fsdp: true\ndist:\n  a: 1\n",
        "dist:\n  use_megatron_fsdp: ${a}\nddp:\n  use_megatron_fsdp: ${b}\n",
        "dist:\n  use_megatron_fsdp: true\nddp: [1]\n",
    ],
)
def test_what_yaml_shares_or_says_twice_is_moved_by_hand(text: str) -> None:
    assert check("a.yaml", text) == ["FSDP020"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.yaml", "engine:\n  dist:\n    use_megatron_fsdp: true\n"),
        ("a.yaml", "megatron:\n  use_megatron_fsdp: true\n  ddp: 1\n"),
        ("a.json", '{"engine": {"dist": {"use_megatron_fsdp": true}}}\n'),
        ("a.toml", "[engine.dist]\nuse_megatron_fsdp = true\n"),
        ("a.sh", "python a.py --use_megatron_fsdp true engine.use_megatron_fsdp=True ddp.x=1\n"),
    ],
)
def test_other_schemas_stay(path: str, text: str) -> None:
    assert check(path, text) == []


def test_json() -> None:
    before = '{\n  "dist": {\n    "use_megatron_fsdp": true,\n    "é": 1\n  },\n  "ddp": {\n    "a": 1\n  }\n}'
    after = (
        '{\n  "dist": {\n    "é": 1\n  },\n  "ddp": {\n    "a": 1,\n    "use_megatron_fsdp": true,\n'
        '    "data_parallel_sharding_strategy": "optim_grads_params",\n    "average_in_collective": false\n  },\n'
        '  "checkpoint": {\n    "ckpt_format": "fsdp_dtensor"\n  }\n}'
    )
    assert check("a.json", before, after) == []


def test_words_in_a_json_list() -> None:
    before = '{"args": ["a.py", "dist.use_megatron_fsdp=false", "ddp.use_megatron_fsdp=false"]}\n'
    assert check("launch.json", before, '{"args": ["a.py", "ddp.use_megatron_fsdp=false"]}\n') == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[dist]\nuse_megatron_fsdp = false\n[ddp]\na = 1", "[ddp]\na = 1\nuse_megatron_fsdp = false"),
        ("dist.use_megatron_fsdp = false # c\n", "ddp.use_megatron_fsdp = false # c\n"),
        (
            "dist = { use_megatron_fsdp = false, a = nan }\n",
            "dist = { a = nan }\nddp = { use_megatron_fsdp = false }\n",
        ),
        ('["x y"]\n"dist.use_megatron_fsdp" = false\n', '["x y"]\n"ddp.use_megatron_fsdp" = false\n'),
    ],
)
def test_toml(before: str, after: str) -> None:
    assert check("a.toml", before, after) == []


def test_command_lines_in_a_workflow() -> None:
    before = (
        "jobs:\n  - run: |\n      python x.py \\\n        dist.use_megatron_fsdp=false\n"
        "  - args: [-c, python dist.use_megatron_fsdp=false]\n"
    )
    assert check("a.yml", before, before.replace("dist.", "ddp.")) == []


def test_a_dump_is_migrated_on_request_and_gets_no_companions() -> None:
    before = "dist:\n  _target_: a.DistributedInitConfig\n  use_megatron_fsdp: true\nddp:\n  use_megatron_fsdp: false\n"
    after = "dist:\n  _target_: a.DistributedInitConfig\nddp:\n  use_megatron_fsdp: true\n"
    assert check("a.yaml", before) == ["FSDP008"]
    assert check("a.yaml", before, after, unsafe=True) == []
    assert check("run_config.yaml", "dist:\n  use_megatron_fsdp: true\nddp: {}\n") == ["FSDP008"]


@pytest.mark.parametrize("path", ["a.yaml", "a.json", "a.toml", "a.ipynb", "a.md", "a.sh", "a.rst"])
@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe dist use_megatron_fsdp",
        b"dist: use_megatron_fsdp\x00\x01",
        b"{[dist.use_megatron_fsdp='(<<EOF\n```python\n{{ dist: use_megatron_fsdp",
        b"[" * 3000 + b"dist.use_megatron_fsdp",
        b"dist:\r  use_megatron_fsdp: true\r",
        "\ufeffdist:\n  use_megatron_fsdp: true\u2028\n".encode(),
    ],
    ids=["utf-16", "control", "soup", "deep", "mac", "bom"],
)
def test_nothing_in_a_file_is_a_crash(path: str, data: bytes) -> None:
    result = migrate_source(data, path)
    assert result.output == data or not result.error
