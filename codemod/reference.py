"""The rules as Markdown: one section each, for an editor's hover and for `transforms/README.md`."""

from __future__ import annotations

import difflib

from fsdp_migrate.cases import Example, Rule
from fsdp_migrate.registry import rules

_FENCES = {"rest": "rst", "notebook": "json", "traced": "json"}

_HEAD = """\
# Rules

Made by `fsdp-migrate rules --markdown`; a test keeps it current. One rule is one file in this folder: what it knows
about itself, its examples (they are its tests), and its code.

"""
_GROUPS = {
    "FSDP0": "Moves and companions",
    "FSDP1": "Conflicts and pitfalls",
    "FSDP2": "Neighbouring migrations, off unless selected",
    "FSDP9": "Comments that exempt findings",
}


def reference() -> str:
    """The whole reference."""
    parts = [_HEAD, "| code | name | what |\n|---|---|---|\n"]
    parts += [f"| [{r.code}](#{r.code.lower()}-{r.name}) | {r.name} | {r.summary} |\n" for r in rules()]
    for prefix, title in _GROUPS.items():
        own = [rule for rule in rules() if rule.code.startswith(prefix)]
        if own:
            parts.append(f"\n## {title}\n")
            parts += [f"\n### {rule.code} {rule.name}\n\n{section(rule)}" for rule in own]
    return "".join(parts)


def section(rule: Rule) -> str:
    """One rule, without its title."""
    texts = [f"{rule.summary[0].upper()}{rule.summary[1:]}.", rule.explanation]
    texts += [f"*Fix.* {rule.safety}", f"*Source.* {rule.source}"]
    first = next((example for example in rule.invalid if example.after is not None), rule.invalid[0])
    return "\n\n".join([*(text.strip() for text in texts), _example(first)]) + "\n"


def of_code(code: str) -> str:
    """A rule with its title, for a hover; empty if there is none of this code."""
    found = [rule for rule in rules() if rule.code == code]
    return "".join(f"**{rule.code}** {rule.name}\n\n{section(rule)}" for rule in found)


def _example(example: Example) -> str:
    language = _FENCES.get(example.language, example.language)
    text = example.before
    if example.after is not None:
        diff = difflib.unified_diff(example.before.splitlines(), example.after.splitlines(), n=99, lineterm="")
        text, language = "\n".join(list(diff)[3:]), "diff"
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
