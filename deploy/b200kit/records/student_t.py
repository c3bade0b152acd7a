"""Student's t distribution for whole degrees of freedom, exactly. Pure; standard library only.

The finite series are those of Abramowitz and Stegun 26.7.3 and 26.7.4.
"""

from __future__ import annotations

import math
from functools import lru_cache


def inside(t: float, freedom: int) -> float:
    """The probability that |T| <= t, for t >= 0 and at least one degree of freedom."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom % 2 == 0:
        return sine * _series(cosine, freedom // 2, first=1)
    if freedom == 1:
        return 2 * angle / math.pi
    return 2 / math.pi * (angle + sine * cosine * _series(cosine, (freedom - 1) // 2, first=2))


def _series(cosine: float, terms: int, first: int) -> float:
    """1 + f/(f+1) c^2 + f(f+2)/((f+1)(f+3)) c^4 + ..., *terms* terms, beginning with f = first."""
    total, term = 0.0, 1.0
    for step in range(terms):
        total += term
        above = first + 2 * step
        term *= above / (above + 1) * cosine * cosine
    return total


@lru_cache(maxsize=4096)
def quantile(confidence: float, freedom: int) -> float:
    """The t that |T| does not pass with probability *confidence* (two-sided), 0 < it < 1."""
    low, high = 0.0, 1.0
    while inside(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle, freedom) < confidence else (low, middle)
    return high
