"""What a smoke run found, as the document "b200kit/smoke/1" (docs/measure.md). Pure.

The keys at the top are those of `vllm bench serve` and describe the main path: the gateway where
a node is measured, the only one where a URL is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from b200kit.node.client import smoke_verdict
from b200kit.node.client.formulas import (
    FORMULAS,
    RequestRecord,
    Run,
    Timing,
    connect_delay,
    schedule_delay,
    summary,
)
from b200kit.node.client.golden.replicas import Golden
from b200kit.node.client.low_load import LowLoad
from b200kit.node.lib.documents import unstructure
from b200kit.node.lib.readings import unmeasured
from b200kit.node.state.serving import Objective

NOT_ASKED = "no golden prompt was sent"
MOST_REQUESTS = 2000
"""Entries of `requests`: what a report can draw, and a document can carry."""


@dataclass(frozen=True)
class SmokeRun:
    """A smoke run that is over.

    paths: runs by name, the main one first; none when no load was sent.
    correctness: what it found wrong. server: the servers' own numbers
    (b200kit/node/client/engine_metrics.py). request_rate: as asked, None for a closed loop.
    conditions: what a reader must know. gpus: what they did meanwhile
    (b200kit/node/latency/gpu_samples.py), or unmeasured. low_load, any_load, golden: as in
    `smoke_verdict.judge`.
    """

    taken_at: str
    paths: Mapping[str, Run]
    objective: Objective
    health: smoke_verdict.ClientHealth
    limits: smoke_verdict.ClientLimits
    correctness: tuple[str, ...]
    server: Mapping[str, object]
    gateway_limit_ms: float
    request_rate: float | None
    cpus: str
    conditions: Mapping[str, object]
    gpus: object = None
    low_load: LowLoad | None = None
    any_load: bool = False
    golden: Golden | None = None

    @property
    def main(self) -> Run:
        """The run that the keys at the top describe."""
        return next(iter(self.paths.values()), Run(()))


def document(found: SmokeRun) -> dict[str, object]:
    """The whole document, its verdict first."""
    main = found.main
    judged = smoke_verdict.judge(
        found.paths,
        found.objective,
        found.health,
        correctness=found.correctness,
        server=found.server,
        gateway_limit_ms=found.gateway_limit_ms,
        limits=found.limits,
        low_load=found.low_load,
        any_load=found.any_load,
        golden=found.golden,
    )
    series = main.series()
    return {
        "schema": smoke_verdict.SCHEMA,
        "taken_at": found.taken_at,
        "verdict": judged.verdict,
        "reasons": list(judged.reasons),
        "request_rate": "inf" if found.request_rate is None else found.request_rate,
        **summary(main, found.objective),
        # For the report's distributions; microseconds are as fine as a reader can use.
        "ttfts_ms": [round(value, 3) for value in series["ttft"]],
        "itls_ms": [round(value, 3) for value in series["itl"]],
        "requests": each(main),
        "schedule_delay_ms": schedule_delay(main.records),
        "connect_ms": connect_delay(main.records),
        "formulas": FORMULAS,
        "client": {**found.health.document(found.limits), "cpus": found.cpus},
        "server": dict(found.server),
        "gpus": found.gpus or unmeasured("the GPUs are not on this machine"),
        "gateway_overhead": smoke_verdict.gateway_overhead(found.paths),
        "paths": smoke_verdict.path_summaries(found.paths, found.objective),
        "replicas": replicas(found),
        "golden": unstructure(found.golden.result()) if found.golden else unmeasured(NOT_ASKED),
        "conditions": {**found.conditions, **measured(main.records)},
    }


def replicas(found: SmokeRun) -> dict[str, object] | None:
    """Each replica against the others; None where they were not compared."""
    compared = found.low_load.comparison(found.paths) if found.low_load else None
    return compared.document() if compared else None


def each(run: Run, most: int = MOST_REQUESTS) -> list[dict[str, object]]:
    """One entry a request in the order they were due, thinned out evenly to at most *most*.

    at_s counts from the first due sending; a request that failed has its error and no latency.
    """
    pairs = list(zip(run.records, run.timings, strict=True))
    start = min((record.scheduled for record in run.records), default=0.0)
    return [_entry(record, found, start) for record, found in pairs[:: -(-len(pairs) // most) or 1]]


def _entry(record: RequestRecord, found: Timing | None, start: float) -> dict[str, object]:
    entry: dict[str, object] = {"at_s": round(record.sent - start, 6)}
    seconds: dict[str, float | None] = dict.fromkeys(("ttft", "tpot", "itl_max", "e2el"))
    if found:
        seconds = {
            "ttft": found.ttft,
            "tpot": found.tpot,
            "itl_max": max(found.gaps, default=None),
            "e2el": found.e2el,
        }
    for name, value in seconds.items():
        entry[f"{name}_ms"] = None if value is None else round(value * 1000, 3)
    return entry | {"error": None if found else record.error or "the answer had no output"}


def measured(records: Sequence[RequestRecord]) -> dict[str, object]:
    """Prompt and answer lengths as `usage` counted them, over completed requests."""
    done = [record for record in records if record.error is None]
    return {
        "isl_measured": spread([record.prompt_tokens or 0 for record in done]),
        "osl_measured": spread([record.completion_tokens or 0 for record in done]),
    }


def spread(counts: Sequence[int]) -> dict[str, object] | None:
    """Least, mean and most of token counts; None when nothing completed."""
    if not counts:
        return None
    return {"min": min(counts), "mean": sum(counts) / len(counts), "max": max(counts)}


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
