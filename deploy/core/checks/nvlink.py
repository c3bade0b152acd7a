"""NVLink of every GPU: links up, their speed and version, and the counters that warn early.

Links that are up prove nothing about the fabric (they train without it), but a link that is down
disproves it: see deploy/core/checks/fabric.py and p2p.py for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from deploy.core.checks.tools import each_gpu, failed, noted, passed, unread
from deploy.core.cpulist import format as ranges
from deploy.core.expectation import Expectation, Expected
from deploy.core.judge import check
from deploy.core.state import GpuView, StateView, Unmeasured, View
from deploy.core.verdict import Action, Finding

UP = 1


def readings(gpu: GpuView, key: str) -> dict[int, int] | Unmeasured:
    """One number of every link by link number; the first that was not read ends it."""
    links = gpu.items("links")
    if isinstance(links, Unmeasured):
        return links
    found: dict[int, int] = {}
    for entry in links:
        link, number = entry.number("link"), entry.number(key)
        for reading in (link, number):
            if isinstance(reading, Unmeasured):
                return reading
        found[int(link)] = int(number)  # type: ignore[arg-type]
    return found


def is_up(link: View) -> bool:
    """Whether a link is up; one whose state is unknown is not counted as down."""
    return link.number("state") != 0


@check("nvlink.links")
def links(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """All links of every GPU are up."""
    wanted = expect.hardware("nvlink.links")

    def look(gpu: GpuView) -> Iterator[Finding]:
        states = readings(gpu, "state")
        if isinstance(states, Unmeasured):
            yield unread("NVLink states", states, gpu)
            return
        up = sum(value == UP for value in states.values())
        if up != wanted.value:
            down = ranges(link for link, value in states.items() if value != UP and link >= 0)
            read = f"links down: {down or 'none'}; links listed: {len(states)}"
            yield failed(links_told(gpu, up, wanted.value), read, wanted, Action.RESET_GPU, gpu)

    total = len(state.gpus() or []) * wanted.value
    return each_gpu(state, look, passed(f"{total} of {total} NVLinks are up", wanted))


def links_told(gpu: GpuView, up: int, wanted: int) -> str:
    """The sentence for a GPU whose links are not all up."""
    if up == 0:
        return f"{gpu.subject} has no NVLink: 0 of {wanted} links up"
    return f"{gpu.subject} has {up} of {wanted} NVLinks up"


@check("nvlink.speed")
def speed(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No link that is up is slower than the floor, MB/s a direction."""
    floor, usual = expect.hardware("nvlink.speed_floor"), expect.hardware("nvlink.speed")

    def look(gpu: GpuView) -> Iterator[Finding]:
        for link, reading in up_links(gpu, "speed_mbps"):
            if isinstance(reading, Unmeasured):
                yield unread(f"speed of NVLink {link}", reading, gpu)
            elif reading < floor.value:
                what = f"NVLink {link} runs at {reading / 1000:g} GB/s"
                summary = f"{gpu.subject} {what}, not {usual.value / 1000:g}"
                yield failed(summary, f"{reading} MB/s", floor, Action.RESET_GPU, gpu)

    return each_gpu(state, look, passed(f"every NVLink runs at {floor.told} or more", floor))


@check("nvlink.version")
def version(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every link that is up speaks the NVLink version of this hardware (NVML's number)."""
    wanted = expect.hardware("nvlink.version")

    def look(gpu: GpuView) -> Iterator[Finding]:
        for link, reading in up_links(gpu, "version"):
            if isinstance(reading, Unmeasured):
                yield unread(f"version of NVLink {link}", reading, gpu)
            elif reading != wanted.value:
                summary = f"{gpu.subject} NVLink {link} has NVML version {reading}"
                yield failed(summary, reading, wanted, Action.RESET_GPU, gpu)

    return each_gpu(state, look, passed("every NVLink is of the expected version", wanted))


def up_links(gpu: GpuView, key: str) -> Iterator[tuple[object, int | Unmeasured]]:
    """Link number and one reading of every link that is not down."""
    links = gpu.items("links")
    if isinstance(links, Unmeasured):
        yield "any", links
        return
    for link in links:
        if is_up(link):
            yield link.at("link").raw(), link.number(key)


@check("nvlink.recovery")
def recovery(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A link that failed to recover fails; one that recovers again and again is noted.

    505 recoveries of one link came five days before its Xid 149 (marin-community/marin#8934).
    """
    limit = expect.hardware("nvlink.recovery_failed_max")

    def look(gpu: GpuView) -> Iterator[Finding]:
        lost, won = readings(gpu, "recovery_failed"), readings(gpu, "recovery_success")
        if isinstance(lost, Unmeasured):
            yield unread("NVLink recovery counters", lost, gpu)
            return
        yield from recovery_failures(gpu, lost, limit)
        if won and any(won.values()):
            summary = f"{gpu.subject} NVLinks recovered {sum(won.values())} times: watch it"
            yield noted(summary, gpu, {k: v for k, v in won.items() if v}, limit)

    return each_gpu(state, look, passed("no NVLink failed to recover", limit))


def recovery_failures(gpu: GpuView, lost: dict[int, int], limit: Expected) -> Iterator[Finding]:
    """Links whose failed recoveries pass the limit."""
    for link, count in lost.items():
        if count > limit.value:
            summary = f"{gpu.subject} NVLink {link} failed to recover {count} times"
            yield failed(summary, f"recovery_failed {count}", limit, Action.RESET_GPU, gpu)
