"""A node's power, switched through its management controller: by Redfish, or by a command.

What goes wrong is an ActionRefused with one line, which never holds the password: it is the
controller's or the inventory's fault, not the node's. Nothing here waits for the node: that is the
action's (b200kit/reprovision/actions/power_cycle.py).

A power is only given out once the system behind the controller is known to be the node: two
addresses exchanged in an inventory must not cut the power of a neighbour that serves.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from b200kit.node.lib.documents import LARGE, Malformed, Object, decode
from b200kit.records import machines
from b200kit.records.machines import Machine
from b200kit.reprovision import site_command
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.reprovision.power.identity import refusal

if TYPE_CHECKING:
    from b200kit.inventory.keys.reprovision import Bmc
    from b200kit.inventory.secrets import Secret
    from b200kit.run.node import Node

ON, OFF = "on", "off"


class Power(Protocol):
    """One node's power. Each call talks to the controller and raises ActionRefused."""

    def machine(self) -> Machine:
        """Which machine the controller says it switches."""

    def state(self) -> str:
        """ON, OFF, or the controller's own word for what is between them."""

    def shut_down(self) -> None:
        """Ask the operating system to shut down; it may not listen, or not be asked at all."""

    def cut(self) -> None:
        """Take the power away."""

    def switch_on(self) -> None:
        """Give the power back."""


class CommandPower:
    """A command of the site's: `machine`, `status`, `shut-down`, `cut` or `on`, then the node's
    name; B200_BMC_ADDRESS, B200_BMC_USER and B200_BMC_PASSWORD are what `bmc` says.

    `machine` prints {"uuid": ..., "serial": ...}, null for what the controller does not say, and
    `status` prints on, off, or the controller's own word for what is between them.
    """

    def __init__(self, node: str, bmc: Bmc, password: Secret) -> None:
        self._node, self._command = node, bmc.command
        self._environment = {
            "B200_BMC_ADDRESS": bmc.address,
            "B200_BMC_USER": bmc.user,
            "B200_BMC_PASSWORD": password.reveal().decode(),
        }

    def machine(self) -> Machine:
        """See Power."""
        try:
            said = decode(Object, self._run("machine"), LARGE)
        except Malformed as error:
            raise ActionRefused(f"{site_command.name(self._command)} machine: {error}") from None
        return machines.machine(said.get("uuid"), said.get("serial"))

    def state(self) -> str:
        """See Power."""
        return site_command.one_line(self._run("status"))

    def shut_down(self) -> None:
        """See Power."""
        self._run("shut-down")

    def cut(self) -> None:
        """See Power."""
        self._run("cut")

    def switch_on(self) -> None:
        """See Power."""
        self._run("on")

    def _run(self, verb: str) -> str:
        try:
            return site_command.run(self._command, verb, self._node, environment=self._environment)
        except ActionFailed as error:
            raise ActionRefused(str(error)) from None


def bmc_of(node: Node) -> Bmc:
    """The node's controller; ActionRefused when its inventory names none."""
    if node.spec.bmc is None:
        raise ActionRefused("no management controller is known: the inventory has no `bmc`")
    return node.spec.bmc


def of(node: Node) -> Power:
    """The node's power; ActionRefused without a controller, or with that of another machine."""
    bmc, password = bmc_of(node), node.secrets["bmc.password"]
    power: Power
    if bmc.command:
        power = CommandPower(node.name, bmc, password)
    else:
        power = import_module("b200kit.reprovision.power.redfish").Controller(bmc, password)
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
