"""FSDP901: a comment that means to exempt something and does not say what."""

from __future__ import annotations

from collections.abc import Iterator

from fsdp_migrate.cases import Case, Draft, Example, Rule
from fsdp_migrate.findings import Severity

_MESSAGES = {
    "bare-ignore": (
        "{text} names no code and exempts nothing",
        "name the code: # fsdp-migrate: {text}[FSDP001] and the reason",
    ),
    "unknown-code": ("no rule code begins with {text}", "`fsdp-migrate rules` lists the codes"),
    "unknown-ignore": ("there is no {text}", "write ignore[CODE] or ignore-file[CODE]"),
}


def check(case: Case) -> Iterator[Draft]:
    for spot in case.remarks:
        if spot.form in _MESSAGES:
            message, why = (words.format(text=spot.text) for words in _MESSAGES[spot.form])
            yield Draft(Severity.ERROR, message, spot.place, why=why)


RULE = Rule(
    code="FSDP901",
    name="invalid-ignore",
    summary="a `fsdp-migrate: ignore` comment names no known code",
    explanation="""\
A comment without a code would also hide findings that nobody has thought of yet, so it exempts nothing. Neither does
one with a code that no rule has.""",
    safety="Never edited: only its author knows what it was meant to exempt.",
    source="none: this is about the project's own comments",
    check=check,
    valid=(
        Example("cfg.dist.use_megatron_fsdp = True  # fsdp-migrate: ignore[FSDP0] old release\n"),
        Example("# See the manual of fsdp-migrate: ignore comments need a code.\nx = 1\n"),
        Example('"""# fsdp-migrate: ignore"""\n'),
    ),
    invalid=(
        Example("x = 1  # fsdp-migrate: ignore\n"),
        Example("x = 1  # fsdp-migrate: ignore[FSDP777]\n"),
        Example("x = 1  # fsdp-migrate: ignore-line[FSDP001]\n"),
    ),
)
