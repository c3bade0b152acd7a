"""Who sends work to a node, and how it is made to stop: one module a scheduler or gateway.

An adapter is a module of this package with a `TRAFFIC`. The inventory's `traffic` names those that
a node has to be taken out of, in order; it is brought back in the opposite order.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from b200kit.reprovision.actions import ActionFailed as ActionFailed

if TYPE_CHECKING:
    from b200kit.run.node import Node

MODULES: dict[str, str] = {
    "haproxy": "b200kit.reprovision.traffic.haproxy",
    "slurm": "b200kit.reprovision.traffic.slurm",
    "kubernetes": "b200kit.reprovision.traffic.kubernetes",
    "command": "b200kit.reprovision.traffic.command",
}


class Traffic(Protocol):
    """One who sends work to nodes. Each method raises ActionFailed, one line, and is repeatable."""

    name: str

    def take_out(self, node: Node, why: str) -> str:
        """Send no new work to the node; returns what was observed. Open streams continue."""

    def drained(self, node: Node) -> int | None:
        """Open streams or jobs; None when that is unknown, which is never taken for none."""

    def bring_back(self, node: Node, share_percent: int) -> str:
        """Send it *share_percent* of what a whole node gets; 100 is as before it was taken out."""


@runtime_checkable
class Cuts(Protocol):
    """One whose work does not end with what serves on the node, and that can end it."""

    def cut(self, node: Node) -> str:
        """End what is open; returns what was done. Only where the inventory says to cut."""


def adapters(node: Node) -> list[Traffic]:
    """Those the inventory names for this node, in its order."""
    found: list[Traffic] = [import_module(MODULES[name]).TRAFFIC for name in node.spec.traffic]
    return found


def elsewhere(node: Node) -> bool:
    """Whether anybody who sends it work can send that to others meanwhile."""
    from b200kit.reprovision.traffic import haproxy

    return any(name != "haproxy" for name in node.spec.traffic) or any(haproxy.gateways(node))


def cut(node: Node) -> list[str]:
    """End what would not end with the node's services; what each who could came to."""
    return [each.cut(node) for each in adapters(node) if isinstance(each, Cuts)]
