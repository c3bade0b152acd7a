"""What the engine's own histograms can say about the node's record of latency. Pure.

A quantile that Prometheus computes from buckets is a guess within one bucket, and vLLM's lowest for
ITL is 10 ms: against a record of 6 ms it would alarm for ever. That more than 1 % of the requests
took longer than a bucket's own bound is no guess. So a record is compared at the first bound that
is not below it by the tolerance: an alarm is always true, and comes as early as the buckets allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from b200kit.node.state.agent import RecordedLatency

# vllm/v1/metrics/loggers.py, commit 005a810b (quoted); of TTFT without the two that are minutes.
_TTFT = (
    *("0.001", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08", "0.1", "0.25", "0.5", "0.75"),
    *("1.0", "2.5", "5.0", "7.5", "10.0", "20.0", "40.0", "80.0", "160.0"),
)
_ITL = (
    *("0.01", "0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5", "0.75"),
    *("1.0", "2.5", "5.0", "7.5", "10.0", "20.0", "40.0", "80.0"),
)
BOUNDS: Mapping[str, Sequence[str]] = {"ttft": _TTFT, "itl": _ITL}
"""Metric of a record to the label `le` of each bucket, as vLLM writes it."""


def bound(known: RecordedLatency, tolerance: float) -> str | None:
    """The bucket whose bound is compared; None where the record is beyond all of them."""
    limit = known.seconds * (1 + tolerance)
    return next((le for le in BOUNDS[known.metric] if float(le) >= limit), None)
