"""PCIe of every GPU. A lower generation at rest is power saving; a lost lane never is."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, noted, passed, rule, unread
from b200kit.node.checks.gpu_rows import Floor, register
from b200kit.node.checks.judge import check
from b200kit.node.checks.pcie.bridges import generation
from b200kit.node.checks.pcie.bus import BusGpu, each_on_bus
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, Missing, StateView, Unmeasured

UNCORRECTABLE, UNSUPPORTED = ("fatal", "nonfatal"), ("aer", "unsupported_requests")
NO_ERRORS = rule("0 errors since boot", "an uncorrectable PCIe error lost a transaction")
NO_HARM = rule("0 unsupported requests", "probing an absent function at enumeration counts as one")
NO_CORRECTED = rule("0 corrected errors", "the link repairs them, but a climbing count wears out")
REPLAYS_A_MINUTE = Expected(
    8, "replays a minute", "DCGM dcgm_hardware_limits.h, DCGM_LIMIT_MAX_PCIREPLAY_RATE: a warning"
)
NO_REPLAYS = rule("0 replays", "the link repeats a packet it received damaged")

register(
    (
        Floor("pcie.width", "pcie.width", "pcie.width", "PCIe link width", Action.POWER_CYCLE),
        Floor(
            "pcie.generation",
            "pcie.max_generation",
            "pcie.generation",
            "PCIe generation",
            Action.POWER_CYCLE,
        ),
        Floor(
            "pcie.max-width",
            "pcie.max_width",
            "pcie.width",
            "PCIe link width at most",
            Action.POWER_CYCLE,
        ),
    )
)


@check("pcie.bus")
def as_the_kernel_has_it(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel reads the same width and generation of a GPU's link as NVML, or better."""
    lanes, newest = expect.hardware("pcie.width"), expect.hardware("pcie.generation")

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        for key in ("current_link_width", "max_link_width"):
            width = gpu.entry.number(key)
            if isinstance(width, Unmeasured):
                yield unread(key, width, gpu.known, subject=gpu.name)
            elif width < lanes.value:
                summary = f"{gpu.name} has {width} of {lanes.value} PCIe lanes by sysfs ({key})"
                yield low(gpu, summary, f"{key} {width}", lanes)
        speed = gpu.entry.text("max_link_speed")
        if isinstance(speed, Unmeasured):
            yield unread("max_link_speed", speed, gpu.known, subject=gpu.name)
        elif (number := generation(speed)) < newest.value:
            yield low(gpu, f"{gpu.name} can do PCIe generation {number} only", speed, newest)

    return each_on_bus(state, check_gpu, passed("sysfs has every GPU's link whole", lanes))


def low(gpu: BusGpu, summary: str, read: str, expected: Expected) -> Finding:
    """The finding for a link that is not what the hardware must have."""
    return failed(
        summary, read, expected, Action.POWER_CYCLE, gpu.known, gpu.part, subject=gpu.name
    )


@check("pcie.aer")
def errors(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No GPU had an uncorrectable PCIe error since boot.

    Corrected ones are noted, and nonfatal ones that are unsupported requests alone.
    """
    del expect

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        for kind in UNCORRECTABLE:
            yield from uncorrectable(gpu, kind)
        yield from corrected(gpu)

    return each_on_bus(
        state, check_gpu, passed("no uncorrectable PCIe error since boot", NO_ERRORS)
    )


def uncorrectable(gpu: BusGpu, kind: str) -> Iterator[Finding]:
    """A finding when one kind of error happened; null is a kernel that does not count them."""
    count = gpu.entry.number("aer", kind)
    if gpu.entry.is_null("aer", kind):
        return
    if isinstance(count, Unmeasured):
        yield unread(f"{kind} PCIe errors", count, gpu.known, subject=gpu.name)
    elif count > 0 and kind == "nonfatal" and count == gpu.entry.number(*UNSUPPORTED):
        summary = f"{gpu.name}: {count} PCIe requests that it does not support, since boot"
        yield noted(summary, gpu.known, f"UnsupReq {count}", NO_HARM, gpu.part)
    elif count > 0:
        summary = f"{gpu.name} had {count} {kind} PCIe errors since boot"
        read = f"aer_dev_{kind} {count}"
        yield low(gpu, summary, read, NO_ERRORS)


def corrected(gpu: BusGpu) -> Iterator[Finding]:
    """A note when the link corrected errors."""
    count = gpu.entry.number("aer", "correctable")
    if gpu.entry.is_null("aer", "correctable"):
        return
    if isinstance(count, Unmeasured):
        yield unread("corrected PCIe errors", count, gpu.known, subject=gpu.name)
    elif count > 0:
        summary = f"{gpu.name}: {count} corrected PCIe errors"
        yield noted(summary, gpu.known, count, NO_CORRECTED, gpu.part)


@check("pcie.replays")
def replays(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """PCIe replays are noted: the link repeats a damaged packet, which costs time only."""
    del expect

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        count = gpu.number("pcie", "replays")
        if isinstance(count, Unmeasured):
            yield unread("PCIe replays", count, gpu)
        elif count > 0:
            yield noted(f"{gpu.subject}: {count} PCIe replays", gpu, count, NO_REPLAYS)

    return each_gpu(state, check_gpu, passed("PCIe replays are counted on every GPU", NO_REPLAYS))


@check("replays.rate")
def replay_rate(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """While a node serves, no GPU replays more PCIe packets a minute than DCGM warns of."""
    del expect
    if isinstance(state.get(dict, "growth"), Missing):
        yield passed("PCIe replays are not compared with an earlier look")
        return
    seconds = state.get(float, "growth", "seconds")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        grown = state.number("growth", "pcie_replays", str(gpu.text("uuid")))
        what = "by how much its PCIe replays grew"
        if isinstance(seconds, Unmeasured):
            yield unread(what, seconds, gpu)
        elif isinstance(grown, Unmeasured):
            yield unread(what, grown, gpu)
        elif (rate := 60 * grown / max(seconds, 1.0)) > REPLAYS_A_MINUTE.value:
            summary = f"{gpu.subject} replays {rate:.0f} PCIe packets a minute"
            read = f"{grown} in {seconds:.0f} s"
            yield failed(summary, read, REPLAYS_A_MINUTE, Action.MONITOR, gpu)

    well = passed("no GPU replays many PCIe packets", REPLAYS_A_MINUTE)
    yield from each_gpu(state, check_gpu, well)
