"""What the GPUs did while a load ran: readings taken every so often, as one line a GPU. Pure.

Fails closed: a reading that failed once, or a time in which nothing was read, makes its key
unmeasured for the whole run, since what was missed may be what mattered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

from b200kit.node.client.percentiles import percentile
from b200kit.node.lib.readings import reason, unmeasured

NUMBERS = ("sm_clock_mhz", "power_usage_mw", "temperature_c")
REASONS = "clocks_event_reasons"
KEYS = (*NUMBERS, REASONS)
MOST_SILENT_S = 2.0
"""Seconds without a reading that leave too much unseen (inferred: heat slows for longer)."""

# nvml.h, nvmlClocksEventReasons: what slows a GPU against its will. Idle, application clocks and
# the power cap that every full load meets are none.
SLOWED = {0x08: "hardware slowdown", 0x20: "software thermal slowdown",
          0x40: "hardware thermal slowdown", 0x80: "power brake"}  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One look at a GPU: when it was over (monotonic seconds) and a reading for each of KEYS."""

    at: float
    readings: Mapping[str, Any]


def during(index: int, samples: Sequence[Sample], begin: float, end: float) -> dict[str, object]:
    """One GPU's line: min, median and max of each number, all event reasons that occurred."""
    observed = [sample for sample in samples if begin <= sample.at <= end]
    head = {"index": index, "samples": len(observed)}
    silent = _silence([begin, *(sample.at for sample in observed), end])
    if not observed or silent > MOST_SILENT_S:
        why = f"NVML gave no reading for {silent:.1f} s of the {end - begin:.1f} s of the load"
        return head | {key: unmeasured(why) for key in KEYS}
    return head | {key: _summary(key, [s.readings.get(key) for s in observed]) for key in KEYS}


def slowed_by(reasons: int) -> list[str]:
    """Those among the event reasons that slow a GPU against its will, in words."""
    return [words for bit, words in SLOWED.items() if reasons & bit]


def _silence(times: Sequence[float]) -> float:
    return max(after - before for before, after in pairwise(times))


def _summary(key: str, values: Sequence[object]) -> object:
    numbers = [value for value in values if type(value) in (int, float)]
    if len(numbers) < len(values):
        first = next(value for value in values if type(value) not in (int, float))
        why = reason(first) or "not read"
        return unmeasured(f"{len(values) - len(numbers)} of {len(values)} readings: {why}")
    if key == REASONS:
        return reduce(or_, (int(str(value)) for value in numbers))
    figures = [float(str(value)) for value in numbers]
    return {"min": min(figures), "median": percentile(figures, 50), "max": max(figures)}
