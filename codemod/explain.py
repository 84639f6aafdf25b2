"""The subcommands `rules` and `explain`: what the rules say about themselves."""

from __future__ import annotations

import difflib

import click
from click.shell_completion import CompletionItem

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.registry import rules as all_rules


@click.command()
@click.option("--markdown", is_flag=True, help="The whole reference, as in transforms/README.md.")
def rules(markdown: bool) -> None:
    """List the rules: code, name and summary."""
    if markdown:
        from fsdp_migrate.reference import reference

        click.echo(reference(), nl=False)
        return
    width = max(len(rule.name) for rule in all_rules())
    for rule in all_rules():
        off = "" if rule.default else "  (off unless selected)"
        click.echo(f"{rule.code}  {rule.name:<{width}}  {rule.summary}{off}")


def _codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(r.code, help=r.summary) for r in all_rules() if r.code.startswith(incomplete.upper())]


@click.command()
@click.argument("code", shell_complete=_codes)
def explain(code: str) -> None:
    """Say what the rule CODE does, why, and show examples."""
    wanted = code.upper()
    for rule in all_rules():
        if wanted in (rule.code, rule.name.upper()):
            click.echo(_page(rule), nl=False)
            return
    near = difflib.get_close_matches(wanted, [r.code for r in all_rules()], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    raise click.BadParameter(f"there is no rule {code!r}; {hint}`fsdp-migrate rules` lists them")


def _page(rule: Rule) -> str:
    parts = [
        f"{rule.code} ({rule.name})",
        f"{rule.summary[0].upper()}{rule.summary[1:]}.",
        rule.explanation,
        f"Fix: {rule.safety}",
        f"Source: {rule.source}",
        *(_shown(example, "Reported") for example in rule.invalid),
        *(_shown(example, "Left alone") for example in rule.valid[:1]),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _shown(example: Example, title: str) -> str:
    if example.after is None:
        return f"{title} ({example.language}):\n\n" + _indented(example.before)
    before, after = example.before.splitlines(), example.after.splitlines()
    diff = list(difflib.unified_diff(before, after, n=9, lineterm=""))[3:]
    return f"Rewritten ({example.language}):\n\n" + _indented("\n".join(diff))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())
