"""InfiniBand devices: those of the NVSwitches are counted, those that carry data are watched.

They are distinguished by their vital product data and never by name or number: a host has four
devices of the switches besides any number of its own (siderolabs/extensions#893).
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured, View

ACTIVE = rule("ACTIVE", "a data port that is down is noted; which must be up is the inventory's")


def name_of(nic: View) -> str:
    """The device's name, or its place in the document."""
    return nic.text("name") or nic.path


@check("nics.switch-management")
def switch_management(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """All management functions of the NVSwitches are there, or the host shows none.

    Fewer, where some machines show so few, are noted once every GPU has completed its registration.
    A device without readable product data does not matter beside all of them; it is noted.
    """
    desired = expect.hardware("nics.switch_management")
    fewer = expect.hardware("nics.switch_management_fewer", list)
    nics = state.items("pci", "nics")
    if isinstance(nics, Unmeasured):
        yield unread("the NICs", nics)
        return
    flags = [(name_of(nic), nic.flag("switch_management")) for nic in nics]
    unknown = [(name, flag) for name, flag in flags if isinstance(flag, Unmeasured)]
    names = [name for name, flag in flags if flag]
    for name, reason in unknown:
        what = f"whether {name} belongs to an NVSwitch"
        if len(names) < desired.value:
            yield unread(what, reason)
        else:
            text = f"{what} could not be read; all {desired.value} functions of theirs are others"
            yield noted(text, None, reason.reason, desired)
    if names and not unknown and len(names) in fewer.value and registered(expect, state):
        text = (
            f"{len(names)} of {desired.value} NVSwitch management functions are there; the fabric"
        )
        yield noted(f"{text} is complete with them", None, ", ".join(names), fewer)
    elif not unknown or len(names) > desired.value:
        yield counted(names, desired)


def registered(expect: Expectation, state: StateView) -> bool:
    """Whether every GPU has completed its registration with the fabric."""
    done, gpus = expect.hardware("fabric.state").value, state.gpus() or []
    return bool(gpus) and all(gpu.number("fabric", "state") == done for gpu in gpus)


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
    nics = state.items("pci", "nics")
    if isinstance(nics, Unmeasured):
        yield unread("the NICs", nics)
        return
    marked = [nic for nic in nics if nic.flag("switch_management") is True]
    ports = [(name_of(nic), port) for nic in marked for port in nic.items("ports") or [nic]]
    states = [(name, port.text("state")) for name, port in ports]
    numbers = [(name, port.number("number")) for name, port in ports]
    unknown = [
        (n, reading) for n, reading in (*states, *numbers) if isinstance(reading, Unmeasured)
    ]
    for name, reason in unknown:
        yield unread(f"a management port of {name}", reason)
    if marked and not unknown and not any(reading == ACTIVE.value for _, reading in states):
        read = ", ".join(f"{name} {reading}" for name, reading in states)
        expected = Expected("one active", "", "the subnet manager reaches the switches through it")
        summary = f"none of {len(states)} management ports of the NVSwitches is active"
        yield failed(summary, read, expected, Action.POWER_CYCLE)
    elif not unknown:
        yield passed(f"management ports: {len(states)}, with one active or none shown")


@check("nics.ports")
def ports(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Ports of data NICs that are not active are noted."""
    del expect
    nics = state.items("pci", "nics")
    if isinstance(nics, Unmeasured):
        yield unread("the NICs", nics)
        return
    data = [nic for nic in nics if nic.flag("switch_management") is not True]
    found = [finding for nic in data for finding in inactive(nic)]
    yield from found
    if not any(finding.blocks for finding in found):
        yield passed(f"ports of {len(data)} data NICs were read", ACTIVE)


def inactive(nic: View) -> Iterator[Finding]:
    """A note for each port of a NIC that is not active."""
    entries = nic.items("ports")
    if isinstance(entries, Unmeasured):
        yield unread(f"the ports of {name_of(nic)}", entries)
        return
    for entry in entries:
        number, state = entry.number("number"), entry.text("state")
        name = f"{name_of(nic)} port {number}"
        if isinstance(number, Unmeasured):
            yield unread(f"a port's number of {name_of(nic)}", number)
        elif isinstance(state, Unmeasured):
            yield unread(f"the state of {name}", state)
        elif state != ACTIVE.value:
            yield Finding(
                summary=f"{name} is {state}",
                subject=name_of(nic),
                read=state,
                expected=ACTIVE.text,
                source=ACTIVE.source,
                action=Action.MONITOR,
                part=f"PCI {nic.at('address').raw()}",
            )
