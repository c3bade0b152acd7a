"""InfiniBand devices: those of the NVSwitches are counted, those that carry data are watched.

They are distinguished by their vital product data and never by name or number: a host has four
devices of the switches besides any number of its own (siderolabs/extensions#893).
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule, unread, within
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread, View

ACTIVE = rule("ACTIVE", "a data port that is down is noted; which must be up is the inventory's")


def name_of(nic: View) -> str:
    """The device's name, or its place in the document."""
    return nic.known(str, "name") or nic.path


def management_ports(nics: list[View]) -> list[tuple[str, View]]:
    """The ports of devices that say that they are of the NVSwitches, by the device's name."""
    marked = [nic for nic in nics if nic.known(bool, "switch_management")]
    # A device that lists no port is one: what nobody can read of it is told.
    return [(name_of(nic), port) for nic in marked for port in nic.known_items("ports") or [nic]]


@check("nics.switch-management")
def switch_management(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """All management functions of the NVSwitches are there, or the host shows none.

    Fewer, where some machines show so few, are noted once every GPU has completed its registration.
    A device without readable product data does not matter beside all of them; it is noted.
    """
    desired = expect.hardware("nics.switch_management")
    fewer = expect.hardware("nics.switch_management_fewer", list)
    names: list[str] = []
    unknown: list[tuple[str, Unread]] = []
    for nic in state.items("pci", "nics"):
        name = name_of(nic)
        try:
            names += [name] if nic.flag("switch_management") else []
        except Unread as error:
            unknown.append((name, error))
    for name, why in unknown:
        if len(names) < desired.value:
            yield unread(why)
        else:
            text = f"whether {name} belongs to an NVSwitch could not be read"
            text = f"{text}; all {desired.value} functions of theirs are others"
            yield noted(text, None, why.reason, desired)
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
    ports = management_ports(state.items("pci", "nics"))
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
    nics = state.items("pci", "nics")
    data = [nic for nic in nics if not nic.known(bool, "switch_management")]
    found = [finding for nic in data for finding in within("", "", inactive(nic))]
    yield from found
    if not any(finding.blocks for finding in found):
        yield passed(f"ports of {len(data)} data NICs were read", ACTIVE)


def inactive(nic: View) -> Iterator[Finding]:
    """A note for each port of a NIC that is not active."""
    for entry in nic.items("ports"):
        number, state = entry.number("number"), entry.text("state")
        if state != ACTIVE.value:
            yield Finding(
                summary=f"{name_of(nic)} port {number} is {state}",
                subject=name_of(nic),
                read=state,
                expected=ACTIVE.text,
                source=ACTIVE.source,
                action=Action.MONITOR,
                part=f"PCI {nic.reading('address')}",
            )
