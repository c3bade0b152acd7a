"""A node's power, switched through its management controller: by Redfish, or by a command.

What goes wrong is an ActionRefused with one line, which never holds the password: it is the
controller's or the inventory's fault, not the node's. Nothing here waits for the node: that is the
action's (b200kit/reprovision/actions/power_cycle.py).

A power is only given out once the system behind the controller is known to be the node: two
addresses exchanged in an inventory must not cut the power of a neighbour that serves. A UUID
decides where both have one, else a serial number; neither known on both sides is no match.
"""

from __future__ import annotations

import uuid
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from b200kit.node.lib.documents import LARGE, Malformed, Object, decode
from b200kit.records import machines
from b200kit.records.machines import MachineIdentity
from b200kit.reprovision import site_command
from b200kit.reprovision.actions import ActionFailed, ActionRefused

if TYPE_CHECKING:
    from b200kit.inventory.keys.reprovision import Bmc
    from b200kit.inventory.secrets import Secret
    from b200kit.run.node import Node

ON, OFF = "on", "off"
_FIELDS = ("uuid", "serial")
_NEVER_READ = (
    "and this node's own were never read: set bmc.uuid or bmc.serial to what its firmware or the "
    "label on the machine says"
)


class Power(Protocol):
    """One node's power. Each call talks to the controller and raises ActionRefused."""

    def machine(self) -> MachineIdentity:
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

    def machine(self) -> MachineIdentity:
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
    if seen == MachineIdentity():
        seen = machines.known(node.name)
    why = refusal(machines.machine(bmc.uuid, bmc.serial), seen, power.machine())
    if why:
        raise ActionRefused(
            f"its controller {bmc.address} is not known to be this node's, so no power was "
            f"switched: {why}"
        )
    return power


def refusal(asked: MachineIdentity, seen: MachineIdentity, reported: MachineIdentity) -> str | None:
    """None where *reported*, the controller's word, is the node; else what differs.

    *asked* is the inventory's: what it names must be the controller's, and decides then between
    that and what was *seen* on the node.
    """
    named = [name for name in _FIELDS if getattr(asked, name)]
    if not all(_same(name, asked, reported) for name in named):
        return f"it reports {reported}; the inventory says {asked}"
    if seen == MachineIdentity():
        return None if named else f"it reports {reported}, {_NEVER_READ}"
    both = [name for name in _FIELDS if getattr(seen, name) and getattr(reported, name)]
    decisive = [name for name in both if name in named] or both[:1]
    if decisive and all(_same(name, seen, reported) for name in decisive):
        return None
    return f"it reports {reported}; the node itself says {seen}"


def _same(field: str, one: MachineIdentity, other: MachineIdentity) -> bool:
    first, second = getattr(one, field), getattr(other, field)
    if not first or not second:
        return False
    if field == "serial":
        return bool(first.lower() == second.lower())
    return bytes.fromhex(first) in _orders(bytes.fromhex(second))


def _orders(raw: bytes) -> set[bytes]:
    """The byte orders that firmware gives one UUID in: that of RFC 4122; that of SMBIOS, whose
    first three fields are swapped (3.7, 7.2.1); that of IPMI, from the last byte on (2.0, 20.8).
    """
    swapped = uuid.UUID(bytes_le=raw).bytes
    return {raw, swapped, raw[::-1], uuid.UUID(bytes_le=raw[::-1]).bytes}
