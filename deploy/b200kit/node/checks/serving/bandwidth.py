"""Measured bandwidth: between GPUs, to and from the host, of GPU memory, of an all-reduce.

Links can be up at full speed while nothing goes through them. The measurement is made by the
bandwidth stage and never by the gate, so a result is judged again at every boot. It holds for the
driver and the GPUs it was taken with; one of an earlier boot only while it is young enough, and it
then asks for eyes. When the inventory does not ask for it, each check says that and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from statistics import median

from b200kit.node.bandwidth.tests import (
    ALL_REDUCE,
    LOCAL,
    MIB,
    PEER,
    TO_GPU,
    TO_HOST,
    Bandwidth,
    BandwidthResult,
)
from b200kit.node.checks.findings import failed, passed, rule, unread, within
from b200kit.node.checks.judge import Check, check
from b200kit.node.checks.nvlink.p2p import blame
from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import Malformed, structure
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unread

Results = dict[str, list[BandwidthResult]]
"""Results by test."""
Judge = Callable[[Expectation, list[GpuView], Results], Iterator[Finding]]
MEASURED = "the measured bandwidth"
NOT_ASKED = "bandwidth is not asked for (inventory: bandwidth off)"
SMALL, LARGE = 256 * MIB, 8192 * MIB


def document(state: StateView) -> Bandwidth:
    """What the last measurement left on the node."""
    if state.is_null("notes", "bandwidth"):
        raise Unread(MEASURED, "nothing was measured on this node yet")
    try:
        return structure(Bandwidth, state.raw("notes", "bandwidth"))
    except Malformed as error:
        raise Unread(MEASURED, f"bandwidth.json: {error}") from None


def of_earlier_boot(expect: Expectation, note: Bandwidth, state: StateView) -> bool:
    """Whether a document is of an earlier boot; raises Unread when it does not hold."""
    gpus = tuple(gpu.reading("uuid") for gpu in state.known_gpus)
    for name, then, here in (
        ("another driver", note.driver_version, state.text("nvml", "driver_version")),
        ("other GPUs", note.gpu_uuids, gpus),
    ):
        if then != here:
            raise Unread(MEASURED, f"it was measured with {name}")
    if note.boot_id == state.text("host", "boot_id"):
        return False
    require_young(expect, note, state)
    return True


def require_young(expect: Expectation, note: Bandwidth, state: StateView) -> None:
    """Raise Unread when a result of an earlier boot does not hold any more."""
    limit = expect.hardware("bandwidth.max_age_days")
    try:
        taken, observed = map(timestamp.parse, (note.taken_at, state.reading("taken_at")))
        days = (observed - taken).total_seconds() / 86400
    except ValueError:
        why = "the age of a measurement of an earlier boot is unknown"
        raise Unread(MEASURED, why) from None
    # A clock that was set since, back by less than a day, makes no measurement of it a lie.
    if not -1 <= days <= limit.value:
        why = f"measured {days:.0f} days ago in an earlier boot; it holds {limit.text}"
        raise Unread(MEASURED, why)


def by_gpus(results: list[BandwidthResult]) -> dict[tuple[int, ...], float]:
    """Measured speeds by the GPUs they are of; what has none is missed."""
    return {one.gpus: one.value for one in results if one.value is not None}


def corrupt(what: str, results: Results) -> Iterator[Finding]:
    """Findings about the data itself: wrong, or not verified."""
    none = rule("0 wrong values", "data that arrive must be the data that were sent")

    for result in (each for found in results.values() for each in found):
        where = f"{result.test} of {result.subject}"
        if result.wrong is None:
            yield unread(Unread(where, "the tool did not verify the data"))
        elif result.wrong:
            summary = f"{what}: wrong data in {where}"
            yield failed(summary, f"{result.wrong} or more wrong values", none, Action.RESET_GPU)


def between_gpus(expect: Expectation, gpus: list[GpuView], results: Results) -> Iterator[Finding]:
    """A GPU that several slow pairs share is named for all of them; if all are slow, the node."""
    floor = expect.hardware("bandwidth.peer_floor")
    speeds, pairs = by_gpus(results[PEER]), list(permutations(range(len(gpus)), 2))
    unknown = [pair for pair in pairs if pair not in speeds]
    bad = {pair: speeds[pair] for pair in pairs if speeds.get(pair, floor.value) < floor.value}
    if unknown or not pairs:
        what = f"bandwidth of {len(unknown)} of {len(pairs)} pairs of GPUs"
        yield unread(Unread(what, "nvbandwidth gave no value"))
    if len(gpus) > 2 and len(bad) == len(pairs):
        summary = f"all {len(pairs)} pairs of GPUs are slow: {spread(list(bad.values()))}"
        yield failed(summary, spread(list(bad.values())), floor, Action.REBOOT)
        return
    guilty, left = blame(list(bad))
    for position in guilty:
        values = [value for pair, value in bad.items() if position in pair]
        summary = f"{gpus[position].subject} is slow with its peers: {spread(values)}"
        read = f"{spread(values)} on {len(values)} ordered pairs"
        yield failed(summary, read, floor, Action.RESET_GPU, gpus[position])
    for a, b in left:
        summary = f"slow from {gpus[a].subject} to {gpus[b].subject}: {spread([bad[a, b]])}"
        part = f"{gpus[a].part} and {gpus[b].part}"
        yield failed(summary, spread([bad[a, b]]), floor, Action.RESET_GPU, gpus[a], part)


def with_host(expect: Expectation, gpus: list[GpuView], results: Results) -> Iterator[Finding]:
    """Copies to and from pinned memory of the host go over PCIe: one GPU slow, or the node."""
    floor = expect.hardware("bandwidth.host_floor")
    for test, way in ((TO_GPU, "from the host"), (TO_HOST, "to the host")):
        speeds = by_gpus(results[test])
        bad = {gpu: v for gpu in range(len(gpus)) if (v := speeds.get((gpu,), 0)) < floor.value}
        if any((gpu,) not in speeds for gpu in range(len(gpus))):
            yield unread(Unread(f"bandwidth {way}", "nvbandwidth gave no value for a GPU"))
        elif len(gpus) > 1 and len(bad) == len(gpus):
            text = spread(list(bad.values()))
            yield failed(f"copies {way} are slow on every GPU: {text}", text, floor, Action.REBOOT)
        else:
            for gpu, value in bad.items():
                summary = f"{gpus[gpu].subject} copies {way} slowly: {spread([value])}"
                power = Action.POWER_CYCLE
                yield failed(summary, spread([value]), floor, power, gpus[gpu])


def of_memory(expect: Expectation, gpus: list[GpuView], results: Results) -> Iterator[Finding]:
    """A GPU far below its peers fails; all below another tool's floor is only noted.

    A copy reads and writes, so it moves twice what nvbandwidth reports (NVIDIA/nvbandwidth#48).
    """
    share = expect.hardware("bandwidth.memory_share")
    floor = expect.hardware("bandwidth.memory_floor")
    speeds = by_gpus(results[LOCAL])
    values = [speeds[(gpu,)] for gpu in range(len(gpus)) if (gpu,) in speeds]
    if len(values) < len(gpus) or not values:
        raise Unread("memory bandwidth", "nvbandwidth gave no value for a GPU")
    usual = median(values)
    for gpu, value in zip(gpus, values, strict=True):
        if value * 100 < usual * share.value or not value:
            summary = f"{gpu.subject} copies its memory slowly: {value:.0f} GB/s, not {usual:.0f}"
            yield failed(summary, f"{value:.0f} GB/s", share, Action.RESET_GPU, gpu)
    if 2 * usual < floor.value:
        summary = (
            f"memory moves {2 * usual:.0f} GB/s in copies, less than DCGM asks of its own test"
        )
        yield eyes(summary, f"{2 * usual:.0f} GB/s", floor)


def all_reduce(expect: Expectation, gpus: list[GpuView], results: Results) -> Iterator[Finding]:
    """Bus bandwidth of NCCL over all GPUs, at a middling and at a large message.

    The floor of the large one is above what there is without multicast (NVLS), which NCCL does
    without in silence.
    """
    names = ("all_reduce_256m_floor", "all_reduce_8g_floor", "all_reduce_8g_usual")
    small, large, usual = (expect.hardware(f"bandwidth.{name}") for name in names)
    # Not known of every hardware.
    without = expect.known(int, "hardware", "expect", "bandwidth.all_reduce_without_nvls", "value")
    rows = results[ALL_REDUCE]
    known = [(r.bytes, r.value) for r in rows if r.bytes is not None and r.value is not None]
    if any(len(row.gpus) != len(gpus) for row in rows):
        few = f"it did not run on all {len(gpus)} GPUs"
        yield unread(Unread("bandwidth of the all-reduce", few))
    for text, floor, values in (
        ("256 MiB", small, [value for size, value in known if size == SMALL]),
        ("8 GiB", large, [value for size, value in known if size >= LARGE]),
    ):
        if not values:
            what = f"bandwidth of an all-reduce of {text}"
            yield unread(Unread(what, "all_reduce_perf gave no value"))
        elif max(values) < floor.value:
            summary = f"the all-reduce of {text} is slow: {spread([max(values)])}"
            if floor is large and without and abs(max(values) / without - 1) < 0.03:
                summary += ", as without multicast (NVLS)"
            yield failed(summary, spread([max(values)]), floor, Action.REBOOT)
        elif floor is large and max(values) < usual.value:
            summary = f"the all-reduce of {text} is below the usual: {spread([max(values)])}"
            yield eyes(summary, spread([max(values)]), usual)


def spread(values: list[float]) -> str:
    """Speeds in words, "312.4 GB/s" or "310.0 to 745.2 GB/s"."""
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return f"{low} GB/s" if low == high else f"{low} to {high} GB/s"


def eyes(summary: str, read: str, expected: Expected) -> Finding:
    """A pass of the node to keep an eye on."""
    text, source = expected.text, expected.source
    return Finding(summary, read=read, expected=text, source=source, action=Action.MONITOR)


def make(what: str, tool: str, tests: tuple[str, ...], judge_results: Judge) -> Check:
    """The check of one kind of bandwidth."""
    allowed = rule("measured when installed", "inventory: bandwidth when-installed")

    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        mode = expect.bandwidth()
        if mode == "off":
            yield passed(NOT_ASKED)
            return
        note = document(state)
        missing = note.missing.get(tool)
        if missing is not None and mode == "when-installed":
            # However old: a tool that was not there proves as little today as it did then.
            text = f"{what} not measured: {tool} is {missing}; the inventory lets that pass"
            yield eyes(text, missing, allowed)
            return
        earlier = of_earlier_boot(expect, note, state)
        if missing is not None:
            raise Unread(what, f"{tool} is {missing}")
        yield from judged(expect, state, note, earlier)

    def judged(e: Expectation, s: StateView, note: Bandwidth, earlier: bool) -> Iterator[Finding]:
        results: Results = {test: [r for r in note.results if r.test == test] for test in tests}
        found = [unread(Unread(what, note.failed[test])) for test in tests if test in note.failed]
        found += corrupt(what, results)
        if not any(finding.blocks for finding in found):
            found += within(judge_results(e, s.gpus, results))
        yield from found
        if not found:
            taken = f"{what} is as expected, measured {note.taken_at}"
            old = eyes(f"{taken} in an earlier boot", "", rule("of this boot", "measure again"))
            yield old if earlier else passed(taken)

    run.__doc__ = f"{what[0].upper()}{what[1:]} is as fast as it should be, and the data is right."
    return run


check("bandwidth.peer")(make("bandwidth between GPUs", "nvbandwidth", (PEER,), between_gpus))
check("bandwidth.host")(
    make("bandwidth with the host", "nvbandwidth", (TO_GPU, TO_HOST), with_host)
)
check("bandwidth.memory")(make("bandwidth of GPU memory", "nvbandwidth", (LOCAL,), of_memory))
check("bandwidth.all-reduce")(
    make("bandwidth of the all-reduce", "all_reduce_perf", (ALL_REDUCE,), all_reduce)
)
