"""From the arrival times of streamed chunks to TTFT, ITL, TPOT, E2E and goodput. Pure.

The definitions are those of `vllm bench serve` (vllm/benchmarks/lib/endpoint_request_func.py and
benchmarks/serve.py, 0.32/0.33); FORMULAS carries them in words beside every result, because other
tools use the same names for other quantities. All times are seconds on one monotonic clock;
results are milliseconds where the name ends in `_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from b200kit.node.client.percentiles import (
    carries,
    deviation,
    interval,
    mean,
    note,
    percentile,
    proportion,
)
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
Ends = tuple[float | None, float | None]
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


@dataclass(frozen=True)
class OwnError:
    """How late the client itself was, in ms: of its event loop's 5 ms sleeps.

    share: the most that it may be of a figure. A percentile that is less is not measured.
    """

    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0
    share: float = 0.1

    def measured(self, percent: int, value: float, parts: float = 1.0) -> float | None:
        """The value, or None; *parts*: samples over which one lateness is spread, as in TPOT."""
        late = {50: self.p50_ms, 99: self.p99_ms}.get(percent, self.p95_ms)
        return value if late / max(parts, 1.0) <= self.share * value else None


@dataclass(frozen=True)
class LatencyFigures:
    """One latency of a run in ms, over *n* samples; None: there is none, n does not carry it, or
    the client's own error is too large for it.

    *_ci95_ms: the percentile's 95 % interval, None at an end that n does not bound.
    """

    n: int
    mean_ms: float | None = None
    std_ms: float | None = None
    max_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    p50_ci95_ms: Ends | None = None
    p95_ci95_ms: Ends | None = None

    @classmethod
    def of(
        cls, values: Sequence[float], error: OwnError | None = None, parts: float = 1.0
    ) -> LatencyFigures:
        """The figures of samples in ms; *parts*: as in `OwnError.measured`."""
        if not values:
            return cls(0)
        own = error or OwnError()
        p50, p90, p95, p99 = (
            own.measured(percent, percentile(values, percent), parts)
            for percent in (50, 90, 95, 99)
        )
        return cls(
            len(values), mean(values), deviation(values), max(values), p50, p90, p95,
            p99 if carries(len(values), 99) else None,
            None if p50 is None else interval(values, 50),
            None if p95 is None else interval(values, 95),
        )  # fmt: skip


@dataclass(frozen=True)
class PathFigures:
    """The requests of one run, by the names of `vllm bench serve`; notes say why a P99 is null.

    client_queue_time and e2el_including_client_queue: of completed requests, as there.
    """

    num_prompts: int
    completed: int
    failed: int
    duration: float
    total_input_tokens: int
    total_output_tokens: int
    request_throughput: float
    request_goodput: float
    goodput_share: float
    goodput_share_ci95: tuple[float, float]
    late_share: float | None
    output_throughput: float
    total_token_throughput: float
    tokens_per_chunk: float | None
    coalesced_share: float | None
    ttft: LatencyFigures
    tpot: LatencyFigures
    itl: LatencyFigures
    e2el: LatencyFigures
    client_queue_time: LatencyFigures
    e2el_including_client_queue: LatencyFigures
    p95_note: str | None
    p99_note: str | None

    def latency(self, metric: str) -> LatencyFigures:
        """That of one of METRICS."""
        return {"ttft": self.ttft, "tpot": self.tpot, "itl": self.itl, "e2el": self.e2el}[metric]


def summary(run: Run, objective: Objective, error: OwnError | None = None) -> PathFigures:
    """The figures of a run; *error*: the client's own."""
    good = sum(objective.met_by(item) for item in run.completed)
    per_second = 1 / run.duration if run.duration > 0 else 0.0
    tokens_in, tokens_out = _tokens(run, "prompt_tokens"), _tokens(run, "completion_tokens")
    series, done = run.series(), max(len(run.completed), 1)
    # A token's time is of all gaps of an answer; how late requests were sent is its own subject.
    parts = {"tpot": len(series["itl"]) / done}
    latencies = {n: LatencyFigures.of(v, error, parts.get(n, 1.0)) for n, v in series.items()}
    latencies |= {name: LatencyFigures.of(values) for name, values in run.queued().items()}
    return PathFigures(
        num_prompts=len(run.records),
        completed=len(run.completed),
        failed=len(run.records) - len(run.completed),
        duration=run.duration,
        total_input_tokens=tokens_in,
        total_output_tokens=tokens_out,
        request_throughput=len(run.completed) * per_second,
        request_goodput=good * per_second,
        goodput_share=good / len(run.records) if run.records else 0.0,
        goodput_share_ci95=proportion(good, len(run.records)),
        late_share=late_share(run),
        output_throughput=tokens_out * per_second,
        total_token_throughput=(tokens_in + tokens_out) * per_second,
        tokens_per_chunk=tokens_per_chunk(run),
        coalesced_share=coalesced_share(run),
        p95_note=note(latencies["ttft"].n, 95),
        p99_note=note(latencies["ttft"].n, 99),
        **latencies,
    )


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


@dataclass(frozen=True)
class DelayFigures:
    """P50, P99 and maximum in ms (the maximum because n is small); None without a sample."""

    p50: float | None = None
    p99: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> DelayFigures:
        """Of delays in ms."""
        if not values:
            return cls()
        return cls(percentile(values, 50), percentile(values, 99), max(values))


def schedule_delay(records: Iterable[RequestRecord]) -> DelayFigures:
    """How long after it was due each request was sent."""
    return DelayFigures.of([(record.sent - record.scheduled) * 1000 for record in records])


def connect_delay(records: Iterable[RequestRecord]) -> DelayFigures:
    """How long the connections' set-up took, as far as they were made."""
    made = [(record.connected, record.sent) for record in records]
    return DelayFigures.of([(at - sent) * 1000 for at, sent in made if at is not None])


def _tokens(run: Run, which: str) -> int:
    """Sum of a usage count over completed requests."""
    pairs = zip(run.records, run.timings, strict=True)
    return sum(getattr(record, which) or 0 for record, item in pairs if item is not None)


def _end(record: RequestRecord) -> float:
    last = record.chunks[-1].at if record.chunks else record.sent
    return max(last, record.ended or last)
