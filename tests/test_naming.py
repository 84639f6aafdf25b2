"""A project's own names for roots and sections: the same findings and fixes, under its names."""

from __future__ import annotations

import re

import pytest

from fsdp_migrate.api import Options, migrate_source
from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.registry import rules
from tests.test_rules import FILES

ROOT = "policy.megatron_cfg"
ROOTS = Options(root_names=(ROOT,))
SECTIONS = Options(section_names=(("dist", ("dist_init",)), ("ddp", ("ddp_config",))))

ROOTED = {
    "yaml": (
        "x.yaml",
        "policy:\n  # why\n  megatron_cfg:\n    dist:\n      use_megatron_fsdp: true  # on\n    model: x\nother: 1\n",
        (
            "policy:\n  # why\n  megatron_cfg:\n    ddp:\n      use_megatron_fsdp: true  # on\n"
            "      data_parallel_sharding_strategy: optim_grads_params\n      average_in_collective: false\n"
            "    checkpoint:\n      ckpt_format: fsdp_dtensor\n    model: x\nother: 1\n"
        ),
    ),
    "yaml, windows, no line end": (
        "x.yaml",
        "policy:\r\n  megatron_cfg:\r\n    dist:\r\n      a: 1\r\n      use_megatron_fsdp: false",
        "policy:\r\n  megatron_cfg:\r\n    dist:\r\n      a: 1\r\n    ddp:\r\n      use_megatron_fsdp: false",
    ),
    "yaml, flow": (
        "x.yaml",
        "policy: {megatron_cfg: {dist: {use_megatron_fsdp: false}}}\n",
        "policy: {megatron_cfg: {ddp: {use_megatron_fsdp: false}}}\n",
    ),
    "yaml, dotted": (
        "x.yaml",
        f"{ROOT}.dist.use_megatron_fsdp: false\n",
        f"{ROOT}.ddp.use_megatron_fsdp: false\n",
    ),
    "yaml, words": (
        "x.yaml",
        f"words:\n  - ++{ROOT}.dist.use_megatron_fsdp=false\n",
        f"words:\n  - ++{ROOT}.ddp.use_megatron_fsdp=false\n",
    ),
    "yaml, another mapping": ("x.yaml", "critic:\n  megatron_cfg:\n    dist:\n      use_megatron_fsdp: false\n", None),
    "json": (
        "x.json",
        '{"policy": {"megatron_cfg": {\n  "dist": {"use_megatron_fsdp": false}\n}}}\n',
        '{"policy": {"megatron_cfg": {\n  "ddp": {"use_megatron_fsdp": false}\n}}}\n',
    ),
    "toml": (
        "x.toml",
        f"[{ROOT}.dist]\nuse_megatron_fsdp = false\na = 1\n",
        f"[{ROOT}.dist]\na = 1\n\n[{ROOT}.ddp]\nuse_megatron_fsdp = false\n",
    ),
    "shell": (
        "x.sh",
        f"train +{ROOT}.dist.use_megatron_fsdp=false \\\n  a=1\n",
        f"train {ROOT}.ddp.use_megatron_fsdp=false \\\n  a=1\n",
    ),
    "shell, merged": (
        "x.sh",
        f"train {ROOT}.dist.use_megatron_fsdp=false {ROOT}.ddp.use_megatron_fsdp=false a=1\n",
        f"train {ROOT}.ddp.use_megatron_fsdp=false a=1\n",
    ),
    "python, words": (
        "x.py",
        f"run(['{ROOT}.dist.use_megatron_fsdp=false', '{ROOT}.ddp.use_megatron_fsdp=false', 'a=1'])\n",
        f"run(['{ROOT}.ddp.use_megatron_fsdp=false', 'a=1'])\n",
    ),
    "python, a path": (
        "x.py",
        f"{ROOT}.dist.use_megatron_fsdp = False\n",
        f"{ROOT}.ddp.use_megatron_fsdp = False\n",
    ),
    "markdown": (
        "x.md",
        f"```bash\ntrain {ROOT}.dist.use_megatron_fsdp=false\n```\n",
        f"```bash\ntrain {ROOT}.ddp.use_megatron_fsdp=false\n```\n",
    ),
}


@pytest.mark.parametrize(("name", "before", "after"), ROOTED.values(), ids=ROOTED)
def test_other_roots(name: str, before: str, after: str | None) -> None:
    result = migrate_source(before.encode(), name, ROOTS)
    assert not result.error
    assert result.output.decode() == (before if after is None else after)
    if name != "x.py":
        assert not migrate_source(before.encode(), name, Options()).changed


def test_words_that_are_added_get_the_root() -> None:
    before = f"train {ROOT}.dist.use_megatron_fsdp=true\n"
    unsafe = Options(root_names=(ROOT,), unsafe=True)
    assert migrate_source(before.encode(), "x.sh", unsafe).output.decode() == (
        f"train {ROOT}.ddp.use_megatron_fsdp=true {ROOT}.ddp.data_parallel_sharding_strategy=optim_grads_params "
        f"{ROOT}.ddp.average_in_collective=false {ROOT}.checkpoint.ckpt_format=fsdp_dtensor\n"
    )


# ── Sections ────────────────────────────────────────────────────────────────────────────────────────────────────────

_NAMES = {"dist": "dist_init", "ddp": "ddp_config"}
# Where the word is not a section, another name for the section would not stand.
_OTHERWISE = re.compile(r"import.* dist\b|MagicMock|# Set|`")


def renamed(text: str) -> str:
    return re.sub(r"(?<!\w)(?:dist|ddp)(?!\w)", lambda m: _NAMES[m[0]], text)


EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.code}-{i}")
    for rule in rules()
    for i, example in enumerate((*rule.invalid, *rule.valid))
    if example.language in FILES and "use_megatron_fsdp" in example.before and not _OTHERWISE.search(example.before)
    # An example that names no section is about what Bridge itself makes.
    if renamed(example.before) != example.before
]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
@pytest.mark.parametrize("unsafe", [False, True])
def test_other_sections_are_migrated_as_bridges_own(rule: Rule, example: Example, unsafe: bool) -> None:
    name = FILES[example.language]
    select = () if rule.default else ("FSDP0", rule.code)
    own = migrate_source(example.before.encode(), name, Options(select=select, unsafe=unsafe, target=example.target))
    options = Options(select=select, unsafe=unsafe, target=example.target, section_names=SECTIONS.section_names)
    result = migrate_source(renamed(example.before).encode(), name, options)
    assert not result.error
    assert result.output.decode() == renamed(own.output.decode())
    assert [f.code for f in result.findings] == [f.code for f in own.findings]


def test_the_place_of_a_finding_is_that_of_the_whole_name() -> None:
    text = "x = 1; cfg.dist_init.use_megatron_fsdp = False  # ü\n"
    (finding, *_) = migrate_source(text.encode(), "x.py", SECTIONS).findings
    assert text[finding.place.column - 1 : finding.place.end_column - 1] == "cfg.dist_init.use_megatron_fsdp"


def test_only_the_old_section_has_another_name() -> None:
    options = Options(section_names=(("dist", ("dist_init",)),))
    result = migrate_source(b"cfg.dist_init.use_megatron_fsdp = False\n", "x.py", options)
    assert result.output == b"cfg.ddp.use_megatron_fsdp = False\n"


MIXED = {
    "two names of a section": (
        "x.py",
        "def f(cfg):\n    cfg.dist_init.use_megatron_fsdp = False\n    cfg.dist.use_megatron_fsdp = False\n",
    ),
    "two roots": ("x.sh", f"train {ROOT}.dist.use_megatron_fsdp=true dist.use_megatron_fsdp=true\n"),
}


@pytest.mark.parametrize(("name", "text"), MIXED.values(), ids=MIXED)
def test_two_namings_in_one_text_are_reported_and_left(name: str, text: str) -> None:
    options = Options(section_names=SECTIONS.section_names, root_names=(ROOT,))
    result = migrate_source(text.encode(), name, options)
    assert [f.code for f in result.findings] == ["FSDP020", "FSDP020"]
    assert all("by hand" in f.why for f in result.findings)
    assert not result.changed


def test_comments_exempt_under_other_names_too() -> None:
    text = (
        "policy:\n  megatron_cfg:\n    dist_init:\n"
        "      use_megatron_fsdp: false  # fsdp-migrate: ignore[FSDP005, FSDP021] x\n"
    )
    options = Options(section_names=SECTIONS.section_names, root_names=(ROOT,))
    result = migrate_source(text.encode(), "x.yaml", options)
    assert result.findings == ()
    assert {f.code for f in result.suppressed} == {"FSDP005", "FSDP021"}
    bare = text.replace("  # fsdp-migrate: ignore[FSDP005, FSDP021] x", "")
    adding = Options(section_names=options.section_names, root_names=(ROOT,), add_ignores=True)
    assert "ignore[FSDP005" in migrate_source(bare.encode(), "x.yaml", adding).output.decode()
