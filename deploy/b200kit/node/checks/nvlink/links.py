"""NVLink of every GPU: links up, their speed and version. For errors see link_errors.py.

Links that are up prove nothing about the fabric (they train without it), but a link that is down
disproves it: see b200kit/node/checks/nvlink/fabric.py and p2p.py for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from b200kit.node.checks.findings import each_gpu, failed, passed, unread
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import OnNode
from b200kit.node.lib.cpulist import format as ranges
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unread, View, integers

UP = 1
UNKNOWN_REMOTE = 255
REMOTE = {0: "a GPU", 1: "a CPU", 2: "a switch", 255: "an unknown device"}
"""nvmlIntNvLinkDeviceType_t of nvml.h."""
NONE_UP, SOME_UP = "none up", "some up"
"""Where no GPU has a link, the board is at fault; where each lacks some, what those end at."""
MOST_LINKS = 36
"""NVML_NVLINK_MAX_LINKS of nvml.h: no GPU has more."""


def of_links(
    gpu: GpuView, key: str, links: Sequence[View] | None = None
) -> tuple[list[tuple[int, int]], list[Finding]]:
    """Link and reading of every link that is up, or of those given.

    And a finding for those not read, one for each reason.
    """
    asked = gpu.links_up if links is None else links
    numbers, readings = integers(asked, "link"), integers(asked, key)
    if numbers is not None and readings is not None:
        return list(zip(numbers, readings, strict=True)), []
    read: list[tuple[int, int]] = []
    lost: dict[str, list[object]] = {}
    for link in asked:
        number = link.known(int, "link")
        try:
            read.append((link.number("link"), link.number(key)))
        except Unread as error:
            lost.setdefault(error.reason, []).append("of no number" if number is None else number)
    return read, [
        unread(Unread(f"{key} of {links_in_words(where)}", reason), gpu.subject, gpu.part)
        for reason, where in lost.items()
    ]


def links_in_words(links: list[object]) -> str:
    """ "NVLink 7", "NVLinks 0-17", as people count them."""
    numbers = [link for link in links if isinstance(link, int) and link >= 0]
    rest = [str(link) for link in links if link not in numbers]
    words = ", ".join([ranges(numbers), *rest] if numbers else rest)
    return f"NVLink{'s' if len(links) > 1 else ''} {words}"


@check(
    "nvlink.links",
    OnNode(NONE_UP, Action.REBOOT),
    OnNode(action=Action.REBOOT, part="an NVSwitch of {board}"),
)
def links(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """All links of every GPU are up."""
    desired = expect.hardware("nvlink.links")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        states = {link.number("link"): link.number("state") for link in gpu.links}
        up = sum(value == UP for value in states.values())
        if up != desired.value:
            down = ranges(link for link, value in states.items() if value != UP and link >= 0)
            read = f"links down: {down or 'none'}; links listed: {len(states)}"
            summary = links_told(gpu, up, desired.value, states)
            found = failed(summary, read, desired, Action.RESET_GPU, gpu)
            yield replace(found, kind=SOME_UP if up else NONE_UP)

    total = len(state.gpus) * desired.value
    return each_gpu(state, check_gpu, passed(f"{total} of {total} NVLinks are up", desired))


def links_told(gpu: GpuView, up: int, desired: int, states: Mapping[int, int]) -> str:
    """The sentence for a GPU whose links are not all up, with the links to look at."""
    if up == 0:
        return f"{gpu.subject} has no NVLink: 0 of {desired} links up"
    down: list[object] = [link for link, value in states.items() if value != UP]
    absent: list[object] = [link for link in range(min(desired, MOST_LINKS)) if link not in states]
    faults = [f"{links_in_words(down)} down"] if down else []
    faults += [f"{links_in_words(absent)} not listed"] if absent else []
    return f"{gpu.subject} has {up} of {desired} NVLinks up: {', '.join(faults) or 'too many'}"


@check("nvlink.speed")
def speed(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No link that is up is slower than the floor, MB/s a direction."""
    floor, usual = expect.hardware("nvlink.speed_floor"), expect.hardware("nvlink.speed")

    def describe(reading: int) -> str:
        return f"at {reading / 1000:g} GB/s, not {usual.value / 1000:g}"

    well = passed(f"every NVLink runs at {floor.text} or more", floor)
    return odd_links(state, "speed_mbps", lambda r: r >= floor.value, describe, floor, well)


@check("nvlink.version")
def version(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every link that is up speaks the NVLink version of this hardware (NVML's number)."""
    desired = expect.hardware("nvlink.version")

    def describe(reading: int) -> str:
        return f"as NVML version {reading}"

    well = passed("every NVLink is of the expected version", desired)
    return odd_links(state, "version", lambda r: r == desired.value, describe, desired, well)


@check("nvlink.remote")
def remote(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No link that is up ends at another kind of device than this hardware has there.

    "Unknown" is no fault: what a healthy HGX B200 answers is not confirmed.
    """
    desired = expect.hardware("nvlink.remote_type")
    known = (desired.value, UNKNOWN_REMOTE)

    def describe(reading: int) -> str:
        return f"to {REMOTE.get(reading, reading)}, not to {REMOTE[desired.value]}"

    well = passed("no NVLink ends at another kind of device", desired)
    return odd_links(state, "remote_type", known.__contains__, describe, desired, well)


def odd_links(
    state: StateView,
    key: str,
    good: Callable[[int], bool],
    describe: Callable[[int], str],
    expected: Expected,
    all_well: Finding,
) -> Iterator[Finding]:
    """Links that are up with a bad reading, one finding for all links of a GPU of one value."""

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        read, lost = of_links(gpu, key)
        yield from lost
        bad: dict[int, list[object]] = {}
        for link, reading in read:
            if not good(reading):
                bad.setdefault(reading, []).append(link)
        for reading, where in bad.items():
            run = "run" if len(where) > 1 else "runs"
            summary = f"{gpu.subject}: {links_in_words(where)} {run} {describe(reading)}"
            yield failed(summary, f"{key} {reading}", expected, Action.RESET_GPU, gpu)

    return each_gpu(state, check_gpu, all_well)
