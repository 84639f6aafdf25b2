"""Files that are made to keep a program busy: everything is looked at once, not once for everything else.

Each of them took minutes, or did not end, when some pattern or loop looked at its rest again for every part of it.
"""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from pathspec import GitIgnoreSpec

from fsdp_migrate import alike
from fsdp_migrate.alike import spans
from fsdp_migrate.discover import compiled

MANY = 300_000
PYTHON = "cfg.dist.use_megatron_fsdp = True\n"
MARKDOWN = f"```python\n{PYTHON}```\n"
REST = f".. code-block:: python\n\n   {PYTHON}\n"
YAML = "dist:\n  use_megatron_fsdp: true\n"
SHELL = "python train.py dist.use_megatron_fsdp=true\n"
IGNORE = "fsdp-migrate: ignore[FSDP001] no"


def laughs(line: str, times: int) -> str:
    return YAML + "a0: &a0 {x: 1}\n" + "".join(line.format(n=n, m=n - 1) for n in range(1, times))


FILES = {
    "blanks.md": f"{MARKDOWN}{' ' * MANY}x\n",
    "blanks_behind_a_fence.md": f"{MARKDOWN}```{' ' * MANY}x\n",
    "blanks_in_code.md": f"```python\n{PYTHON}{' ' * MANY}x\n```\n",
    "blanks_behind_a_prompt.md": f"```python\n>>> {PYTHON}{' ' * MANY}x\n```\n",
    "quotes.md": f"{MARKDOWN}{'> ' * MANY}\n",
    "bullets.md": f"{MARKDOWN}{'- ' * MANY}\n",
    "empty_lines.md": f"```\ndist use_megatron_fsdp\n{chr(10) * MANY}```\n{MARKDOWN}",
    "header_without_a_body.md": f"```python\n{PYTHON}{chr(10) * 30_000}if x:\n```\n",
    "open_comments.md": f"{MARKDOWN}<!-- {IGNORE} -->\n{'<!--{/*' * MANY}\n",
    "comments_and_blocks.md": (f"<!-- {IGNORE} -->\n" + "```\n```\n" * 20) * 50 + MARKDOWN,
    "flags.md": f"{MARKDOWN}{'use_megatron_fsdp ' * 50_000}DistributedInitConfi\n",
    "sections_in_what_is_no_code.md": f"```python\n(use_megatron_fsdp\n{'dist ' * MANY}\n```\n",
    "sentences.md": MARKDOWN + "Set dist.use_megatron_fsdp.\n" * 2_000,
    "blanks.rst": f"{REST}{' ' * MANY}x\n",
    "blanks_in_a_comment.rst": f"{REST}.. {IGNORE}\n.. {' ' * MANY}x\n",
    "flags_with_commas.py": f"x = 1 # {'.use_megatron_fsdp,' * 20_000}\n",
    "flags_with_colons.py": f"x = 1 # {'.use_megatron_fsdp:' * 20_000}\n",
    "flags_of_others.py": "parser.use_megatron_fsdp(1)\n" * 5_000,
    "comments.py": PYTHON + "# dist.use_megatron_fsdp\n" * 3_000,
    "far_apart.py": f"{PYTHON}{chr(10) * 30_000}{PYTHON}",
    "far_apart.md": f"{MARKDOWN}{chr(10) * MANY}{MARKDOWN}",
    "stores.py": PYTHON * 2_000,
    "billion_laughs.yaml": laughs("a{n}: &a{n} [*a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}]\n", 30),
    "merged_laughs.yaml": laughs("a{n}: &a{n}\n  <<: [*a{m}, *a{m}]\n  k{n}: 1\n", 60),
    "documents.yaml": f"---\n{YAML}" * 2_000,
    "lists.yaml": "".join(f"a{n}:\n- dist.use_megatron_fsdp=true\n" for n in range(2_000)),
    "comments.yaml": YAML + "# dist.use_megatron_fsdp\n" * 3_000,
    "tables.toml": "[dist]\nuse_megatron_fsdp = true\n" + "".join(f"[t{n}]\n" for n in range(20_000)),
    "commands.sh": SHELL * 2_000,
    "nested.sh": f"{SHELL}x={'$(' * 5_000}a{')' * 5_000}\n",
    "nested_strings.sh": SHELL + 'x="$(' * 5_000 + "a" + ')"' * 5_000 + "\n",
}

PROGRAM = """
import sys, time
from fsdp_migrate.api import Options, migrate_source
from fsdp_migrate.diff import unified_diff
for path in sys.argv[1:]:
    print(path, flush=True)
    began = time.perf_counter()
    result = migrate_source(open(path, "rb").read(), path, Options())
    if result.changed:
        unified_diff(path, result.source, result.output)
    print(f"{time.perf_counter() - began:.1f} {path}", file=sys.stderr)
"""


def test_no_file_takes_for_ever(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *FILES], cwd=tmp_path, capture_output=True, timeout=300, check=True
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"stuck in {(error.stdout or b'').split()[-1].decode()}")
    assert done.stdout.decode().split() == list(FILES)


@pytest.mark.parametrize("few", [0, 1 << 18], ids=["long", "short"])
def test_what_is_alike_and_what_is_not_is_all_there_is(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "_FEW", few)
    chance = random.Random(3)
    for _ in range(200):
        a = chance.choices("abc\n"[: chance.randint(1, 4)], k=chance.randint(0, 200))
        b = list(a)
        for _ in range(chance.randint(0, 6)):
            start = chance.randint(0, len(b))
            b[start : start + chance.randint(0, 4)] = chance.choices("abx", k=chance.randint(0, 80))
        found = list(spans(a, b))
        assert [line for _, start, end, _, _ in found for line in a[start:end]] == a
        assert [line for _, _, _, start, end in found for line in b[start:end]] == b
        assert all(a[i:j] == b[k:m] for equal, i, j, k, m in found if equal)
        assert all(one[0] != other[0] for one, other in pairwise(found))


def test_quick_patterns_match_what_slow_ones_do() -> None:
    chance = random.Random(1)
    for _ in range(400):
        pattern = "".join(chance.choices(["*", "*", "a", "b", "?", "[ab]", "/", "**/", "."], k=chance.randint(1, 9)))
        try:
            slow = GitIgnoreSpec.from_lines([pattern])
        except ValueError:
            continue
        quick = compiled([pattern])
        for _ in range(20):
            parts = ["".join(chance.choices("ab.", k=chance.randint(1, 6))) for _ in range(chance.randint(1, 3))]
            assert quick.match_file("/".join(parts)) == slow.match_file("/".join(parts)), (pattern, parts)
