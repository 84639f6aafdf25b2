"""Syntax that ast and libcst see differently, beside a flag that moves all the same."""

from __future__ import annotations

import ast

import pytest

from fsdp_migrate.api import migrate_source
from fsdp_migrate.python.rewrite import rewrite

STATEMENTS = (
    "cache: dict[str, int] = {}",
    "x[a, b] = y[(1, 2)]",
    "x[(a, (b, c)), d] = [1]",
    "x[(a,), (b, (c, [1]))][0, 1]",
    "x[*a, b]; x[*(a, b), c]",
    "x[a:b, (c, d)] = 1",
    "x[a : (b, c)]",
    "del a, b",
    "del (a, b)",
    "del (a), b",
    "del [a, b], c",
    "x = a or ()",
    "x = [] or (a or ())",
    "x = 'a' 'b' f'{c!r:>{d}}'",
    "def f(a: tuple[int, str] = (1, 'x'), *b: list[str], c: dict[str, int] = {}, **d) -> tuple[int, ...]: ...",
    "lambda a=(1, 2), *b, c=[3]: (a, b, c)",
    "x = [(a, b) for a, b in c if (a, b)] + [*d, (e, f)]",
    "for a, (b, c) in d, e: pass",
    "with f(a) as (b, c), g(d) as e: pass",
    "x = yield a, b",
    "return a, b",
    "print(*a, **{'b': 1}, c=(1,))",
    "match a, b:\n        case (1, [x, y]) | {'k': (x, y)}: pass\n        case C(a, b='s') as z: pass",
    "global a, b",
    "assert a, (b, 'c')",
    "x = not a, -b, a < b < (c, d)",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_both_count_alike(statement: str) -> None:
    text = f"async def f():\n    {statement}\n"
    assert rewrite(text, ast.parse(text).body, [], indented=False, unit="    ", newline="\n") == text


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_flag_moves_beside_it(statement: str) -> None:
    text = f"def f(cfg):\n    {statement}\n    cfg.dist.use_megatron_fsdp = False\n    {statement}\n"
    result = migrate_source(text.encode(), "recipe.py")
    assert not result.error
    assert result.output.decode() == text.replace("dist.", "ddp.")
