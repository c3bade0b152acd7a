"""From the arrival times of streamed chunks to TTFT, ITL, TPOT, E2E and goodput. Pure.

The definitions are those of `vllm bench serve` (vllm/benchmarks/lib/endpoint_request_func.py and
benchmarks/serve.py, 0.32/0.33); FORMULAS carries them in words beside every result, because other
tools use the same names for other quantities. All times are seconds on one monotonic clock;
results are milliseconds where the name ends in `_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from b200kit.node.client.percentiles import carries, deviation, interval, mean, note, percentile
from b200kit.node.client.proportion import proportion
from b200kit.node.state.serving import Objective

FORMULAS: dict[str, str] = {
    "ttft": "first chunk with output, minus sent (content, reasoning or a tool call, or an empty"
    " content without a role: a token that has no text; the connection is new for each request and"
    " its set-up is included)",
    "itl": "gap between successive chunks with output, pooled over all requests (a gap a chunk, not"
    " a token: see tokens_per_chunk)",
    "tpot": "(e2el - ttft) / (usage.completion_tokens - 1), one value a request; a request of one"
    " token has none",
    "e2el": "last chunk with output, minus sent (an empty end, usage and [DONE] do not count)",
    "request_goodput": "requests that meet every objective, divided by duration",
    "schedule_delay": "sent minus scheduled: how late the client was (open loop)",
    "client_queue_time": "the same for completed requests, under vllm bench serve's name",
    "e2el_including_client_queue": "e2el + client_queue_time: from when it was due",
    "connect": "connection made minus sent: name look-up, TCP and TLS set-up, a part of ttft",
    "duration": "first scheduled sending to the end of the last request",
    "percentiles": "linear interpolation between order statistics (numpy's default); P99 is null"
    " unless 0.99**n <= 0.05, that is n >= 299",
}
METRICS = ("ttft", "tpot", "itl", "e2el")
PERCENTS = (50, 90, 95, 99)
COALESCED_S = 1e-4
LATE = 2.0


@dataclass(frozen=True)
class Chunk:
    """One streamed chunk that carried a choice: when it came, and whether a token came with it."""

    at: float
    output: bool = True


@dataclass(frozen=True)
class RequestRecord:
    """What the client saw of one request. `error` is None only for a complete, correct answer.

    connected: when its connection was ready for the request; None when it never was.
    """

    scheduled: float
    sent: float
    chunks: tuple[Chunk, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    ended: float | None = None
    error: str | None = None
    connected: float | None = None


@dataclass(frozen=True)
class Timing:
    """The latencies of one completed request, in seconds; `tpot` is None for a one-token answer."""

    ttft: float
    e2el: float
    gaps: tuple[float, ...]
    tpot: float | None


def timing(record: RequestRecord) -> Timing | None:
    """Latencies of one request, or None when it failed or never produced any output."""
    if record.error is not None:
        return None
    times = [chunk.at for chunk in record.chunks if chunk.output]
    if not times:
        return None
    ttft, e2el = times[0] - record.sent, times[-1] - record.sent
    tokens = record.completion_tokens or 0
    tpot = (e2el - ttft) / (tokens - 1) if tokens > 1 else None
    gaps = tuple(after - before for before, after in pairwise(times))
    return Timing(ttft, e2el, gaps, tpot)


@dataclass(frozen=True)
class Run:
    """All requests of one run, with the derived timings (same order; None = failed)."""

    records: tuple[RequestRecord, ...]
    timings: tuple[Timing | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Derive the timings once."""
        object.__setattr__(self, "timings", tuple(timing(record) for record in self.records))

    def and_then(self, more: Run) -> Run:
        """This run and one after it, as one."""
        return Run(self.records + more.records)

    @property
    def completed(self) -> list[Timing]:
        """Timings of the requests that completed."""
        return [item for item in self.timings if item is not None]

    @property
    def errors(self) -> list[str]:
        """One line for each request that did not complete."""
        return [
            record.error or "the answer had no output"
            for record, item in zip(self.records, self.timings, strict=True)
            if item is None
        ]

    @property
    def duration(self) -> float:
        """Seconds from the first scheduled sending to the end of the last request."""
        starts = [record.scheduled for record in self.records]
        ends = [_end(record) for record in self.records]
        return max(ends) - min(starts) if starts else 0.0

    def series(self) -> dict[str, list[float]]:
        """Each metric's samples in milliseconds: per request, ITL per gap."""
        done = self.completed
        return {
            "ttft": [item.ttft * 1000 for item in done],
            "tpot": [item.tpot * 1000 for item in done if item.tpot is not None],
            "itl": [gap * 1000 for item in done for gap in item.gaps],
            "e2el": [item.e2el * 1000 for item in done],
        }

    def queued(self) -> dict[str, list[float]]:
        """What waiting in the client did to completed requests, in milliseconds each."""
        pairs = zip(self.records, self.timings, strict=True)
        done = [(record.sent - record.scheduled, item) for record, item in pairs if item]
        return {
            "client_queue_time": [late * 1000 for late, _ in done],
            "e2el_including_client_queue": [(late + item.e2el) * 1000 for late, item in done],
        }


def summary(run: Run, objective: Objective) -> dict[str, object]:
    """The run under `vllm bench serve`'s key names, plus confidence intervals and notes.

    Keys whose value cannot be known are null, and `p99_note`/`p95_note` say why.
    """
    good = sum(objective.met_by(item) for item in run.completed)
    per_second = 1 / run.duration if run.duration > 0 else 0.0
    totals = _tokens(run, "prompt_tokens"), _tokens(run, "completion_tokens")
    result: dict[str, object] = {
        "num_prompts": len(run.records),
        "completed": len(run.completed),
        "failed": len(run.records) - len(run.completed),
        "duration": run.duration,
        "total_input_tokens": totals[0],
        "total_output_tokens": totals[1],
        "request_throughput": len(run.completed) * per_second,
        "request_goodput": good * per_second,
        "goodput_share": good / len(run.records) if run.records else 0.0,
        "late_share": late_share(run),
        "goodput_share_ci95": list(proportion(good, len(run.records))),
        "output_throughput": totals[1] * per_second,
        "total_token_throughput": sum(totals) * per_second,
        "tokens_per_chunk": tokens_per_chunk(run),
        "coalesced_share": coalesced_share(run),
    }
    series = run.series()
    for name, values in {**series, **run.queued()}.items():
        result.update(statistics(name, values))
    result["samples"] = {name: len(series[name]) for name in METRICS}
    result["ci95"] = _intervals(series)
    result["p95_note"] = note(len(series["ttft"]), 95)
    result["p99_note"] = note(len(series["ttft"]), 99)
    return result


def statistics(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """mean, median, std, max and percentiles of one metric, keyed `p50_<name>_ms` and so on."""
    if not values:
        keys = ("mean", "median", "std", "max", *(f"p{percent}" for percent in PERCENTS))
        return {f"{key}_{name}_ms": None for key in keys}
    result: dict[str, float | None] = {
        f"mean_{name}_ms": mean(values),
        f"median_{name}_ms": percentile(values, 50),
        f"std_{name}_ms": deviation(values),
        f"max_{name}_ms": max(values),
    }
    for percent in PERCENTS:
        stated = percent != 99 or carries(len(values), percent)
        result[f"p{percent}_{name}_ms"] = percentile(values, percent) if stated else None
    return result


def tokens_per_chunk(run: Run) -> float | None:
    """Tokens (from usage) for each chunk with output; None = no data.

    Well above 1 means speculative decoding, a stream interval, or merging on the way: ITL then
    measures chunks, and only TPOT compares with other runs.
    """
    chunks = sum(len(item.gaps) + 1 for item in run.completed)
    return _tokens(run, "completion_tokens") / chunks if chunks else None


def late_share(run: Run) -> float | None:
    """Share of completed requests that took more than twice the median E2E; None = no data."""
    values = [item.e2el for item in run.completed]
    if not values:
        return None
    usual = percentile(values, 50)
    return sum(value > LATE * usual for value in values) / len(values)


def coalesced_share(run: Run) -> float | None:
    """Share of gaps under 0.1 ms: near 1 means that chunks came together, not as produced."""
    gaps = [gap for item in run.completed for gap in item.gaps]
    return sum(gap < COALESCED_S for gap in gaps) / len(gaps) if gaps else None


def schedule_delay(records: Iterable[RequestRecord]) -> dict[str, float | None]:
    """P50, P99 and maximum of sent minus scheduled, in ms (maximum because n is small)."""
    return _spread([(record.sent - record.scheduled) * 1000 for record in records])


def connect_delay(records: Iterable[RequestRecord]) -> dict[str, float | None]:
    """P50, P99 and maximum of the connections' set-up, in ms, as far as they were made."""
    made = [(record.connected, record.sent) for record in records]
    return _spread([(at - sent) * 1000 for at, sent in made if at is not None])


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"p50": None, "p99": None, "max": None}
    return {"p50": percentile(values, 50), "p99": percentile(values, 99), "max": max(values)}


def _intervals(series: Mapping[str, Sequence[float]]) -> dict[str, list[float | None]]:
    return {
        f"p{percent}_{name}_ms": list(interval(series[name], percent))
        for name in METRICS
        for percent in (50, 95)
        if series[name]
    }


def _tokens(run: Run, which: str) -> int:
    """Sum of a usage count over completed requests."""
    pairs = zip(run.records, run.timings, strict=True)
    return sum(getattr(record, which) or 0 for record, item in pairs if item is not None)


def _end(record: RequestRecord) -> float:
    last = record.chunks[-1].at if record.chunks else record.sent
    return max(last, record.ended or last)
