"""One completed request as a client or the wire saw it, and what two clients' requests tell."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

METRICS = ("ttft", "tpot", "itl", "e2el")
BOUND_MS, BOUND = 1.0, 0.05
"""Two clients agree when they are this close, in milliseconds or as a share."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """One request that completed; seconds."""

    at: float
    ttft: float
    e2el: float
    tokens: int
    gaps: tuple[float, ...]

    def value(self, metric: str) -> list[float]:
        """This request's samples of a metric, in milliseconds, by vLLM's definitions."""
        found = {
            "ttft": [self.ttft],
            "e2el": [self.e2el],
            "tpot": [(self.e2el - self.ttft) / (self.tokens - 1)],
            "itl": list(self.gaps),
        }
        return [seconds * 1000 for seconds in found[metric]]


def sent(found: Document) -> list[Sent]:
    """All completed requests of either client's document: the names are the same."""
    names = ("start_times", "ttfts", "latencies", "output_lens", "itls")
    rows = zip(*(found[name] for name in names), strict=True)
    done = [Sent(at, ttft, e2el, n, tuple(gaps)) for at, ttft, e2el, n, gaps in rows if ttft]
    return sorted(done, key=lambda one: one.at)


def median(requests: Sequence[Sent], metric: str) -> float:
    """Of all samples of a metric, in milliseconds."""
    return statistics.median(value for one in requests for value in one.value(metric))


def mean(requests: Sequence[Sent], metric: str) -> float:
    """The same, the mean."""
    return statistics.mean(value for one in requests for value in one.value(metric))


def beyond(client: Sequence[Sent], wire: Sequence[Sent], metric: str) -> list[float]:
    """By how many milliseconds the client's figure exceeds the wire's, request by request."""
    pairs = zip(client, wire[-len(client) :], strict=True)
    return [median([one], metric) - median([other], metric) for one, other in pairs]
