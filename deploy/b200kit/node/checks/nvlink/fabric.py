"""NVLink fabric registration of every GPU.

State alone is not evidence: it stays Completed with a bad status (Azure/azhpc-images#506), with an
unhealthy summary, and after the fabric manager died. On HGX B200 a clique id of 0 and a cluster
UUID of zeroes are healthy; that they are the same on all GPUs is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, noted, passed
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import REGISTRATION
from b200kit.node.checks.nvlink import health_mask
from b200kit.node.checks.rows import GROUPS
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unread

STATES = {int(n): word for n, word in GROUPS["registration"]["fabric.state"]["meanings"].items()}
SUMMARIES = {0: "not supported", 1: "healthy", 2: "unhealthy", 3: "limited capacity"}
UNKNOWN_SUMMARY = 0


@check("fabric.health", REGISTRATION)
def health(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The health summary; "not supported" of older drivers is unknown and does not block."""
    expected = expect.hardware("fabric.health")
    known = {gpu.known(int, "fabric", "health_summary") for gpu in state.known_gpus} - {None}

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        summary = gpu.number("fabric", "health_summary")
        if summary == UNKNOWN_SUMMARY and known != {UNKNOWN_SUMMARY}:
            raise Unread("fabric.health_summary", "the driver gives that of other GPUs alone")
        if summary == UNKNOWN_SUMMARY:
            unknown = f"{gpu.subject}: fabric health is unknown, as this driver gives no summary"
            yield noted(unknown, gpu, SUMMARIES[UNKNOWN_SUMMARY], expected)
        elif summary != expected.value:
            text = f"{gpu.subject} reports its fabric health as {SUMMARIES.get(summary, summary)}"
            read = f"fabric health summary {summary}"
            yield failed(text, read, expected, Action.RESET_GPU, gpu)

    return each_gpu(state, check_gpu, passed("fabric health is not bad on any GPU", expected))


@check("fabric.mask", REGISTRATION)
def mask(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every field of the health mask; a mask can disprove health, never prove it."""
    expected = expect.words("fabric.mask")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        reading = gpu.number("fabric", "health_mask")
        found = health_mask.faults(reading, expected.value)
        if not found:
            return
        read = (
            f"{reading:#x}: {', '.join(f'{k} {v}' for k, v in health_mask.decode(reading).items())}"
        )
        text = f"{gpu.subject} reports in its fabric health mask: {', '.join(found)}"
        if any(found.values()):
            yield failed(text, read, expected, Action.RESET_GPU, gpu)
        else:
            yield noted(text, gpu, read, expected)

    return each_gpu(
        state, check_gpu, passed("no field of the fabric health masks is bad", expected)
    )
