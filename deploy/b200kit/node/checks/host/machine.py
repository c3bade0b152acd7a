"""Is it the kind of machine that the hardware file is for: bare metal, or a guest? By evidence.

A hardware file of guests leaves checks out, so it is for a machine that is known to be one. By the
file of the other kind most findings would only mislead; so where this check fails, it stands alone
(`judge.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed
from b200kit.node.checks.judge import DECIDES, check
from b200kit.node.state import machine_kind
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.machine_kind import DetectedMachine, MachineKind
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

_WHAT = "what kind of machine it is"
_OUTSIDE = (
    "no hardware file is for a fabric manager inside a virtual machine: leave these functions on"
    " the host (the model Shared NVSwitch), or deploy on bare metal"
)
_HIDES = (
    "let the host show its guest the CPUs' hypervisor flag; where this is bare metal, find out why"
    " the two differ"
)


@check(DECIDES)
def machine(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The machine is bare metal or virtual as the hardware file has it, by two readings.

    In a virtual machine the functions of the NVSwitches are outside.
    """
    virtual = expect.hardware("machine.virtual", bool)
    other = expect.hardware("machine.other_file", str)
    if not virtual.value and not machine_kind.is_told(state):
        # A document of an earlier version has no such reading; this file leaves nothing out.
        yield passed(f"{_WHAT} was not read")
        return
    seen = machine_kind.of(state)
    if virtual.value:
        yield from _guest(seen, state, virtual, other.value)
    elif seen.kind is MachineKind.VIRTUAL:
        yield from _inside(state, virtual) or [_other_file(seen, virtual, other.value)]
    elif seen.kind is MachineKind.UNCLEAR:
        yield noted(f"{_WHAT} is unclear", None, seen.read, virtual)
    else:
        yield passed(f"this is {seen.kind.value}", virtual)


def _guest(
    seen: DetectedMachine, state: StateView, virtual: Expected, other: str
) -> Iterator[Finding]:
    """The findings by a file of guests: what is not known to be one is refused."""
    if seen.kind is MachineKind.BARE_METAL:
        yield _other_file(seen, virtual, other)
    elif seen.kind is MachineKind.VIRTUAL:
        yield from _inside(state, virtual) or [
            passed("this is a virtual machine, with the NVSwitches outside", virtual)
        ]
    else:
        summary = f"this is not known to be a virtual machine: {seen.read}"
        remedy = _HIDES if seen.kind is MachineKind.UNCLEAR else f'set hardware: "{other}"'
        yield failed(summary, seen.read, virtual, Action.NONE, remedy=remedy)


def _other_file(seen: DetectedMachine, virtual: Expected, other: str) -> Finding:
    """The hardware file is of the other kind of machine."""
    summary = f"this is {seen.kind.value} ({seen.read}): the hardware file does not fit"
    return failed(summary, seen.read, virtual, Action.NONE, remedy=f'set hardware: "{other}"')


def _inside(state: StateView, virtual: Expected) -> list[Finding]:
    """What shows that the NVSwitches are passed through, too, or may be."""
    nics = [(nic.known(str, "name") or nic.path, nic) for nic in state.items("pci", "nics")]
    flags = [(name, nic.at("switch_management")) for name, nic in nics]
    flags.append(("nvlsm runs", state.at("fabric_manager", "nvlsm_running")))
    signs = [sign for sign, flag in flags if flag.known(bool)]
    if signs:
        read = ", ".join(signs)
        summary = f"the NVSwitches are passed through to this virtual machine: {read}"
        return [failed(summary, read, virtual, Action.NONE, remedy=_OUTSIDE)]
    for _, flag in flags:
        flag.flag()  # one that is not known may be a sign
    return []
