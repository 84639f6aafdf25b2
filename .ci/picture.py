"""Draw the README's picture of a terminal: what the command really prints about the demo, as rich draws it.

    python .ci/picture.py > .ci/terminal.svg

A test makes it again and compares.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COMMANDS = (
    ("fsdp-migrate fixtures/demo/recipes/dense.py --diff", 30),
    ("fsdp-migrate fixtures/demo --check", 8),
)
WIDTH = 116
"""Columns of the terminal."""


def picture() -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    for command, most in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        words = [sys.executable, "-m", "fsdp_migrate", "--isolated", "--color", "always", *command.split()[1:]]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
        if done.returncode != 1:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
        for line in done.stdout.decode().splitlines()[:most]:
            console.print(Text.from_ansi(line), soft_wrap=True, no_wrap=True, crop=True)
        console.print()
    return console.export_svg(title="fsdp-migrate", unique_id="fsdp-migrate")


if __name__ == "__main__":
    sys.stdout.write(picture())
