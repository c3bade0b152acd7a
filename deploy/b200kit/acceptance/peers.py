"""Who is slow among its like, although every floor is met. Pure.

Of values that should be alike (GPUs of a node, links, nodes of a fleet) each is held to their
median: its distance in per cent, and as a robust z in standard deviations that follow from the
median absolute deviation (MAD), so that the slow one itself does not widen what counts as usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

BAD_PERCENT = 5.0
"""Inferred; SuperBench takes 5 %, gpu-fryer 10 %."""
WATCH_PERCENT = 2.0
BAD_Z = 4.0
LEAST = 3
"""Values that can be compared: of two nobody knows which is the slow one."""
OF_MAD = 1.4826
"""A standard deviation against a MAD, of normal values."""

Rating = Literal["alike", "watch", "bad", "not compared"]


@dataclass(frozen=True)
class PeerFinding:
    """One of several: its value, and how far from their median.

    `percent`: below 0 is below the median. `z`: None where most are the same, so that there is no
    spread to measure by.
    """

    name: str
    value: float
    peers: int
    median: float
    percent: float
    z: float | None
    rating: Rating


def compare(values: Mapping[str, float]) -> list[PeerFinding]:
    """Each rate against all of them, in their order; only what is slower is bad or to watch.

    Fewer than LEAST, or a median of 0, are not compared.
    """
    middle, mad = centre(values.values()) if values else (0.0, 0.0)
    compared = len(values) >= LEAST and middle != 0
    found = []
    for name, value in values.items():
        percent = 100 * (value - middle) / abs(middle) if middle else 0.0
        z = (value - middle) / (OF_MAD * mad) if mad else None
        rating = _rating(percent, z) if compared else "not compared"
        found.append(PeerFinding(name, value, len(values), middle, percent, z, rating))
    return found


def _rating(percent: float, z: float | None) -> Rating:
    if percent < -BAD_PERCENT and (z is None or z < -BAD_Z):
        return "bad"
    return "watch" if percent < -WATCH_PERCENT else "alike"


def floor(middle: float, mad: float) -> float:
    """What rates of such a median and MAD hold a later one to.

    BAD_PERCENT or BAD_Z deviations below the median, whichever is further.
    """
    return middle - max(abs(middle) * BAD_PERCENT / 100, BAD_Z * OF_MAD * mad)


def centre(values: Iterable[float]) -> tuple[float, float]:
    """Median and median absolute deviation of at least one value."""
    listed = list(values)
    middle = median(listed)
    return middle, median(abs(value - middle) for value in listed)
