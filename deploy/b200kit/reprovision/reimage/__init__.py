"""A new image for a node, put there by somebody else: one module a provisioning system.

The action (b200kit/reprovision/actions/reimage.py) calls `advance` until the system says that it is
done, and a later run may call it again: `advance` looks where things stand and does what is next,
so that one image is never begun twice for one action.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from b200kit.reprovision.actions import ActionRefused
from b200kit.reprovision.ledger_line import IntentLine

if TYPE_CHECKING:
    from b200kit.inventory.keys.reprovision import Reimage
    from b200kit.run.node import Node

_MODULES = {
    "maas": "b200kit.reprovision.reimage.maas",
    "command": "b200kit.reprovision.reimage.command",
}


@dataclass(frozen=True)
class Progress:
    """Where a new image stands: what was *observed* since the last look, whether it is *done*, and
    the system's own answer for the new host keys, each "type base64"."""

    observed: tuple[str, ...]
    done: bool = False
    host_keys: tuple[str, ...] = ()


class Provisioner(Protocol):
    """Who puts the image there. One line for what goes wrong: ActionRefused where the node has
    no part in it, else ActionFailed."""

    # How long to wait between two looks, seconds.
    poll_s: float

    def facts(self) -> dict[str, Any]:
        """What differs between the image that is there and the next; read before any change."""

    def advance(self, intent: IntentLine) -> Progress:
        """Look, and do what is next."""

    def close(self) -> None:
        """Leave nothing running; called however it ended."""


class Unreached(ActionRefused):
    """The system did not answer; it may the next time."""


def requested_of(node: Node) -> Reimage:
    """What the inventory requests; ActionRefused when it names nobody."""
    if node.spec.reimage is None:
        raise ActionRefused("nobody is known to put an image on it: the inventory has no `reimage`")
    return node.spec.reimage


def of(node: Node) -> Provisioner:
    """Who the inventory names; ActionRefused when it names nobody."""
    requested = requested_of(node)
    made: Provisioner = import_module(_MODULES[requested.method]).System(node, requested)
    return made
