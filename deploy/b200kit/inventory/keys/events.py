"""Whom a node tells of its events, as inventory keys, and what cannot work. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.types import Keys, Listed, Text


class Events(Keys):
    """Where events of a node are sent: faults, replicas taken out and returned, its proof."""

    command: Listed[Text] = ()
    """argument list of a program on the node that gets each event on stdin, as one line of JSON;
    exit status 0 takes it. For an address, see contrib/webhook.py"""
    deadline_s: float = Field(10.0, ge=1, le=300)
    """seconds the command may take for one event; then it is killed and started again"""


def problems(events: Events) -> Iterator[Problem]:
    """Nobody to tell, and a command that systemd's environment would not find."""
    if not events.command:
        yield Problem("events.command", "is required: whom to tell")
    elif not events.command[0].startswith("/"):
        message = f'"{events.command[0]}" must be an absolute path on the node'
        yield Problem("events.command", message)
