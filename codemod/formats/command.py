"""``fsdp-migrate schema``: the JSON schema of ``--output-format json``."""

from __future__ import annotations

from importlib.resources import files

import click


@click.command()
def schema() -> None:
    """Print the JSON schema of --output-format json."""
    click.echo(files("fsdp_migrate.formats").joinpath("schema.json").read_text(encoding="utf-8"), nl=False)
