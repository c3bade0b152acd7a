"""A node's power, switched through its management controller: one module a protocol.

What goes wrong is an ActionRefused with one line, which never holds the password: it is the
controller's or the inventory's fault, not the node's. Nothing here waits for the node: that is the
action's (b200kit/reprovision/actions/power_cycle.py).

A power is only given out once the system behind the controller is known to be the node: two
addresses exchanged in an inventory must not cut the power of a neighbour that serves.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from b200kit.records import machines
from b200kit.records.machines import Machine
from b200kit.reprovision.actions import ActionRefused
from b200kit.reprovision.power.identity import refusal

if TYPE_CHECKING:
    from b200kit.inventory.keys.reprovision import Bmc
    from b200kit.run.node import Node

ON, OFF = "on", "off"
_MODULES = {
    "redfish": "b200kit.reprovision.power.redfish",
    "ipmi": "b200kit.reprovision.power.ipmi",
}


class Power(Protocol):
    """One node's power. Each call talks to the controller and raises ActionRefused."""

    def machine(self) -> Machine:
        """Which machine the controller says it switches."""

    def state(self) -> str:
        """ON, OFF, or the controller's own word for what is between them."""

    def graceful(self) -> bool:
        """Whether it can ask the operating system to shut down."""

    def shut_down(self) -> None:
        """Ask the operating system to shut down; it may not listen."""

    def cut(self) -> None:
        """Take the power away."""

    def switch_on(self) -> None:
        """Give the power back."""


def bmc_of(node: Node) -> Bmc:
    """The node's controller; ActionRefused when its inventory names none."""
    if node.spec.bmc is None:
        raise ActionRefused("no management controller is known: the inventory has no `bmc`")
    return node.spec.bmc


def of(node: Node) -> Power:
    """The node's power; ActionRefused without a controller, or with that of another machine."""
    bmc = bmc_of(node)
    module = import_module(_MODULES[bmc.protocol])
    power: Power = module.Controller(bmc, node.secrets["bmc.password"])
    seen = machines.of_state(node.record.state)
    if seen == Machine():
        seen = machines.known(node.name)
    why = refusal(machines.machine(bmc.uuid, bmc.serial), seen, power.machine())
    if why:
        raise ActionRefused(
            f"its controller {bmc.address} is not known to be this node's, so no power was "
            f"switched: {why}"
        )
    return power
