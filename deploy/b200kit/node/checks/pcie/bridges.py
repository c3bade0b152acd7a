"""The PCIe links above every GPU, of which NVML sees only the one next to it.

A root port or switch that trained low slows every GPU below it, and no reading of the GPU shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from b200kit.node.checks.findings import each, failed, noted, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.pcie.bus import AT_REST, Bridge, BusGpu, bus_gpus, each_bridge
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
"""Gigatransfers a second to PCIe generation."""
A_PORT = rule(
    "a bridge above every GPU",
    "Ubicloud, Virtualizing NVIDIA HGX B200: cuInit fails; not so on an H100 alone on its root bus",
)
OF_ITS_OWN = "on the host: attach each GPU below a PCIe root port of its own (QEMU: pcie-root-port)"
NO_ACS = rule("no redirection", "peer-to-peer must not detour through the root complex")


def generation(speed: str) -> int:
    """PCIe generation of a speed as sysfs writes it, "32.0 GT/s PCIe"."""
    return GENERATIONS[float(speed.split()[0])]


@check("pcie.port")
def port(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A GPU without a PCI bridge above it runs CUDA, as its engine's probe shows; or it is noted.

    With a flat bus, as guests may have it, CUDA failed under one hypervisor and runs under others.
    """
    del expect

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        if gpu.entry.items("bridges") or "passed" in (probed := {*_cuda_steps(state)}):
            return
        summary = f"{gpu.subject} has no PCI bridge above it"
        if "failed" in probed:
            text = f"{summary}, and CUDA does not start"
            yield failed(text, "no bridge", A_PORT, Action.NONE, gpu, remedy=OF_ITS_OWN)
        else:
            yield noted(f"{summary}: whether CUDA starts, an engine shows", gpu, "none", A_PORT)

    return each(bus_gpus(state), check_gpu, passed("no GPU lacks a PCI bridge it needs", A_PORT))


def _cuda_steps(state: StateView) -> Iterator[str]:
    """What came of CUDA's first call in the probes of engines that were started."""
    probes = state.at("engine_probes")
    for page in (probes.at(name) for name in probes.names() if not probes.is_null(name)):
        for step in page.items("steps"):
            result = step.text("result")
            if step.text("name") == "cuda" and (
                result != "failed" or "cuInit" in step.text("seen")
            ):
                yield result


@check("pcie.path")
def path(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every PCIe link above a GPU has the GPU's generation and all its lanes.

    One that rests at the lowest speed together with the GPU is noted: under load it may be whole.
    """
    desired, lanes = expect.hardware("pcie.generation"), expect.hardware("pcie.width")

    def check_bridge(bridge: Bridge) -> Iterator[Finding]:
        # The last port shares the GPU's link, which rests at a low speed when idle.
        now = replace(desired, value=0) if bridge.beside_gpu else desired
        for look in (
            slow(bridge, "max_link_speed", "can do", desired),
            slow(bridge, "current_link_speed", "runs at", now),
            narrow(bridge, "max_link_width", "can have", lanes),
            narrow(bridge, "current_link_width", "has", lanes),
        ):
            yield from within(look, bridge)

    text = f"every link above the GPUs has generation {desired.value} and {lanes.value} lanes"
    return each_bridge(state, check_bridge, passed(text, desired))


def slow(bridge: Bridge, key: str, verb: str, desired: Expected) -> Iterator[Finding]:
    """A finding when a bridge's speed is below a generation; null has no PCIe link."""
    if bridge.entry.is_null(key):
        return
    speed = bridge.entry.text(key)
    if (observed := generation(speed)) < desired.value:
        summary = f"{bridge.subject} {verb} PCIe generation {observed} only"
        if key == "current_link_speed" and bridge.gpu_rests and speed.startswith(AT_REST):
            rest = f"{summary}, and so does the GPU below: at rest"
            yield noted(rest, bridge, speed, desired)
        else:
            yield failed(summary, f"{key} {speed}", desired, Action.POWER_CYCLE, bridge)


def narrow(bridge: Bridge, key: str, verb: str, desired: Expected) -> Iterator[Finding]:
    """A finding when a bridge's link has too few lanes; null has no PCIe link."""
    if not bridge.entry.is_null(key) and (width := bridge.entry.number(key)) < desired.value:
        summary = f"{bridge.subject} {verb} {width} of {desired.value} lanes"
        yield failed(summary, f"{key} {width}", desired, Action.POWER_CYCLE, bridge)


@check("pcie.acs")
def acs(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No bridge above a GPU sends peer-to-peer traffic through the root complex (ACS)."""
    if not expect.acs_judged():
        return iter([passed("ACS is not managed, as the inventory asks (settings.acs)")])

    def check_bridge(bridge: Bridge) -> Iterator[Finding]:
        if not bridge.entry.is_null("acs") and bridge.entry.flag("acs"):
            summary = f"{bridge.subject} redirects peer-to-peer traffic (ACS); switch ACS off"
            yield failed(summary, "ACS redirects", NO_ACS, Action.NONE, bridge)

    return each_bridge(
        state, check_bridge, passed("no bridge above the GPUs redirects (ACS)", NO_ACS)
    )
