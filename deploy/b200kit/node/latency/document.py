"""A smoke run that is over, as the result that is kept of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from b200kit.node.client.formulas import (
    FORMULAS,
    PathFigures,
    RequestRecord,
    Run,
    Timing,
    connect_delay,
    schedule_delay,
    summary,
)
from b200kit.node.client.judgement import SmokeEvidence, gateway_overhead, judge
from b200kit.node.client.smoke_result import (
    GpuFigures,
    RequestFigures,
    SentLoad,
    SmokeConditions,
    SmokeResult,
    TokenCounts,
)
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.view import Unmeasured

_NOT_HERE = Unmeasured("the GPUs are not on this machine")
MOST_REQUESTS = 2000
"""Entries of `requests`: what a report can draw, and a document can carry."""


@dataclass(frozen=True)
class SmokeRun:
    """A smoke run that is over: what its verdict rests on, and what else is kept of it.

    path: name of the main one.
    """

    taken_at: str
    path: str
    evidence: SmokeEvidence
    cpus: str
    load: SentLoad
    conditions: SmokeConditions
    gpus: Unmeasured | tuple[GpuFigures, ...] = _NOT_HERE


def result(found: SmokeRun) -> SmokeResult:
    """What is kept of it, with its verdict."""
    seen, judged = found.evidence, judge(found.evidence)
    main, objective, golden = seen.main, seen.objective, seen.golden
    direct = {name: run for name, run in seen.paths.items() if name != found.path}
    series, error = main.series(), seen.health.error(seen.limits)
    done = [record for record in main.records if record.error is None]
    return SmokeResult(
        taken_at=found.taken_at,
        verdict=judged.verdict,
        reasons=judged.reasons,
        path=found.path,
        main=summary(main, objective, error),
        direct={name: summary(run, objective, error) for name, run in direct.items()},
        gateway_overhead=gateway_overhead(seen.paths),
        replicas=seen.replicas,
        # For the report's distributions; microseconds are as fine as a reader can use.
        ttfts_ms=tuple(round(value, 3) for value in series["ttft"]),
        itls_ms=tuple(round(value, 3) for value in series["itl"]),
        requests=each(main),
        schedule_delay_ms=schedule_delay(main.records),
        connect_ms=connect_delay(main.records),
        formulas=FORMULAS,
        client=seen.health.figures(seen.limits, found.cpus),
        server=seen.server,
        gpus=found.gpus,
        golden=golden.result() if golden else Unmeasured("no golden prompt was sent"),
        load=found.load,
        conditions=replace(
            found.conditions,
            isl_measured=counts([record.prompt_tokens or 0 for record in done]),
            osl_measured=counts([record.completion_tokens or 0 for record in done]),
        ),
    )


def each(run: Run, most: int = MOST_REQUESTS) -> tuple[RequestFigures, ...]:
    """One entry a request in the order they were due, thinned out evenly to at most *most*."""
    pairs = list(zip(run.records, run.timings, strict=True))
    start = min((record.scheduled for record in run.records), default=0.0)
    thinned = pairs[:: -(-len(pairs) // most) or 1]
    return tuple(_entry(record, found, start) for record, found in thinned)


def _entry(record: RequestRecord, found: Timing | None, start: float) -> RequestFigures:
    def ms(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds * 1000, 3)

    at_s = round(record.sent - start, 6)
    if found is None:
        why = record.error or "the answer had no output"
        return RequestFigures(at_s, None, None, None, None, why)
    gap = max(found.gaps, default=None)
    return RequestFigures(at_s, ms(found.ttft), ms(found.tpot), ms(gap), ms(found.e2el), None)


def counts(tokens: Sequence[int]) -> TokenCounts | None:
    """Of each request; None when nothing completed."""
    return TokenCounts(min(tokens), sum(tokens) / len(tokens), max(tokens)) if tokens else None


def bench_figures(path: PathFigures) -> dict[str, object]:
    """Figures by the names of `vllm bench serve`, as "p50_ttft_ms"."""
    found: dict[str, object] = {}
    for name, value in unstructure(path).items():
        if not isinstance(value, dict):
            found[name] = value
            continue
        figures = {**value, "median_ms": value["p50_ms"]}
        stated = {key: one for key, one in figures.items() if key.endswith("_ms")}
        found |= {f"{key.removesuffix('_ms')}_{name}_ms": one for key, one in stated.items()}
    return found


def requests(run: Run) -> dict[str, object]:
    """One entry a request under the names of `vllm bench serve --save-detailed`, in seconds.

    `start_times` are on the client's monotonic clock, as there; a failed request has no latency
    (null, an empty list) and its cause in `errors`.
    """
    pairs = list(zip(run.records, run.timings, strict=True))
    return {
        "input_lens": [record.prompt_tokens for record, _ in pairs],
        "output_lens": [record.completion_tokens for record, _ in pairs],
        "ttfts": [found.ttft if found else None for _, found in pairs],
        "itls": [list(found.gaps) if found else [] for _, found in pairs],
        "latencies": [found.e2el if found else None for _, found in pairs],
        "start_times": [record.sent for record, _ in pairs],
        "queue_times": [record.sent - record.scheduled for record, _ in pairs],
        "errors": ["" if found else record.error or "no output" for record, found in pairs],
    }
