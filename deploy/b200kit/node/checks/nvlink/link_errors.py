"""What the links of a GPU have suffered: bit error rates, error counters, recoveries.

All count since the driver was loaded. The counters of older GPUs (replay, recovery, CRC; NVML
fields 161-163) do not exist from Blackwell on; a nought read from them would be no measurement.

NVML fields 220 (effective) and 222 (symbol) hold mantissa x 10^-exponent: bits 0-7 are the
exponent, bits 8-11 the mantissa. A link without an error reads 15 x 10^-255, raw 0xFFF. Layout:
nvml.h; limits: NVIDIA/DCGM common/DcgmUtilities.cpp and modules/health/DcgmHealthWatch.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from b200kit.node.checks.findings import each_gpu, failed, noted, passed
from b200kit.node.checks.judge import check
from b200kit.node.checks.nvlink.links import links_in_words, of_links
from b200kit.node.state.expectation import Expectation, Expected, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, View, integers

NO_ERRORS = 0xFFF
EXPONENT_BITS = 8


@dataclass(frozen=True)
class BitErrorRate:
    """Errors a bit: mantissa (0-15) x 10^-exponent (0-255)."""

    mantissa: int
    exponent: int

    def __str__(self) -> str:
        """As people and nvidia-smi write it: "3e-11"."""
        return f"{self.mantissa}e-{self.exponent}"


def decode(raw: int) -> BitErrorRate | None:
    """The rate of a raw reading of twelve bits, None when there was no error."""
    if raw == NO_ERRORS:
        return None
    return BitErrorRate(raw >> EXPONENT_BITS, raw & 0xFF)


def effective_is_bad(rate: BitErrorRate | None, worst: int) -> bool:
    """Whether an effective rate is above 10^-worst (DCGM: 12).

    A mantissa of 0 with a smaller exponent is bad too, as in DCGM: no link reports such a rate.
    """
    if rate is None:
        return False
    return rate.exponent < worst or rate.mantissa * 10**worst > 10**rate.exponent


def symbol_is_bad(rate: BitErrorRate | None, floor: int) -> bool:
    """Whether a symbol rate is one of real errors: its exponent is below the floor (DCGM: 238)."""
    return rate is not None and rate.mantissa != 0 and rate.exponent < floor


SINCE = "since the driver was loaded"
Limit = Callable[[BitErrorRate | None, int], bool]
RATES: dict[str, Limit] = {"effective": effective_is_bad, "symbol": symbol_is_bad}


@check("nvlink.ber")
def rates(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Neither bit error rate of a link that is up is past DCGM's limit."""
    limits = {kind: expect.hardware(f"nvlink.{kind}_ber_exponent") for kind in RATES}

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        for kind, limit in limits.items():
            yield from bad_rates(gpu, kind, limit)

    text = " and ".join(f"{kind} 1e-{limit.value}" for kind, limit in limits.items())
    well = f"no NVLink has a bit error rate above {text}"
    return each_gpu(state, check_gpu, passed(well, limits["effective"]))


def bad_rates(gpu: GpuView, kind: str, limit: Expected) -> Iterator[Finding]:
    """Links of a GPU whose rate of one kind is bad."""
    read, lost = of_links(gpu, f"{kind}_ber")
    yield from lost
    for link, raw in read:
        rate = decode(raw)
        if RATES[kind](rate, limit.value):
            summary = f"{gpu.subject} NVLink {link} has an {kind} bit error rate of {rate}"
            summary = summary.replace("an symbol", "a symbol")
            yield failed(summary, f"{kind}_ber {raw:#x}", limit, Action.RESET_GPU, gpu)


@check("nvlink.errors")
def errors(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No error counter of a link that is up is above its maximum.

    What error correction and retransmission corrected is noted only.
    """
    watched = expect.hardware("nvlink.errors_noted", list)
    table = expect.hardware("nvlink.errors_max", dict)
    limits = {str(key): limit for key, limit in table.value.items()}
    if not limits or not all(type(limit) is int for limit in limits.values()):
        raise Unexpected("hardware data: nvlink.errors_max", "each counter needs a whole number")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        for key, limit in limits.items():
            yield from counted(gpu, key, Expected(limit, table.unit, table.source), failed_count)
        for key in map(str, watched.value):
            yield from counted(gpu, key, Expected(0, table.unit, watched.source), noted_count)

    well = f"no NVLink has counted errors of {len(limits)} kinds {SINCE}"
    return each_gpu(state, check_gpu, passed(well, Expected("maximum of each", "", table.source)))


Tell = Callable[[GpuView, str, str, Expected], Finding]


def failed_count(gpu: GpuView, summary: str, read: str, limit: Expected) -> Finding:
    """The finding for errors a link must not have."""
    return failed(summary, read, limit, Action.RESET_GPU, gpu)


def noted_count(gpu: GpuView, summary: str, read: str, limit: Expected) -> Finding:
    """The finding for errors that were corrected."""
    return noted(f"{summary}; watch it", gpu, read, limit)


def counted(gpu: GpuView, key: str, limit: Expected, report: Tell) -> Iterator[Finding]:
    """Links of a GPU with more errors of one kind than they may have, in one finding."""
    read, lost = of_links(gpu, key)
    yield from lost
    if bad := {link: count for link, count in read if count > limit.value}:
        counts = f"{sum(bad.values())} {key.replace('_', ' ')} {SINCE}"
        summary = f"{gpu.subject}: {links_in_words(list(bad))} counted {counts}"
        yield report(gpu, summary, f"{key} by link {bad}", limit)


@check("nvlink.recovery")
def recovery(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A link that failed to recover fails; one that recovers again and again is noted.

    505 recoveries of one link came five days before its Xid 149 (marin-community/marin#9086).
    """
    limit = expect.hardware("nvlink.recovery_failed_max")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        counts: dict[str, dict[int, int]] = {}
        for kind in ("failed", "success", "events"):
            key = f"recovery_{kind}"
            read, lost = of_links(gpu, key, in_use(gpu, key))
            yield from lost
            counts[kind] = {link: count for link, count in read if count}
        yield from recovery_failures(gpu, counts["failed"], limit)
        yield from recoveries(gpu, counts["success"], counts["events"], limit)

    return each_gpu(state, check_gpu, passed("no NVLink failed to recover", limit))


def in_use(gpu: GpuView, key: str) -> list[View]:
    """Which links to read: those up, and a dead one where it reports that it failed to recover."""
    if integers(gpu.links, key) is not None:
        return gpu.links
    up = gpu.links_up
    return [link for link in gpu.links if link.known(int, key) is not None or link in up]


def recovery_failures(gpu: GpuView, lost: dict[int, int], limit: Expected) -> Iterator[Finding]:
    """Links whose failed recoveries pass the limit."""
    for link, count in lost.items():
        if count > limit.value:
            summary = f"{gpu.subject} NVLink {link} failed to recover {count} times {SINCE}"
            yield failed(summary, f"recovery_failed {count}", limit, Action.RESET_GPU, gpu)


def recoveries(
    gpu: GpuView, won: dict[int, int], events: dict[int, int], limit: Expected
) -> Iterator[Finding]:
    """Links that had to recover, with how often; a driver may count events and no success."""
    links = sorted(won | events)
    if links:
        times = sum(max(won.get(link, 0), events.get(link, 0)) for link in links)
        summary = f"{gpu.subject}: {links_in_words(list(links))} recovered {times} times {SINCE}"
        read = f"by link: recovery_success {won}, recovery_events {events}"
        yield noted(f"{summary}: watch it", gpu, read, limit)
