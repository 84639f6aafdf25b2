"""Write the manual pages: one for the migration, one for each subcommand.

    python .ci/man.py FOLDER

Then `man FOLDER/fsdp-migrate.1`. Needs click-man, which the extra `dev` has.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
from click_man.core import generate_man_page

from fsdp_migrate import __version__
from fsdp_migrate.cli import PROGRAM, SUBCOMMANDS, cli


def pages() -> dict[str, str]:
    """File name -> page."""
    date = time.strftime("%Y-%m-%d")
    group = click.Context(cli, info_name=PROGRAM)
    found = {}
    for name in ("migrate", *SUBCOMMANDS):
        command = cli.get_command(group, name)
        assert command is not None
        title = PROGRAM if name == "migrate" else f"{PROGRAM}-{name}"
        context = click.Context(command, info_name=title)
        page = generate_man_page(context, __version__, date)
        if name == "migrate":
            page += ".SH SEE ALSO\n" + ", ".join(f"{PROGRAM}-{other}(1)" for other in SUBCOMMANDS) + "\n"
        found[f"{title}.1"] = page
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (folder / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
