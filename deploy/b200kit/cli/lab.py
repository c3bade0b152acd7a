"""`b200 lab`: the simulator of a checkout, which is not part of the installed package."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from b200kit.cli.command import Command
from b200kit.run import places

_NEEDS_CHECKOUT = (
    "the simulated nodes need a checkout of the source code and its requirements: "
    "run `make setup` there, then .venv/bin/b200 lab"
)


@click.command("lab", cls=Command, exit_codes={}, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="...")
def _refused(words: tuple[str, ...]) -> None:
    """Boot simulated nodes, look at them, take them down: in a checkout alone."""
    raise click.UsageError(_NEEDS_CHECKOUT)


def _of_checkout() -> click.Command:
    sys.path.insert(0, str(places.CHECKOUT))
    found: click.Command = import_module("tests.lab.cli").command
    return found


command = _of_checkout() if places.IN_CHECKOUT else _refused
