"""One rule for a measurement: pass, fail or invalid, with its reasons. Pure.

    fail     a wrong answer or a failed request, whatever the client did;
    invalid  the client, not the server, may have made the figures;
    fail     the share of requests within the objective: its exact 99.5 % interval lies below it;
             one replica's median is above the median of the others' by more than the margin;
             a request stood still, the gateway adds too much, the servers strain;
    invalid  not enough requests to say that none of this is so: so many more;
    pass     everything else.

The numbers of requests are fixed beforehand. How often the rule is wrong is simulated in
tests/unit/records/test_rates.py; docs/measure.md has the table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, median
from typing import Literal

from b200kit.node.client.client_health import ClientHealth, ClientLimits
from b200kit.node.client.engine_metrics import ServerFigures
from b200kit.node.client.formulas import Run, coalesced_share
from b200kit.node.client.golden.replicas import Golden
from b200kit.node.client.percentiles import percentile, proportion
from b200kit.node.state.serving import Objective
from b200kit.node.state.view import Unmeasured

VerdictWord = Literal["pass", "fail", "invalid"]
STATUS: dict[VerdictWord, int] = {"pass": 0, "fail": 1, "invalid": 2}
"""What a command exits with."""
QUEUED = 0.3
"""Share of the servers' TTFT in their queue above which paths cannot be compared (inferred)."""
_MISSED = 0.995
_LEAST_MISSED = 0.01
"""Misses that a pass leaves out where none is allowed."""
_MOST = 5000
_REACH = 3.5
"""Standard errors beyond which a difference is no chance: over 8 replicas, 1 in 500."""
# Requests that overlap share what happens to them: the variance of their median is larger than
# that of independent ones by about this (a correlation of 0.4 between neighbours; inferred).
_TOGETHER = 2.0
# Of a median against a mean; of a standard deviation against a median of distances (normal).
_OF_MEDIAN, _OF_MAD = math.sqrt(math.pi / 2), 1.4826
_FEWEST = 5
# Chunks that came together have no time between them, and a logarithm wants one.
_LEAST_MS = 0.001


@dataclass(frozen=True)
class LowLoad:
    """The limits at a load that healthy servers take at leisure.

    replica_slowdown: of one replica, as a share, that the run has to be able to find; None: they
    are not compared. stall_ms: a wait beyond the usual one.
    """

    replica_slowdown: float | None = 0.1
    stall_ms: float = 1000.0


@dataclass(frozen=True)
class SmokeEvidence:
    """All that a verdict rests on. paths: runs by name, "gateway" and "direct-N", or "url".

    correctness: what the correctness check found wrong. server: the servers' own numbers over the
    gateway run. low_load: where given, strain, a stall and a slow replica are faults of the
    servers. any_load: one load of a sweep, which weighs the share of good requests itself.
    """

    paths: Mapping[str, Run]
    objective: Objective
    health: ClientHealth
    correctness: tuple[str, ...] = ()
    server: ServerFigures = field(default_factory=ServerFigures)
    gateway_limit_ms: float = 50.0
    limits: ClientLimits = field(default_factory=ClientLimits)
    low_load: LowLoad | None = None
    any_load: bool = False
    golden: Golden | None = None

    @property
    def main(self) -> Run:
        """The run of the path that users take."""
        return self.paths.get("gateway") or next(iter(self.paths.values()), Run(()))

    @property
    def replicas(self) -> ReplicaComparison | None:
        """The replicas asked directly, against each other; None where they are not compared."""
        wanted = self.low_load.replica_slowdown if self.low_load else None
        direct = {n: run.series() for n, run in self.paths.items() if n.startswith("direct")}
        return compare(direct, wanted) if wanted and len(direct) > 1 else None


@dataclass(frozen=True)
class Judgement:
    """The verdict word and, unless it is "pass", why."""

    verdict: VerdictWord
    reasons: tuple[str, ...]


def judge(run: SmokeEvidence) -> Judgement:
    """Apply the rule of the module's head."""
    answers = run.golden or Golden({}, 0)
    if wrong := [*run.correctness, *answers.wrong, *_service_faults(run.paths)]:
        return Judgement("fail", tuple(wrong))
    if doubts := [*run.health.starved(run.limits), *_late(run.paths, run.limits)]:
        return Judgement("invalid", tuple(doubts))
    share, replicas = share_of(run.main, run.objective), run.replicas
    found = _coalesced(run.paths, run.limits, run.server)
    missed = [
        *share.faults(run.objective, run.any_load),
        *_gateway(run.paths, run.gateway_limit_ms, run.server, run.limits),
        *answers.drifted,
        *(_strain(run.server) if run.low_load else ()),
        *(stall_lines(stalls(run.paths, run.low_load.stall_ms)) if run.low_load else ()),
        *(replicas.faults() if replicas else ()),
    ]
    few = [answers.doubt] if answers.doubt else []
    few += [] if run.any_load else share.doubts(run.objective)
    few += replicas.doubts() if replicas else ()
    passed = Judgement("invalid", tuple(few)) if few else Judgement("pass", ())
    found = found or (Judgement("fail", tuple(missed)) if missed else passed)
    others = run.server.served_meanwhile if found.verdict == "fail" else ""
    return Judgement("invalid", (others, *found.reasons)) if others else found


@dataclass(frozen=True)
class GoodputShare:
    """*good* of *of* requests met the objective, of which *wanted* is a share, above 0 to 1."""

    good: int
    of: int
    wanted: float

    def interval(self, *confidence: float) -> tuple[float, float]:
        """Its exact interval, of 95 % unless asked otherwise."""
        # By the misses, which are few: the sums are short.
        low, high = proportion(self.of - self.good, self.of, *confidence)
        return 1 - high, 1 - low

    @property
    def is_missed(self) -> bool:
        """Whether it is below what is wanted, and no chance."""
        return self.interval(_MISSED)[1] < self.wanted

    @property
    def is_met(self) -> bool:
        """Whether its 95 % interval leaves out twice as many misses as are allowed."""
        return self.interval()[0] >= 1 - max(2 * (1 - self.wanted), _LEAST_MISSED)

    @property
    def needed(self) -> int | None:
        """About how many requests of which the same share is good decide; None: too many."""
        share, n = self.good / max(self.of, 1), max(self.of, 1)
        while n <= _MOST:
            found = GoodputShare(round(share * n), n, self.wanted)
            if found.is_met or found.is_missed:
                return n
            n = math.ceil(n * 1.05)
        return None

    def faults(self, objective: Objective, any_load: bool = False) -> Iterator[str]:
        """That too few met it; at any load of a sweep, whatever their number carries."""
        if self.is_missed or (any_load and self.good < self.wanted * self.of):
            yield f"objective missed: {self} met {objective} (asked: {self.wanted:.0%})"

    def doubts(self, objective: Objective) -> Iterator[str]:
        """That there are too few requests to say whether it is met, and how many more it takes."""
        if not objective.limits or self.is_met or self.is_missed:
            return
        needed = "no number that can be asked" if self.needed is None else self.needed - self.of
        yield (
            f"not enough requests: {self} met {objective}, where {self.wanted:.0%} are asked for:"
            f" about {needed} more would decide (smoke.requests, --requests)"
        )

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{self.good} of {self.of} requests ({low:.1%} to {high:.1%})"


def share_of(run: Run, objective: Objective) -> GoodputShare:
    """The share of all requests of a run; one that failed is a miss."""
    good = sum(objective.met_by(item) for item in run.completed)
    return GoodputShare(good, len(run.records), objective.share)


@dataclass(frozen=True)
class ComparedReplica:
    """A metric of one replica against the others.

    ratio: its median over the median of theirs. margin: what the ratio may be.
    """

    path: str
    metric: str
    median_ms: float
    others_ms: float
    ratio: float
    margin: float
    n: int
    slower: bool


@dataclass(frozen=True)
class ReplicaComparison:
    """Each replica against the others. finds_slowdown: that 95 of 100 such runs find; None: none.

    more: requests to each replica that are missing to find wanted_slowdown.
    """

    compared: tuple[ComparedReplica, ...]
    fewest: int
    wanted_slowdown: float
    finds_slowdown: float | None
    more: int

    @property
    def slower(self) -> list[ComparedReplica]:
        """Those that are, the slowest first."""
        return sorted((one for one in self.compared if one.slower), key=lambda one: -one.ratio)

    def faults(self) -> Iterator[str]:
        """A line for each that is slower."""
        for each in self.slower:
            yield (
                f"{each.path}: slower than the other replicas: median {each.metric.upper()}"
                f" {each.median_ms:.2f} ms against {each.others_ms:.2f} ms, {each.ratio:.2f} times"
                f" (margin {each.margin:.2f}; n = {each.n})"
            )

    def doubts(self) -> Iterator[str]:
        """That a slow replica might not have been found, and what to do."""
        if not self.more or self.slower:
            return
        finds = "no slow one" if self.finds_slowdown is None else f"one {self.finds_slowdown:.0%}"
        finds += "" if self.finds_slowdown is None else " slower"
        yield (
            f"not enough requests: {self.fewest} to each replica find {finds}, where"
            f" {self.wanted_slowdown:.0%} are asked for: about {self.more} more would"
            " (smoke.direct_requests, smoke.replica_slowdown)"
        )


Series = Mapping[str, Sequence[float]]
"""Samples in milliseconds by metric, one a completed request (`Run.series`)."""


def compare(series: Mapping[str, Series], wanted: float) -> ReplicaComparison:
    """Compare two or more replicas by path; *wanted*: a slow-down to be found, as a share.

    The margin lies halfway to it, on logarithms, or further where so few requests make more than
    that by chance. Tokens decide; where answers are of one token, the first one does.
    """
    samples = {
        metric: {
            name: [math.log(max(value, _LEAST_MS)) for value in each[metric]]
            for name, each in series.items()
        }
        for metric in ("tpot", "ttft")
        if all(len(each[metric]) >= _FEWEST for each in series.values())
    }
    half = math.log1p(wanted) / 2
    fewest = min(len(each["ttft"]) for each in series.values())
    compared: list[ComparedReplica] = []
    finds, more = None, _FEWEST - fewest
    for metric, of in samples.items():
        error = _error(list(of.values()))
        margin = max(half, _REACH * error)
        if not compared:
            power = NormalDist().inv_cdf(0.95)
            finds = math.expm1(margin + power * error)
            # In standard errors of so many requests more, the wanted one stands out.
            enough = ((_REACH + power) * error / (2 * half)) ** 2
            more = 0 if finds <= wanted else math.ceil(fewest * (enough - 1))
        compared += [_compared(name, metric, of, margin) for name in of]
    return ReplicaComparison(tuple(compared), fewest, wanted, finds, more)


def _compared(
    path: str, metric: str, of: Mapping[str, Sequence[float]], margin: float
) -> ComparedReplica:
    own = median(of[path])
    others = median(median(values) for other, values in of.items() if other != path)
    return ComparedReplica(
        path, metric, round(math.exp(own), 3), round(math.exp(others), 3),
        round(math.exp(own - others), 4), round(math.exp(margin), 4), len(of[path]),
        slower=own - others > margin,
    )  # fmt: skip


def _error(groups: Sequence[Sequence[float]]) -> float:
    """The standard error of the difference of one median from that of the others."""
    distances = [abs(value - median(group)) for group in groups for value in group]
    fewest = min(map(len, groups))
    # Of a small group the median is nearer to its members than the true one is.
    spread = _OF_MAD * median(distances) * math.sqrt(fewest / (fewest - 1))
    one = _OF_MEDIAN * spread * math.sqrt(_TOGETHER / fewest)
    others = len(groups) - 1
    return one * math.sqrt(1 + (_OF_MEDIAN**2 if others > 2 else 1) / others)


def _strain(server: ServerFigures) -> Iterator[str]:
    """What healthy, warm servers do not do."""
    if server.preemptions:
        yield (
            f"the servers preempted {server.preemptions} sequences at this low load: their KV cache"
            " is too small; lower max_num_seqs (b200 plan)"
        )
    if server.jit_warnings:
        yield (
            f"the servers compiled {server.jit_warnings} kernels while they were measured: the"
            " warm-up does not cover this load, and these times are a cold server's"
        )


@dataclass(frozen=True)
class Stall:
    """A wait of one request: seconds, and after how many chunks of its answer."""

    path: str
    request: int
    of: int
    seconds: float
    after: int

    def __str__(self) -> str:
        where = f"after {self.after} chunks" if self.after else "before the first token"
        return (
            f"{self.path}: request {self.request} of {self.of} stood still for"
            f" {self.seconds * 1000:.0f} ms {where}"
        )


def stalls(paths: Mapping[str, Run], limit_ms: float) -> list[Stall]:
    """Waits that are longer by *limit_ms* than the usual one of their kind, the longest first.

    Usual is the median over all paths: of times to the first token, and of gaps.
    """
    done = [timing for run in paths.values() for timing in run.completed]
    if not done:
        return []
    first = median(timing.ttft for timing in done)
    gap = median(gap for timing in done for gap in timing.gaps or (0.0,))
    found = [
        Stall(name, number, len(run.records), wait, after)
        for name, run in paths.items()
        for number, wait, after in _waits(run)
        if (wait - (gap if after else first)) * 1000 > limit_ms
    ]
    return sorted(found, key=lambda stall: -stall.seconds)


def _waits(run: Run) -> Iterator[tuple[int, float, int]]:
    """Request, seconds and chunks before it, of every wait."""
    for number, timing in enumerate(run.timings, 1):
        if timing:
            for after, wait in enumerate((timing.ttft, *timing.gaps)):
                yield number, wait, after


def stall_lines(found: list[Stall]) -> list[str]:
    """What a verdict says of them: the longest of each path, and how many there are."""
    paths = list(dict.fromkeys(stall.path for stall in found))
    of_path = [[stall for stall in found if stall.path == path] for path in paths]
    return [f"{each[0]} ({len(each)} such wait{'s'[: len(each) > 1]})" for each in of_path]


@dataclass(frozen=True)
class GatewayOverhead:
    """Gateway minus direct, in ms: difference of the medians; None where one is not known."""

    p50_ttft_ms: float | None
    p50_tpot_ms: float | None


def gateway_overhead(paths: Mapping[str, Run]) -> GatewayOverhead:
    """What the gateway adds."""

    def added(metric: str) -> float | None:
        through = _median(paths, metric, direct=False)
        direct = _median(paths, metric, direct=True)
        return None if through is None or direct is None else through - direct

    return GatewayOverhead(added("ttft"), added("tpot"))


def _service_faults(paths: Mapping[str, Run]) -> list[str]:
    """One line a path and kind of error, with how often it came."""
    found = []
    for name, run in paths.items():
        if not run.records:
            found.append(f"{name}: no request was sent")
        for error, times in Counter(run.errors).most_common(3):
            found.append(f"{name}: {times} of {len(run.records)} requests failed: {error}")
    return found


def _late(paths: Mapping[str, Run], limits: ClientLimits) -> list[str]:
    """Requests sent too late for an open loop to be one."""
    found = []
    for name, run in paths.items():
        delays = [(record.sent - record.scheduled) * 1000 for record in run.records]
        late = percentile(delays, 99) if delays else 0.0
        if late > limits.schedule_delay_ms:
            found.append(
                f"{name}: requests were sent {late:.0f} ms late at P99"
                f" (limit {limits.schedule_delay_ms:g} ms): not the arrival rate that was asked"
            )
    return found


def _coalesced(
    paths: Mapping[str, Run], limits: ClientLimits, server: ServerFigures
) -> Judgement | None:
    """Chunks that came together although the server made them apart."""
    server_itl_ms = server.itl_mean_ms
    shares = {name: coalesced_share(run) or 0.0 for name, run in paths.items()}
    merged = [name for name, share in shares.items() if share > limits.coalesced_share]
    if not merged or (not isinstance(server_itl_ms, Unmeasured) and server_itl_ms < 0.5):
        return None
    is_unknown = isinstance(server_itl_ms, Unmeasured)
    known = "not known" if is_unknown else f"{server_itl_ms:.1f} ms"
    worst = f"{max(shares.values()):.0%} of the gaps are under 0.1 ms while the servers' own ITL is"
    worst += f" {known}"
    if merged == ["gateway"] and len(paths) > 1:
        starved = _gateway_starved(server, limits)
        cause = f"it passes chunks on together: {starved}" if starved else "it buffers the stream"
        return Judgement("fail", (f"gateway: {cause}: {worst}",))
    return Judgement("invalid", (f"{', '.join(merged)}: chunks came together: {worst}",))


def _gateway_starved(server: ServerFigures, limits: ClientLimits) -> str | None:
    """That the gateway had no CPU, where it waited for one as long as a client must not."""
    share = server.gateway_run_delay_share
    if not share or share <= limits.run_delay_share:
        return None
    return f"HAProxy waited for a CPU {share:.0%} of the time; give it CPUs that no replica has"


def _gateway(
    paths: Mapping[str, Run], limit_ms: float, server: ServerFigures, limits: ClientLimits
) -> list[str]:
    """What the gateway adds beyond its limit; where requests queue, that is not the gateway's.

    Through the gateway more requests are sent than directly, so they meet a longer queue.
    """
    added = gateway_overhead(paths).p50_ttft_ms
    if added is None or added <= limit_ms:
        return []
    share = server.queue_share
    if share is not None and share > QUEUED:
        return [
            f"what the gateway adds is unknown: TTFT is {added:.0f} ms more than directly, but"
            f" {share:.0%} of the servers' TTFT is their queue; lower the request rate"
        ]
    cause = _gateway_starved(server, limits)
    return [
        f"gateway adds {added:.0f} ms to the median TTFT (limit {limit_ms:g} ms): "
        + (cause or "does it buffer? (HAProxy: option http-no-delay)")
        + (". The servers' queue was not measured: it may be that" if share is None else "")
    ]


def _median(paths: Mapping[str, Run], metric: str, *, direct: bool) -> float | None:
    chosen = [run for name, run in paths.items() if name.startswith("direct") is direct]
    values = [value for run in chosen for value in run.series()[metric]]
    return percentile(values, 50) if values else None
