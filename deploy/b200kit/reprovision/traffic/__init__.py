"""Who sends work to a node, and how it is made to stop.

The inventory's `traffic` names those that a node has to be drained at, in order: "haproxy", the
toolkit's own gateways, or a command of the site's, such as ["b200-slurm"] of contrib/. It is
undrained in the opposite order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from b200kit.node.lib.readings import is_digits
from b200kit.reprovision import site_command
from b200kit.reprovision.actions import ActionFailed as ActionFailed
from b200kit.reprovision.actions import ActionRefused
from b200kit.reprovision.traffic import haproxy

if TYPE_CHECKING:
    from b200kit.run.node import Node


class Traffic(Protocol):
    """One who sends work to nodes. Each method raises ActionFailed, one line, and is repeatable."""

    name: str

    def drain(self, node: Node, why: str) -> str:
        """Send no new work to the node; returns what was observed. Open streams continue."""

    def status(self, node: Node) -> int | None:
        """Open streams or jobs; None when that is unknown, which is never taken for none."""

    def undrain(self, node: Node, share_percent: int) -> str:
        """Send it *share_percent* of what a whole node gets; 100 is as before it was drained."""

    def cut(self, node: Node) -> str:
        """End what would not end with the node's services; returns what was done, "" for nothing.
        Only where the inventory says to cut.
        """


class CommandTraffic:
    """A command of the site's: `drain`, `status`, `undrain` or `cut`, then the node's name.

    `drain` finds why in B200_WHY. `status` prints how much is open, a whole number; whatever else
    it prints, and a failure, leaves that unknown. `undrain` has the percentage as well.
    """

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command, self.name = command, site_command.name(command)

    def drain(self, node: Node, why: str) -> str:
        """See Traffic."""
        return self._run("drain", node.name, environment={"B200_WHY": site_command.one_line(why)})

    def status(self, node: Node) -> int | None:
        """See Traffic."""
        try:
            said = site_command.run(self._command, "status", node.name)
        except ActionRefused:
            raise
        except ActionFailed:
            return None
        return int(said) if is_digits(said) else None

    def undrain(self, node: Node, share_percent: int) -> str:
        """See Traffic."""
        return self._run("undrain", node.name, str(share_percent))

    def cut(self, node: Node) -> str:
        """See Traffic."""
        return self._run("cut", node.name)

    def _run(self, *words: str, environment: dict[str, str] | None = None) -> str:
        said = site_command.run(self._command, *words, environment=environment)
        return f"{self.name}: {site_command.one_line(said) or f'{words[0]} done'}"


def adapters(node: Node) -> list[Traffic]:
    """Those the inventory names for this node, in its order."""
    return [
        haproxy.TRAFFIC if each == "haproxy" else CommandTraffic(tuple(each))
        for each in node.spec.traffic
    ]


def elsewhere(node: Node) -> bool:
    """Whether anybody who sends it work can send that to others meanwhile."""
    return any(each != "haproxy" for each in node.spec.traffic) or any(haproxy.gateways(node))


def cut(node: Node) -> list[str]:
    """End what would not end with the node's services; what each who had any came to."""
    return [said for each in adapters(node) if (said := each.cut(node))]
