"""`b200 lab`: the simulator of a checkout, which is not part of the installed package."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from b200kit.cli.command import INTERRUPTED, Command
from b200kit.run import places

_NEEDS_CHECKOUT = (
    "the simulated nodes need a checkout of the source code and its requirements: "
    "run `make setup` there, then .venv/bin/b200 lab"
)


@click.command(
    "lab",
    cls=Command,
    exit_codes={
        0: "done",
        1: "not done; one line says why",
        2: "wrong usage of the lab",
        INTERRUPTED: "interrupted",
    },
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> int:
    """Boot simulated nodes, look at them, take them down (`b200 lab --help`)."""
    if not places.IN_CHECKOUT:
        raise click.UsageError(_NEEDS_CHECKOUT)
    sys.path.insert(0, str(places.CHECKOUT))
    status: int = import_module("tests.lab.cli").main(arguments)
    return status
