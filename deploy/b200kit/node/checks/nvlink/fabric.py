"""NVLink fabric registration of every GPU.

State alone is not evidence: it stays Completed with a bad status (Azure/azhpc-images#506), with an
unhealthy summary, and after the fabric manager died. On HGX B200 a clique id of 0 and a cluster
UUID of zeroes are healthy; that they are the same on all GPUs is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, noted, passed
from b200kit.node.checks.gpu_rows import Code, register
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import OnNode
from b200kit.node.checks.nvlink import health_mask
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView

STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
SUMMARIES = {0: "not supported", 1: "healthy", 2: "unhealthy", 3: "limited capacity"}
UNKNOWN_SUMMARY = 0
STATUSES = {3: "not supported", 23: "insufficient resources", 999: "unknown error"}
"""NVML return codes a registration was observed to end with; the others are reported by number."""


def status_in_words(number: int) -> str:
    """An NVML return code as people look it up: "NVML status 23 (insufficient resources)"."""
    code = f"NVML status {number}"
    return f"{code} ({STATUSES[number]})" if number in STATUSES else code


BEFORE = (
    "modules.loaded",
    "nics.management-port",
    "nics.management-state",
    "packages.lockstep",
    "fabric.units",
    "fabric.mode",
    "fabric.nvlsm-installed",
    "fabric.nvlsm",
    "nvlink.links",
)
"""Checks of what a registration needs: with a fault there, it is only the consequence."""
IN_ALL = OnNode(action=Action.RESTART_SERVICE, part="{board}", after=(*BEFORE, "fabric.state"))
"""A GPU that alone is not registered well is reset; where all are not, the fabric manager is."""

register(
    (
        Code(
            "fabric.state",
            "fabric.state",
            "fabric.state",
            "fabric state",
            Action.RESTART_SERVICE,
            lambda number: (
                f"has not completed its fabric registration: {STATES.get(number, number)}"
            ),
            "fabric completed on every GPU",
            "Every GPU has completed its registration with the fabric.",
            on_node=IN_ALL,
        ),
        Code(
            "fabric.status",
            "fabric.status",
            "fabric.status",
            "fabric status",
            Action.REBOOT,
            lambda number: f"failed its fabric registration with {status_in_words(number)}",
            "fabric registration succeeded on every GPU",
            "The registration ended in success; Completed says only that it ended.",
            on_node=IN_ALL,
        ),
    )
)


@check("fabric.health", IN_ALL)
def health(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The health summary; "not supported" of older drivers is unknown and does not block."""
    expected = expect.hardware("fabric.health")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        summary = gpu.number("fabric", "health_summary")
        if summary == UNKNOWN_SUMMARY:
            unknown = f"{gpu.subject}: fabric health is unknown, as this driver gives no summary"
            yield noted(unknown, gpu, SUMMARIES[UNKNOWN_SUMMARY], expected)
        elif summary != expected.value:
            text = f"{gpu.subject} reports its fabric health as {SUMMARIES.get(summary, summary)}"
            read = f"fabric health summary {summary}"
            yield failed(text, read, expected, Action.RESET_GPU, gpu)

    return each_gpu(state, check_gpu, passed("fabric health is not bad on any GPU", expected))


@check("fabric.mask", IN_ALL)
def mask(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every field of the health mask; a mask can disprove health, never prove it."""
    expected = expect.hardware("fabric.mask", str)

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        reading = gpu.number("fabric", "health_mask")
        if faults := health_mask.faults(reading):
            fields = ", ".join(f"{k} {v}" for k, v in health_mask.decode(reading).items())
            summary = f"{gpu.subject} has a fault in its fabric health mask: {', '.join(faults)}"
            yield failed(summary, f"{reading:#x}: {fields}", expected, Action.RESET_GPU, gpu)

    return each_gpu(
        state, check_gpu, passed("no field of the fabric health masks is bad", expected)
    )
