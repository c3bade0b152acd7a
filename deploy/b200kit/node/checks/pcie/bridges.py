"""The PCIe links above every GPU, of which NVML sees only the one next to it.

A root port or switch that trained low slows every GPU below it, and no reading of the GPU shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, noted, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.checks.pcie.bus import AT_REST, Bridge, BusGpu, each_bridge, each_on_bus
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
"""Gigatransfers a second to PCIe generation."""
A_PORT = rule("a bridge above every GPU", "Ubicloud, Virtualizing NVIDIA HGX B200: cuInit fails")
OF_ITS_OWN = "on the host: attach each GPU below a PCIe root port of its own (QEMU: pcie-root-port)"
NO_ACS = rule("no redirection", "peer-to-peer must not detour through the root complex")


def generation(speed: str) -> int:
    """PCIe generation of a speed as sysfs writes it, "32.0 GT/s PCIe"."""
    return GENERATIONS[float(speed.split()[0])]


@check("pcie.port")
def port(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every GPU has a PCI bridge above it: with a flat bus, as guests may have it, CUDA fails."""
    del expect

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        bridges = gpu.entry.items("bridges")
        if isinstance(bridges, Unmeasured):
            yield unread("the PCI bridges", bridges, gpu.known, subject=gpu.name)
        elif not bridges:
            summary = f"{gpu.name} has no PCI bridge above it: CUDA does not start there"
            yield failed(
                summary, "no bridge", A_PORT, Action.NONE, gpu.known, gpu.part, subject=gpu.name,
                remedy=OF_ITS_OWN,
            )  # fmt: skip

    return each_on_bus(state, check_gpu, passed("every GPU has a PCI bridge above it", A_PORT))


@check("pcie.path")
def path(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every PCIe link above a GPU has the GPU's generation and all its lanes.

    One that rests at the lowest speed together with the GPU is noted: under load it may be whole.
    """
    desired, lanes = expect.hardware("pcie.generation"), expect.hardware("pcie.width")

    def check_bridge(bridge: Bridge) -> Iterator[Finding]:
        yield from slow(bridge, "max_link_speed", "can do", desired)
        # The last port shares the GPU's link, which rests at a low speed when idle.
        now = replace(desired, value=0) if bridge.beside_gpu else desired
        yield from slow(bridge, "current_link_speed", "runs at", now)
        for key in ("max_link_width", "current_link_width"):
            yield from narrow(bridge, key, lanes)

    text = f"every link above the GPUs has generation {desired.value} and {lanes.value} lanes"
    return each_bridge(state, check_bridge, passed(text, desired))


def slow(bridge: Bridge, key: str, verb: str, desired: Expected) -> Iterator[Finding]:
    """A finding when a bridge's speed is below a generation; null has no PCIe link."""
    if bridge.entry.is_null(key):
        return
    speed = bridge.entry.text(key)
    if isinstance(speed, Unmeasured):
        yield unread_of(bridge, key, speed)
    elif (observed := generation(speed)) < desired.value:
        summary = f"{bridge.name} {verb} PCIe generation {observed} only"
        if key == "current_link_speed" and bridge.gpu_rests and speed.startswith(AT_REST):
            rest = f"{summary}, and so does the GPU below: at rest"
            part = f"PCI {bridge.name}"
            yield replace(noted(rest, None, speed, desired, part), subject=bridge.name)
            return
        yield fault(bridge, summary, f"{key} {speed}", desired, Action.POWER_CYCLE)


def narrow(bridge: Bridge, key: str, desired: Expected) -> Iterator[Finding]:
    """A finding when a bridge's link has too few lanes; null has no PCIe link."""
    if bridge.entry.is_null(key):
        return
    width = bridge.entry.number(key)
    if isinstance(width, Unmeasured):
        yield unread_of(bridge, key, width)
    elif width < desired.value:
        verb = "can have" if key.startswith("max") else "has"
        summary = f"{bridge.name} {verb} {width} of {desired.value} lanes"
        yield fault(bridge, summary, f"{key} {width}", desired, Action.POWER_CYCLE)


@check("pcie.acs")
def acs(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No bridge above a GPU sends peer-to-peer traffic through the root complex (ACS)."""
    if not expect.acs_judged():
        return iter([passed("ACS is not managed, as the inventory asks (settings.acs)")])

    def check_bridge(bridge: Bridge) -> Iterator[Finding]:
        if bridge.entry.is_null("acs"):
            return
        redirects = bridge.entry.flag("acs")
        if isinstance(redirects, Unmeasured):
            yield unread_of(bridge, "acs", redirects)
        elif redirects:
            summary = f"{bridge.name} redirects peer-to-peer traffic (ACS); switch ACS off"
            yield fault(bridge, summary, "ACS redirects", NO_ACS, Action.NONE)

    return each_bridge(
        state, check_bridge, passed("no bridge above the GPUs redirects (ACS)", NO_ACS)
    )


def fault(bridge: Bridge, summary: str, read: str, expected: Expected, action: Action) -> Finding:
    """A fault of a bridge, which is its own subject: the GPUs below it are not to blame."""
    part = f"PCI {bridge.name}"
    return replace(failed(summary, read, expected, action, part=part), subject=bridge.name)


def unread_of(bridge: Bridge, key: str, reason: Unmeasured) -> Finding:
    """A reading of a bridge that is not there."""
    return replace(unread(f"{key} of {bridge.name}", reason), subject=bridge.name)
