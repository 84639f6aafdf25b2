"""The rules, by their own examples."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from fsdp_migrate.api import Options, migrate_source
from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.conflicts import Known, judged
from fsdp_migrate.findings import Finding, Result
from fsdp_migrate.registry import codes, enabled, rules

FILES = {
    "python": "recipes/recipe.py",
    "yaml": "conf/override.yaml",
    "json": "conf/override.json",
    "toml": "conf/override.toml",
    "shell": "launch.sh",
    "markdown": "docs/guide.md",
    "rest": "docs/guide.rst",
    "notebook": "notes.ipynb",
}
VALID = [pytest.param(rule, example, id=f"{rule.code}-{i}") for rule in rules() for i, example in enumerate(rule.valid)]
INVALID = [
    pytest.param(rule, example, id=f"{rule.code}-{i}") for rule in rules() for i, example in enumerate(rule.invalid)
]


def migrate(rule: Rule, example: Example, *, unsafe: bool = False) -> Result:
    options = Options() if rule.default else Options(select=("FSDP0", rule.code))
    options = Options(select=options.select, unsafe=unsafe, target=example.target)
    if example.language == "traced":
        return traced(rule, example)
    return migrate_source(example.before.encode(), FILES[example.language], options)


def traced(rule: Rule, example: Example) -> Result:
    settings = {path: Known(value) for path, value in json.loads(example.before).items()}
    sections = frozenset(path.partition(".")[0] for path in settings)
    case = judged(settings, example.target, complete=sections)
    assert case is not None
    source = example.before.encode()
    findings = [Finding(rule.code, d.severity, d.message, d.place) for d in rule.check(case)]
    return Result("", source, source, tuple(findings))


@pytest.mark.parametrize(("rule", "example"), VALID)
def test_valid_examples_give_no_finding(rule: Rule, example: Example) -> None:
    result = migrate(rule, example)
    assert rule.code not in {f.code for f in result.findings}
    assert not result.error


@pytest.mark.parametrize(("rule", "example"), INVALID)
def test_invalid_examples_give_a_finding_and_their_after(rule: Rule, example: Example) -> None:
    result = migrate(rule, example)
    assert rule.code in {f.code for f in result.findings}
    assert not result.error
    unsafe = migrate(rule, example, unsafe=True)
    assert not unsafe.error
    after = example.before if example.after is None else example.after
    assert after in (result.output.decode(), unsafe.output.decode())


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.code)
def test_a_rule_says_what_a_reader_needs(rule: Rule) -> None:
    blank = [name for name in ("summary", "explanation", "safety", "source") if not getattr(rule, name).strip()]
    assert not blank
    assert len(rule.valid) >= 3
    assert rule.invalid


def test_codes_and_names_are_unique() -> None:
    assert not [code for code, n in Counter(codes()).items() if n > 1]
    assert not [name for name, n in Counter(rule.name for rule in rules()).items() if n > 1]


@pytest.mark.parametrize(
    ("select", "ignore", "on", "off"),
    [
        ((), (), "FSDP001", ""),
        (("FSDP01",), (), "FSDP012", "FSDP001"),
        ((), ("FSDP01",), "FSDP001", "FSDP012"),
        (("FSDP0",), ("FSDP012",), "FSDP010", "FSDP012"),
    ],
    ids=["all", "a_group", "all_but_a_group", "a_group_but_one"],
)
def test_selection_is_by_prefix(select: tuple[str, ...], ignore: tuple[str, ...], on: str, off: str) -> None:
    chosen = enabled(select, ignore)
    assert on in chosen
    assert off not in chosen
