"""What must be there before the fabric manager can start on NVLink 5: a port, a subnet manager.

Both are judged where the expectation asks for it (`bring_up`); older documents do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.checks.pcie.nics import ObservedNic, management_ports, nics_of
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, View

NOT_ASKED = "is not asked for (bring_up)"
PORT = rule(
    "a port that may run a subnet manager",
    "HGX shared NVSwitch integration guide 2.5.2: SW_MNG, InfiniBand, isSMdisabled clear",
)
MANAGER = rule("nvlsm, installed", "Fabric Manager user guide, quoted in siderolabs/extensions#717")


@check("nics.management-port")
def management_port(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A port of the NVSwitches may run the subnet manager, or the host hides which they are."""
    if expect.bring_up() == "off":
        yield passed(f"a management port {NOT_ASKED}")
    elif not (nics := nics_of(state)):
        yield failed("no InfiniBand device is there", "none", PORT, Action.POWER_CYCLE)
    else:
        ports = management_ports(nics)
        yield among(ports) if ports else unmarked(nics)


def among(ports: list[tuple[str, View]]) -> Finding:
    """The finding where devices say that they are management functions."""
    free = [name for name, port in ports if port.known(bool, "sm_disabled") is False]
    if free:
        return passed(f"nvlsm may run on {', '.join(free)}", PORT)
    text = ", ".join(name for name, port in ports if port.flag("sm_disabled"))
    summary = f"no management port may run nvlsm: isSMdisabled is set on {text}"
    return failed(summary, f"isSMdisabled on {text}", PORT, Action.POWER_CYCLE)


def unmarked(nics: list[ObservedNic]) -> Finding:
    """The finding where no device says that it is one."""
    entries = [nic.entry for nic in nics]
    shown = [e.flag("switch_management") or e.flag("vital_product_data") for e in entries]
    if any(shown):
        summary = f"none of {len(nics)} InfiniBand devices is a management port of an NVSwitch"
        return failed(summary, "no SW_MNG in any product data", PORT, Action.POWER_CYCLE)
    # Virtual machines with a B200 may have no such file (NVIDIA/gpu-driver-container#606).
    return passed("no device shows its product data, so management ports are unknown", PORT)


@check("fabric.nvlsm-installed")
def nvlsm_installed(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The NVLink subnet manager's package and its program are there."""
    if expect.bring_up() == "off":
        yield passed(f"nvlsm's installation {NOT_ASKED}")
    elif state.is_null("packages", "nvlsm"):
        yield absent("nvlsm is not installed", "no package nvlsm")
    elif (status := state.text("packages", "nvlsm", "status")) != "ii":
        yield absent(f"nvlsm is not fully installed (dpkg status {status})", status)
    elif not state.flag("fabric_manager", "nvlsm_installed"):
        yield absent("nvlsm's package is installed and its program is gone", "no program")
    else:
        yield passed("nvlsm is installed", MANAGER)


def absent(summary: str, read: str, expected: Expected = MANAGER) -> Finding:
    """The finding for a subnet manager that is not there."""
    return failed(summary, read, expected, Action.NONE, part="nvlsm")
