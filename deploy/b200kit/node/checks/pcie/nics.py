"""InfiniBand devices: those of the NVSwitches are counted, those that carry data are watched.

They are distinguished by their vital product data and never by name or number: a host has four
devices of the switches besides any number of its own (siderolabs/extensions#893).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from b200kit.node.checks.findings import each, failed, noted, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread, View

ACTIVE = rule("ACTIVE", "a data port that is down is noted; which must be up is the inventory's")


@dataclass(frozen=True)
class ObservedNic:
    """One InfiniBand device."""

    entry: View

    @property
    def subject(self) -> str:
        """Its name, or its place in the document."""
        return self.entry.known(str, "name") or self.entry.path

    @property
    def part(self) -> str:
        """Where it is on the bus."""
        return f"PCI {self.entry.reading('address')}"

    @property
    def manages(self) -> bool:
        """Whether it says that it is a management function of an NVSwitch."""
        return bool(self.entry.known(bool, "switch_management"))


def nics_of(state: StateView) -> list[ObservedNic]:
    """Every InfiniBand device. The list may be empty."""
    return [ObservedNic(entry) for entry in state.items("pci", "nics")]


def management_ports(nics: list[ObservedNic]) -> list[tuple[str, View]]:
    """The ports of management functions, by the device's name; of one without, the device."""
    marked = [nic for nic in nics if nic.manages]
    return [(n.subject, port) for n in marked for port in n.entry.known_items("ports") or [n.entry]]


@check("nics.switch-management")
def switch_management(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """All management functions of the NVSwitches are there, or the host shows none.

    Fewer, where some machines show so few, are noted once every GPU has completed its registration.
    A device without readable product data does not matter beside all of them; it is noted.
    """
    desired = expect.hardware("nics.switch_management")
    fewer = expect.hardware("nics.switch_management_fewer", list)
    nics, unknown = nics_of(state), dict[str, str]()
    names = [nic.subject for nic in nics if nic.manages]
    for nic in nics:
        try:
            nic.entry.flag("switch_management")
        except Unread as error:
            unknown[f"whether {nic.subject} belongs to an NVSwitch"] = error.reason
    for what, reason in unknown.items():
        if len(names) < desired.value:
            yield unread(Unread(what, reason))
        else:
            text = f"{what} could not be read; all {desired.value} functions of theirs are others"
            yield noted(text, None, reason, desired)
    if names and not unknown and len(names) in fewer.value and registered(expect, state):
        text = (
            f"{len(names)} of {desired.value} NVSwitch management functions are there; the fabric"
        )
        yield noted(f"{text} is complete with them", None, ", ".join(names), fewer)
    elif not unknown or len(names) > desired.value:
        yield counted(names, desired)


def registered(expect: Expectation, state: StateView) -> bool:
    """Whether every GPU has completed its registration with the fabric."""
    done, gpus = expect.hardware("fabric.state").value, state.known_gpus
    return bool(gpus) and all(gpu.known(int, "fabric", "state") == done for gpu in gpus)


def counted(names: list[str], desired: Expected) -> Finding:
    """The finding for the management functions that are there."""
    text, read = f"{len(names)} of {desired.value}", ", ".join(names) or "none"
    if not names:
        # Some hosts expose no vital product data (NVIDIA/gpu-driver-container#606).
        return passed("no device shows an NVSwitch; some hosts hide that", desired)
    if len(names) < desired.value:
        summary = f"{text} NVSwitch management functions are there: a switch port is lost"
        return failed(summary, read, desired, Action.POWER_CYCLE)
    if len(names) > desired.value:
        summary = f"{text} NVSwitch management functions: the hardware file does not fit"
        return failed(summary, read, desired, Action.NONE)
    return passed(f"{text} NVSwitch management functions are there", desired)


@check("nics.management-state")
def management_state(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A port of the NVSwitches' management functions is active: the subnet manager needs one."""
    del expect
    ports = management_ports(nics_of(state))
    states = [(name, port.number("number"), port.text("state")) for name, port in ports]
    if states and all(reading != ACTIVE.value for _, _, reading in states):
        read = ", ".join(f"{name} {reading}" for name, _, reading in states)
        expected = Expected("one active", "", "the subnet manager reaches the switches through it")
        summary = f"none of {len(states)} management ports of the NVSwitches is active"
        yield failed(summary, read, expected, Action.POWER_CYCLE)
    else:
        yield passed(f"management ports: {len(states)}, with one active or none shown")


@check("nics.ports")
def ports(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Ports of data NICs that are not active are noted."""
    del expect
    data = [nic for nic in nics_of(state) if not nic.manages]
    return each(data, inactive, passed(f"ports of {len(data)} data NICs were read", ACTIVE))


def inactive(nic: ObservedNic) -> Iterator[Finding]:
    """A note for each port of a NIC that is not active."""
    for entry in nic.entry.items("ports"):
        number, state = entry.number("number"), entry.text("state")
        if state != ACTIVE.value:
            yield noted(f"{nic.subject} port {number} is {state}", nic, state, ACTIVE)
