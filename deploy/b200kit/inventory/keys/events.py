"""Where a node sends its events, as inventory keys, and what cannot work. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.types import HTTPS, Keys, Listed, OrReference, Text


class Webhook(Keys):
    """An address that gets each event by HTTPS POST, as JSON."""

    url: Annotated[SecretRef | str, OrReference(*HTTPS)]
    """where to; an answer of 2xx takes the event. Where a word of its path is what lets one in, as
    at Slack, give a reference; on the node it is a secret in any case"""
    key: SecretRef | None = None
    """key it is sent with, as `Authorization: Bearer KEY`; None: none"""
    ca_file: Text | None = None
    """certificates of the authority behind it, PEM, a path on the controller; None: those that the
    node's system trusts"""


class Events(Keys):
    """Where the events of a node go: faults, replicas out and back, what became of its proof."""

    command: Listed[Text] = ()
    """argument list of a program on the node that gets each event on stdin, as one line of JSON;
    exit status 0 takes it"""
    webhook: Webhook | None = None
    """address that gets each event"""
    deadline_s: float = Field(10.0, ge=1, le=300)
    """seconds one event may take a sink; a command is killed then, and either is tried again"""
    kept: int = Field(200, ge=10, le=10_000)
    """events that may wait for a sink that does not answer; of more, the oldest are dropped and
    counted"""


def references(events: Events | None) -> Iterator[tuple[str, SecretRef]]:
    """Each secret by its key in the inventory."""
    if events and (hook := events.webhook):
        if isinstance(hook.url, SecretRef):
            yield "events.webhook.url", hook.url
        if hook.key:
            yield "events.webhook.key", hook.key


def files(events: Events | None) -> Iterator[tuple[str, str]]:
    """Each file of the controller by its key in the inventory."""
    if events and events.webhook and events.webhook.ca_file:
        yield "events.webhook.ca_file", events.webhook.ca_file


def problems(events: Events) -> Iterator[Problem]:
    """Nobody to tell, and a command that systemd's environment would not find."""
    if not events.command and not events.webhook:
        yield Problem("events", "tells nobody: give command, webhook, or both")
    if events.command and not events.command[0].startswith("/"):
        message = f'"{events.command[0]}" must be an absolute path on the node'
        yield Problem("events.command", message)
