"""The smoke test's verdict: pass, fail or invalid, with its reasons. Pure.

Order: a fault of the *service* (errors, a wrong answer) is a failure whatever the client did;
then a measurement that cannot be trusted is "invalid"; then the numbers meet the objective.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from b200kit.node.client import goodput
from b200kit.node.client.engine_metrics import ServerFigures
from b200kit.node.client.formulas import Run, coalesced_share
from b200kit.node.client.golden.replicas import Golden
from b200kit.node.client.low_load import LowLoad
from b200kit.node.client.percentiles import percentile
from b200kit.node.state.serving import Objective
from b200kit.node.state.view import Unmeasured

QUEUED = 0.3
"""Share of the servers' TTFT in their queue above which paths cannot be compared (inferred)."""


@dataclass(frozen=True)
class ClientLimits:
    """Beyond these the client, not the server, may have made the numbers.

    needs_run_delay: False where the system has no such reading; then only the loop's lag counts.
    """

    run_delay_share: float = 0.05
    loop_lag_ms: float = 10.0
    loop_stop_ms: float = 250.0
    schedule_delay_ms: float = 50.0
    coalesced_share: float = 0.5
    needs_run_delay: bool = True

    def times(self, factor: float) -> ClientLimits:
        """The limits where waiting for a CPU may last *factor* times as long."""
        return replace(
            self,
            run_delay_share=min(1.0, self.run_delay_share * factor),
            loop_lag_ms=self.loop_lag_ms * factor,
            loop_stop_ms=self.loop_stop_ms * factor,
            schedule_delay_ms=self.schedule_delay_ms * factor,
            coalesced_share=1.0 - (1.0 - self.coalesced_share) / factor,
        )


@dataclass(frozen=True)
class ClientHealth:
    """How the measuring process itself fared during the run.

    run_delay_ms: time it was runnable but had no CPU (/proc/self/schedstat); None = not readable.
    wall_ms: length of the observation. loop_lag_ms: oversleep of the event loop's 5 ms sampler.
    """

    run_delay_ms: float | None
    wall_ms: float
    loop_lag_ms: tuple[float, ...]
    scheduler: str

    @property
    def run_delay_share(self) -> float | None:
        """Run delay as a share of the wall time."""
        if self.run_delay_ms is None or self.wall_ms <= 0:
            return None
        return self.run_delay_ms / self.wall_ms

    @property
    def lag_max_ms(self) -> float | None:
        """The longest time for which the event loop stood still; None without samples."""
        return max(self.loop_lag_ms, default=None)

    @property
    def lag_p99_ms(self) -> float | None:
        """P99 of the event loop's lag; None without samples."""
        return percentile(self.loop_lag_ms, 99) if self.loop_lag_ms else None

    def starved(self, limits: ClientLimits) -> list[str]:
        """Why the client counts as starved; empty when it does not."""
        reasons = []
        share, lag = self.run_delay_share, self.lag_p99_ms
        if share is None:
            if limits.needs_run_delay:
                reasons.append("client starved? its run delay could not be read")
        elif share > limits.run_delay_share:
            reasons.append(
                f"client starved: it waited {self.run_delay_ms:.0f} ms for a CPU in"
                f" {self.wall_ms:.0f} ms ({share:.0%}, limit {limits.run_delay_share:.0%});"
                " give it a CPU of its own or SCHED_RR"
            )
        if lag is not None and lag > limits.loop_lag_ms:
            reasons.append(
                f"client starved: its event loop ran {lag:.1f} ms late at P99"
                f" (limit {limits.loop_lag_ms:g} ms)"
            )
        if (self.lag_max_ms or 0.0) > limits.loop_stop_ms:
            reasons.append(
                f"client starved: its event loop stood still for {self.lag_max_ms:.0f} ms"
                f" (limit {limits.loop_stop_ms:g} ms): chunks of that time were stamped late"
            )
        return reasons

    def figures(self, limits: ClientLimits, cpus: str) -> ClientFigures:
        """As a result keeps it."""
        return ClientFigures(
            _or_unmeasured(self.run_delay_ms, "schedstat not readable"),
            _or_unmeasured(self.run_delay_share, "schedstat not readable"),
            _or_unmeasured(self.lag_p99_ms, "no samples"),
            _or_unmeasured(self.lag_max_ms, "no samples"),
            self.scheduler,
            bool(self.starved(limits)),
            cpus,
        )


@dataclass(frozen=True)
class ClientFigures:
    """How the client fared: its wait for a CPU and its event loop's lag, its priority and CPUs."""

    run_delay_ms: Unmeasured | float
    run_delay_share: Unmeasured | float
    loop_lag_ms_p99: Unmeasured | float
    loop_lag_ms_max: Unmeasured | float
    scheduler: str
    starved: bool
    cpus: str


VerdictWord = Literal["pass", "fail", "invalid"]
STATUS: dict[VerdictWord, int] = {"pass": 0, "fail": 1, "invalid": 2}
"""What a command exits with."""


@dataclass(frozen=True)
class Judgement:
    """The verdict word and, unless it is "pass", why."""

    verdict: VerdictWord
    reasons: tuple[str, ...]


def judge(
    paths: Mapping[str, Run],
    objective: Objective,
    health: ClientHealth,
    *,
    correctness: tuple[str, ...] = (),
    server: ServerFigures | None = None,
    gateway_limit_ms: float = 50.0,
    limits: ClientLimits | None = None,
    low_load: LowLoad | None = None,
    any_load: bool = False,
    golden: Golden | None = None,
) -> Judgement:
    """Judge a smoke run. `paths` maps "gateway" and "direct-N" to their runs.

    correctness: what the correctness check found wrong. server: the servers' own numbers over the
    gateway run; its mean ITL shows merged chunks.
    low_load: where given, strain, a stall and a slow replica are faults of the servers.
    any_load: one load of a sweep, which weighs the share of good requests itself.
    golden: what the replicas answered to the golden prompts, where they were asked.
    """
    limits, server = limits or ClientLimits(), server or ServerFigures()
    answers = golden or Golden({}, 0)
    wrong = [*correctness, *answers.wrong, *_service_faults(paths)]
    if wrong:
        return Judgement("fail", tuple(wrong))
    doubts = [*health.starved(limits), *_late(paths, limits)]
    if doubts:
        return Judgement("invalid", tuple(doubts))
    found = _coalesced(paths, limits, server)
    missed = [
        *goodput.faults(_main(paths), objective, any_load),
        *_gateway(paths, gateway_limit_ms, server, limits),
        *answers.drifted,
        *(low_load.faults(paths, server) if low_load else ()),
    ]
    few = [answers.doubt] if answers.doubt else []
    few += [] if any_load else goodput.doubts(_main(paths), objective)
    few += low_load.doubts(paths) if low_load else ()
    passed = Judgement("invalid", tuple(few)) if few else Judgement("pass", ())
    found = found or (Judgement("fail", tuple(missed)) if missed else passed)
    others = server.served_meanwhile if found.verdict == "fail" else ""
    return Judgement("invalid", (others, *found.reasons)) if others else found


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


def _main(paths: Mapping[str, Run]) -> Run:
    return paths.get("gateway") or next(iter(paths.values()))


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


def _or_unmeasured(value: float | None, reason: str) -> Unmeasured | float:
    return Unmeasured(reason) if value is None else value
