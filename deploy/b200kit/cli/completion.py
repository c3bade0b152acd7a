"""`b200 completion SHELL`: what a shell sources so that it completes names and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class, shell_complete

from b200kit.cli.command import Command
from b200kit.run import console

VARIABLE = "_B200_COMPLETE"
"""By which a shell asks (click's own protocol)."""


@click.command("completion", cls=Command, exit_codes={0: "printed"})
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    bash, in ~/.bashrc: eval "$(b200 completion bash)"; zsh, in ~/.zshrc: eval "$(b200 completion
    zsh)"; fish: b200 completion fish > ~/.config/fish/completions/b200.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - one of click's three
    found = kind(context.find_root().command, {}, "b200", VARIABLE)
    console.out(*found.source().splitlines())


def answer(root: click.Command, instruction: str) -> int:
    """Answer a shell that asks what can stand next."""
    return shell_complete(root, {}, "b200", VARIABLE, instruction)
