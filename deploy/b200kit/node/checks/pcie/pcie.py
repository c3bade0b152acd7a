"""PCIe of every GPU. A lower generation at rest is power saving; a lost lane never is."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each, each_gpu, failed, noted, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.pcie.bridges import generation
from b200kit.node.checks.pcie.bus import BusGpu, bus_gpus
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView

UNCORRECTABLE = ("fatal", "nonfatal")
NO_ERRORS = rule("0 errors since boot", "an uncorrectable PCIe error lost a transaction")
NO_HARM = rule("0 unsupported requests", "probing an absent function at enumeration counts as one")
NO_CORRECTED = rule("0 corrected errors", "the link repairs them, but a climbing count wears out")
REPLAYS_A_MINUTE = Expected(
    8, "replays a minute", "DCGM dcgm_hardware_limits.h, DCGM_LIMIT_MAX_PCIREPLAY_RATE: a warning"
)
NO_REPLAYS = rule("0 replays", "the link repeats a packet it received damaged")


@check("pcie.bus")
def as_the_kernel_has_it(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel reads the same width and generation of a GPU's link as NVML, or better."""
    lanes, newest = expect.hardware("pcie.width"), expect.hardware("pcie.generation")

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        for key in ("current_link_width", "max_link_width"):
            yield from within(narrow(gpu, key, lanes), gpu)
        speed = gpu.entry.text("max_link_speed")
        if (number := generation(speed)) < newest.value:
            summary = f"{gpu.subject} can do PCIe generation {number} only"
            yield failed(summary, speed, newest, Action.POWER_CYCLE, gpu)

    return each(bus_gpus(state), check_gpu, passed("sysfs has every GPU's link whole", lanes))


def narrow(gpu: BusGpu, key: str, lanes: Expected) -> Iterator[Finding]:
    """A finding when a GPU's link has too few lanes by the kernel."""
    width = gpu.entry.number(key)
    if width < lanes.value:
        summary = f"{gpu.subject} has {width} of {lanes.value} PCIe lanes by sysfs ({key})"
        yield failed(summary, f"{key} {width}", lanes, Action.POWER_CYCLE, gpu)


@check("pcie.speed")
def speed(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every GPU's link that is not at rest runs as fast as the fastest of its peers'."""
    del expect
    gpus = bus_gpus(state)
    known = (gpu.entry.known(str, "current_link_speed") for gpu in gpus)
    best = max((generation(text) for text in known if text), default=0)
    desired = rule(f"generation {best}", "of GPUs at work, one that trained low is the odd one")

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        text = gpu.entry.text("current_link_speed")
        if not gpu.rests and generation(text) < best:
            summary = (
                f"{gpu.subject} runs at PCIe generation {generation(text)}, its peers at {best}"
            )
            yield failed(summary, text, desired, Action.POWER_CYCLE, gpu)

    return each(gpus, check_gpu, passed("no GPU's link is slower than its peers'", desired))


@check("pcie.payload")
def payload(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every GPU's packets may be as large as the largest of its peers'."""
    del expect
    gpus = bus_gpus(state)
    if all(gpu.entry.is_missing("payload_bytes") for gpu in gpus):
        return iter([passed("payload sizes are not in this document")])
    best = max(gpu.entry.known(int, "payload_bytes") or 0 for gpu in gpus)
    desired = rule(f"{best} bytes", "smaller packets cost bandwidth, and of peers one is the odd")

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        if gpu.entry.is_null("payload_bytes"):
            return
        if (size := gpu.entry.number("payload_bytes")) < best:
            summary = f"{gpu.subject} has PCIe packets of {size} bytes at most, its peers {best}"
            yield failed(summary, size, desired, Action.NONE, gpu)

    return each(gpus, check_gpu, passed("no GPU's PCIe packets are smaller", desired))


@check("pcie.aer")
def errors(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No GPU had an uncorrectable PCIe error since boot.

    Corrected ones are noted, and nonfatal ones that are unsupported requests alone.
    """
    del expect

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        for kind in UNCORRECTABLE:
            yield from within(uncorrectable(gpu, kind), gpu)
        if count := counted(gpu, "correctable"):
            yield noted(f"{gpu.subject}: {count} corrected PCIe errors", gpu, count, NO_CORRECTED)

    well = passed("no uncorrectable PCIe error since boot", NO_ERRORS)
    return each(bus_gpus(state), check_gpu, well)


def uncorrectable(gpu: BusGpu, kind: str) -> Iterator[Finding]:
    """A finding when one kind of error happened."""
    count = counted(gpu, kind)
    if (
        count
        and kind == "nonfatal"
        and count == gpu.entry.known(int, "aer", "unsupported_requests")
    ):
        summary = f"{gpu.subject}: {count} PCIe requests that it does not support, since boot"
        yield noted(summary, gpu, f"UnsupReq {count}", NO_HARM)
    elif count:
        summary = f"{gpu.subject} had {count} {kind} PCIe errors since boot"
        yield failed(summary, f"aer_dev_{kind} {count}", NO_ERRORS, Action.POWER_CYCLE, gpu)


def counted(gpu: BusGpu, kind: str) -> int:
    """How many errors of a kind were counted, none where null: by a kernel that counts none."""
    return 0 if gpu.entry.is_null("aer", kind) else gpu.entry.number("aer", kind)


@check("pcie.replays")
def replays(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """PCIe replays are noted: the link repeats a damaged packet, which costs time only."""
    del expect

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        if (count := gpu.number("pcie", "replays")) > 0:
            yield noted(f"{gpu.subject}: {count} PCIe replays", gpu, count, NO_REPLAYS)

    return each_gpu(state, check_gpu, passed("PCIe replays are counted on every GPU", NO_REPLAYS))


@check("replays.rate")
def replay_rate(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """While a node serves, no GPU replays more PCIe packets a minute than DCGM warns of."""
    del expect
    if state.is_missing("growth"):
        return iter([passed("PCIe replays are not compared with an earlier health check")])

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        seconds = state.get(float, "growth", "seconds")
        grown = state.number("growth", "pcie_replays", gpu.text("uuid"))
        if (rate := 60 * grown / max(seconds, 1.0)) > REPLAYS_A_MINUTE.value:
            summary = f"{gpu.subject} replays {rate:.0f} PCIe packets a minute"
            read = f"{grown} in {seconds:.0f} s"
            yield failed(summary, read, REPLAYS_A_MINUTE, Action.MONITOR, gpu)

    well = passed("no GPU replays many PCIe packets", REPLAYS_A_MINUTE)
    return each_gpu(state, check_gpu, well)
