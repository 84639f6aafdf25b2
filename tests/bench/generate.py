"""Repositories made up from a seed: the same bytes for everybody who measures."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

FLAG = "use_megatron_fsdp"
GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "commit.gpgsign=false")
WORDS = (
    "model",
    "data",
    "train",
    "mixed",
    "loss",
    "rank",
    "shard",
    "token",
    "batch",
    "layer",
    "cache",
    "hook",
    "state",
)


def _name(chance: random.Random) -> str:
    return f"{chance.choice(WORDS)}_{chance.choice(WORDS)}_{chance.randrange(1000)}"


def python(chance: random.Random, lines: int) -> str:
    """Code that has nothing to do with the flag."""
    text = ["from __future__ import annotations", "", "import os", ""]
    while len(text) < lines:
        name, kind = _name(chance), chance.randrange(4)
        if kind == 0:
            text += [f"class {name.title().replace('_', '')}:", f'    """Holds the {chance.choice(WORDS)}."""', ""]
        text += [f"def {name}(cfg, {chance.choice(WORDS)}=None, *, rank: int = {chance.randrange(8)}):"]
        text += [f'    """Set up the {chance.choice(WORDS)} of a {chance.choice(WORDS)}."""']
        for _ in range(chance.randrange(4, 18)):
            left, right = chance.choice(WORDS), _name(chance)
            text.append(
                chance.choice(
                    (
                        f"    cfg.model.{left} = {chance.randrange(9999)}",
                        f"    {left} = os.environ.get('{right.upper()}', \"{chance.randrange(99)}\")",
                        f"    if rank == {chance.randrange(8)} and cfg.train.{left}:",
                        f"    # the {left} of the {right} is counted from zero",
                        f"    cfg.optimizer.{left} = [x * {chance.randrange(9)} for x in range({chance.randrange(9)})]",
                    )
                )
            )
            if text[-1].endswith(":"):
                text.append(f"        raise ValueError(f'{right}: {{rank}}')")
        text += [f"    return cfg.{chance.choice(WORDS)}", "", ""]
    return "\n".join(text[:lines]) + "\n" if text[lines - 1] == "" else "\n".join(text) + "\n"


def look_alike(chance: random.Random, lines: int) -> str:
    return python(chance, lines) + f"\n\ndef plain(cfg):\n    cfg.ddp.{FLAG} = False\n    return cfg\n"


def recipe(chance: random.Random, lines: int) -> str:
    pairs = (
        f"    cfg.dist.{FLAG} = True\n    cfg.ddp.{FLAG} = True",
        f"    cfg.dist.{FLAG} = True",
        f"    cfg.dist.{FLAG} = False\n    cfg.ddp.{FLAG} = False",
        f"    if cfg.model.wide:\n        cfg.dist.{FLAG} = True",
    )
    body = "\n\n".join(
        f"def {_name(chance)}_config():\n    cfg = pretrain_base()\n{chance.choice(pairs)}\n    return cfg\n"
        for _ in range(3)
    )
    return python(chance, lines) + "\n\n" + body


def yaml(chance: random.Random, lines: int) -> str:
    other = "".join(f"  {_name(chance)}: {chance.randrange(9999)}\n" for _ in range(max(1, lines // 2)))
    return f"model:\n{other}dist:\n  {FLAG}: true\nddp:\n  overlap_grad_reduce: true\ntrain:\n{other}"


def toml(chance: random.Random, lines: int) -> str:
    return f'[model]\nname = "{_name(chance)}"\n\n[dist]\n{FLAG} = true\n\n[ddp]\noverlap_grad_reduce = true\n'


def object_(chance: random.Random, lines: int) -> str:
    data = {"model": {_name(chance): 1}, "dist": {FLAG: True}, "ddp": {"overlap_grad_reduce": True}}
    return json.dumps(data, indent=2) + "\n"


def shell(chance: random.Random, lines: int) -> str:
    words = " \\\n    ".join(f"model.{_name(chance)}={chance.randrange(99)}" for _ in range(max(1, lines // 2)))
    return f"#!/bin/bash\nset -e\npython train.py \\\n    {words} \\\n    dist.{FLAG}=true \\\n    ddp.{FLAG}=true\n"


def markdown(chance: random.Random, lines: int) -> str:
    prose = "".join(f"The {_name(chance)} is for the {chance.choice(WORDS)}.\n" for _ in range(lines))
    return f"# {_name(chance)}\n\n{prose}\n```python\ncfg.dist.{FLAG} = True\ncfg.ddp.{FLAG} = True\n```\n"


def rest(chance: random.Random, lines: int) -> str:
    return (
        f"Guide\n=====\n\n.. code-block:: python\n\n   cfg.dist.{FLAG} = True\n   cfg.ddp.{FLAG} = True\n\nThe end.\n"
    )


def notebook(chance: random.Random, lines: int) -> str:
    source = ["cfg = base()\n", f"cfg.dist.{FLAG} = True\n", "train(cfg)"]
    cell = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [], "source": source}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


Kind = tuple[str, Callable[[random.Random, int], str]]
AFFECTED: tuple[Kind, ...] = (
    *((".py", recipe),) * 5,
    *((".yaml", yaml), (".sh", shell), (".md", markdown), (".ipynb", notebook)),
    *((".toml", toml), (".json", object_), (".rst", rest)),
)


def repository(folder: Path, *, files: int = 1700, lines: int = 500_000, affected: int = 100, seed: int = 0) -> None:
    """About `lines` lines in `files` files, of which `affected` have the old flag and as many a look-alike; in git."""
    chance, each = random.Random(seed), lines // (files - affected)
    for number in range(files):
        suffix, make = ".py", python
        if number < affected:
            suffix, make = AFFECTED[number % len(AFFECTED)]
        elif number < 2 * affected:
            make = look_alike
        place = folder / f"package_{number % 40}" / f"{chance.choice(WORDS)}_{number}{suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(make(chance, each if suffix == ".py" else 30))
    commit(folder)


def tree(folder: Path, *, files: int = 100_000, affected: int = 100, seed: int = 0) -> None:
    """Small files of many kinds, half of them of no kind that the migration reads; not in git."""
    chance = random.Random(seed)
    pool = [python(chance, lines) for lines in range(20, 120, 2)]
    for number in range(files):
        place = folder / f"part_{number % 100}" / f"sub_{number // 100 % 20}"
        place.mkdir(parents=True, exist_ok=True)
        suffix = (".py", ".c", ".yaml", ".txt", ".md", ".h", ".json", ".png")[number % 8]
        if number % (files // affected):
            text = chance.choice(pool)
        else:
            suffix, make = AFFECTED[number // (files // affected) % len(AFFECTED)]
            text = make(chance, 20)
        (place / f"{chance.choice(WORDS)}_{number}{suffix}").write_text(text)


def commit(folder: Path) -> None:
    for words in ("init -q", "add -A", "commit -qm generated"):
        subprocess.run([*GIT, *words.split()], cwd=folder, check=True)
