"""``fsdp-migrate lsp``."""

from __future__ import annotations

import click


@click.command()
def lsp() -> None:
    """Serve an editor over stdin and stdout (Language Server Protocol). It ends with its client.

    Needs the extra: pip install 'fsdp-migrate[lsp]'.
    """
    try:
        from fsdp_migrate.server.server import make
    except ModuleNotFoundError as error:
        raise click.ClickException(f"lsp needs the package {error.name!r}: pip install 'fsdp-migrate[lsp]'") from error
    make().start_io()
