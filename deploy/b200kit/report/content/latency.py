"""The smoke test of a HostRecord in words: latencies, load, answers, conditions, GPUs during it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from b200kit.node.client.formulas import Ends, PathFigures
from b200kit.node.client.smoke_result import Extent, SmokeConditions, SmokeResult
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.clock_reasons import told_by
from b200kit.report.document import (
    Pairs,
    Unmeasured,
    duration,
    milliseconds,
    number,
    read,
    show,
    structured,
)
from b200kit.report.html.figure import Table
from b200kit.report.names import METRICS

STAND_IN = "STAND-IN ENGINE"
STAND_IN_WHY = "not vLLM on a GPU: these figures show the road, not the node's speed"
_CONDITIONS = {
    "model": "model", "engine": "engine", "stand_in": "stand-in engine", "arrival": "arrival",
    "seed": "seed", "cache_salt": "cache salt", "isl_requested": "tokens in, requested",
    "isl_measured": "tokens in, measured", "osl_requested": "tokens out, requested",
    "osl_measured": "tokens out, measured", "prompts": "prompts", "warmups": "warmups",
    "max_num_seqs": "sequences at once", "max_model_len": "longest sequence (tokens)",
    "max_num_batched_tokens": "tokens in a batch", "server_ages_s": "age of each engine (s)",
}  # fmt: skip
"""The usual conditions of a measurement first, in words."""
_UNIT = re.compile(r"_(ms|s)(?=_|$)")
_OF_PROMPTS = ("prefix_hit_rate", "spec_acceptance_rate")
"""What a server's figure is worth is decided by what was sent."""
_GPU_HEAD = ("GPU", "samples", "SM clock, MHz", "power, W", "temperature, \u00b0C", "slowed by")


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """One latency as text in ms: maximum, percentiles, their 95 % intervals, and its formula."""

    name: str
    largest: str
    cells: tuple[str, ...]
    intervals: tuple[str, ...]
    formula: str


@dataclass(frozen=True, slots=True)
class ShownLatency:
    """All about one smoke test; `why` is set, and nothing else, where there is none."""

    why: str = ""
    stand_in: bool = False
    verdict: str = ""
    reasons: tuple[str, ...] = ()
    rows: tuple[LatencyRow, ...] = ()
    notes: tuple[str, ...] = ()
    load: tuple[tuple[str, str], ...] = ()
    age: str = ""


def smoke_of(host: object) -> Unmeasured | SmokeResult:
    """Return the smoke test of a HostRecord, or why there is none."""
    return structured(SmokeResult, read(host, "smoke"), "no smoke test was run")


def main_of(host: object) -> Unmeasured | PathFigures:
    """Return the figures of its main path alone."""
    return structured(PathFigures, read(host, "smoke", "main"))


def conditions_of(host: object) -> Unmeasured | SmokeConditions:
    """Return its conditions alone."""
    return structured(SmokeConditions, read(host, "smoke", "conditions"))


def is_stand_in(host: object) -> bool:
    """Say whether the latency was measured on a stand-in engine."""
    found = conditions_of(host)
    return not isinstance(found, Unmeasured) and found.stand_in


def latency_of(host: object, smoke: Unmeasured | SmokeResult) -> ShownLatency:
    """Return the latency of a HostRecord; percentiles that n cannot carry stand as ``-``."""
    if isinstance(smoke, Unmeasured):
        return ShownLatency(str(smoke))
    age = number(read(host, "smoke_age_s"))
    ago = "in this run" if age is None else f"{duration(age)} ago"
    return ShownLatency(
        stand_in=smoke.conditions.stand_in,
        verdict=smoke.verdict,
        reasons=smoke.reasons,
        rows=tuple(_row(smoke, key) for key in METRICS),
        notes=tuple(dict.fromkeys(filter(None, (smoke.main.p95_note, smoke.main.p99_note)))),
        load=tuple(_load(smoke)),
        age=f"measured {ago} at {smoke.taken_at}"
        + (", not in this run" if age is not None else ""),
    )


def _row(smoke: SmokeResult, key: str) -> LatencyRow:
    one = smoke.main.latency(key)
    intervals = (_interval(one.p50_ci95_ms), _interval(one.p95_ci95_ms), "")
    cells, largest = percentiles(smoke.main, key), milliseconds(one.max_ms)
    return LatencyRow(METRICS[key], largest, cells, intervals, formula(smoke, key))


def percentiles(path: PathFigures, key: str) -> tuple[str, ...]:
    """P50, P95 and P99 of a latency as text in ms."""
    one = path.latency(key)
    return tuple(map(milliseconds, (one.p50_ms, one.p95_ms, one.p99_ms)))


def _interval(ends: Ends | None) -> str:
    """Return a 95 % interval as ``38.9 to 43.0``; a bound that n cannot give stands as ``?``."""
    return " to ".join("?" if end is None else milliseconds(end) for end in ends or ())


def formula(smoke: SmokeResult, key: str) -> str:
    """Return the formula that the smoke test states for a metric."""
    return smoke.formulas.get(key, "unmeasured: formula not in the record")


def _load(smoke: SmokeResult) -> Iterator[tuple[str, str]]:
    """Yield n, rate, tokens, and what the answers were, as (name, text)."""
    main, rate = smoke.main, smoke.load.rate
    of = f"{main.completed} of {main.num_prompts} completed, {main.failed} failed"
    yield "requests (n)", of
    yield "rate", "closed loop" if rate is None else f"{rate:.4g} req/s offered"
    yield "throughput", f"{main.request_throughput:.4g} req/s"
    yield "goodput", f"{main.request_goodput:.4g} req/s"
    yield "met the objective", goodput_share(main)
    yield "tokens", f"{main.total_input_tokens} in, {main.total_output_tokens} out"
    yield "output", f"{main.output_throughput:.4g} tokens/s"
    yield "took", duration(main.duration)
    yield from _answers(smoke)


def goodput_share(main: Unmeasured | PathFigures) -> str:
    """Return the share of requests that met the objective, with its 95 % interval."""
    if isinstance(main, Unmeasured):
        return "unmeasured"
    of = " to ".join(f"{100 * end:.3g}" for end in main.goodput_share_ci95)
    return f"{100 * main.goodput_share:.3g} % ({of})"


def _answers(smoke: SmokeResult) -> Iterator[tuple[str, str]]:
    """Yield what the golden answers came to: beside the reference, and by replica."""
    found = smoke.golden
    if isinstance(found, Unmeasured):
        yield "answers", str(found)
        return
    if found.reference:
        yield "answers", f"{found.reference.outcome} ({found.reference.why})"
    else:
        doubt = found.doubt or "they were not compared with the reference"
        yield "answers", f"unmeasured: {doubt}"
    for name, one in sorted(found.replicas.items()):
        apart = f"beside most replicas, largest distance {one.nats:.3g} nats"
        more = f"; {one.why}" if one.why else ""
        yield f"answers of {name}", f"{one.outcome.word} {apart}{more}"


def conditions_line(smoke: SmokeResult) -> str:
    """Return the conditions in one line for a terminal, in the order a reader asks for them."""
    of, load = smoke.conditions, smoke.load
    sides = ((load.isl_requested, of.isl_measured), (load.osl_requested, of.osl_measured))
    sent, got = (f"{asked} requested/{_shown(counted)} measured" for asked, counted in sides)
    rest = f"seed {load.seed}; warmups {load.warmups}"
    rest += "" if of.max_num_seqs is None else f"; max num seqs {show(of.max_num_seqs)}"
    where = f"{of.model} on {show(of.engine or of.engine_version)}"
    return f"{where}; {sent} tokens in, {got} out; arrival {load.arrival}; {rest}"


def _shown(value: object) -> str:
    return show(unstructure(value))


def conditions(smoke: Unmeasured | SmokeResult) -> Pairs:
    """Return every condition of the measurement, to repeat it, the usual ones first."""
    if isinstance(smoke, Unmeasured):
        return []
    given = {**unstructure(smoke.conditions), **unstructure(smoke.load)}
    known = [key for key in _CONDITIONS if key in given]
    return [_named(key, given[key]) for key in dict.fromkeys([*known, *given])]


def instruments(smoke: Unmeasured | SmokeResult) -> Pairs:
    """Return what the client and the server reported of themselves during the measurement."""
    if isinstance(smoke, Unmeasured):
        return []
    rows = [(f"client {words}", text) for words, text in _each(smoke.client)]
    delays = unstructure(smoke.schedule_delay_ms).items()
    rows += [(f"schedule delay {words} (ms)", milliseconds(number(ms))) for words, ms in delays]
    beside = f" ({smoke.load.prompts})"
    for key, value in unstructure(smoke.server).items():
        words, text = _named(key, value)
        rows.append((f"server {words}", text + (beside if key in _OF_PROMPTS else "")))
    return [*rows, ("tokens per chunk", show(smoke.main.tokens_per_chunk))]


def _each(document: object) -> Pairs:
    return [_named(key, value) for key, value in unstructure(document).items()]


def _named(key: str, value: object) -> tuple[str, str]:
    """A key and its value as a person writes them: shares in percent, units beside the name."""
    count, value = number(value), read(value)
    if key.endswith("_share") and count is not None:
        return key.replace("_", " "), f"{100 * count:.2g} %"
    name, unit = _UNIT.sub("", key).replace("_", " "), _UNIT.search(key)
    text = milliseconds(count) if unit and unit[1] == "ms" and count is not None else show(value)
    return _CONDITIONS.get(key, f"{name} ({unit[1]})" if unit else name), text


def paths(smoke: Unmeasured | SmokeResult) -> list[tuple[str, list[str]]]:
    """Return the same latencies by path (gateway, direct), as (path, cells)."""
    if isinstance(smoke, Unmeasured):
        return []
    return [
        (name, [" / ".join(percentiles(path, key)) for key in METRICS])
        for name, path in smoke.paths.items()
    ]


def gpus_during(smoke: Unmeasured | SmokeResult) -> tuple[str, Table | None]:
    """Return why nothing is known of the GPUs, or "" and their table: least, median and most."""
    found = smoke if isinstance(smoke, Unmeasured) else smoke.gpus
    if isinstance(found, Unmeasured):
        return str(found), None
    rows = tuple(
        (str(gpu.index), str(gpu.samples), _ends(gpu.sm_clock_mhz), _ends(gpu.power_usage_mw, 1000),
         _ends(gpu.temperature_c), _slowed(gpu.clocks_event_reasons))
        for gpu in found
    )  # fmt: skip
    return "", Table(_GPU_HEAD, rows, "each GPU during the load: least / median / most")


def _ends(value: Unmeasured | Extent, scale: float = 1) -> str:
    if isinstance(value, Unmeasured):
        return str(value)
    return " / ".join(f"{end / scale:.4g}" for end in (value.min, value.median, value.max))


def _slowed(reasons: Unmeasured | int) -> str:
    if isinstance(reasons, Unmeasured):
        return str(reasons)
    return ", ".join(told_by(reasons)) or "nothing"
