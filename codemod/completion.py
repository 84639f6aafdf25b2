"""``fsdp-migrate completion``: what a shell must run so that it completes our words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    For bash: eval "$(fsdp-migrate completion bash)" in ~/.bashrc. For zsh the same in ~/.zshrc. For fish: fsdp-migrate
    completion fish > ~/.config/fish/completions/fsdp-migrate.fish
    """
    from fsdp_migrate.cli import PROGRAM, cli

    kind = get_completion_class(shell)
    assert kind is not None
    variable = f"_{PROGRAM}_COMPLETE".replace("-", "_").upper()
    click.echo(kind(cli, {}, PROGRAM, variable).source())
