"""The smoke test of a HostRecord in words: latencies, load, answers, conditions, GPUs during it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from b200kit.node.client.golden.replicas import GoldenResult
from b200kit.node.latency.gpu_samples import NUMBERS, REASONS, slowed_by
from b200kit.node.lib.documents import understood
from b200kit.report.document import (
    Pairs,
    Unmeasured,
    clean,
    duration,
    integer,
    items,
    mapping,
    milliseconds,
    number,
    read,
    show,
    unread,
)
from b200kit.report.html.figure import Table

METRICS = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2el": "E2E"}
PERCENTILES = ("p50", "p95", "p99")
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
_OF_PROMPTS = ("prefix_hit_rate", "spec_acceptance_rate")
"""What a server's figure is worth is decided by what was sent."""
_GPU_HEAD = ("GPU", "looks", "SM clock, MHz", "power, W", "temperature, \u00b0C", "slowed by")


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """One latency as text in ms: maximum, percentiles, their 95 % intervals, and its formula."""

    key: str
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


def latency_of(host: object) -> ShownLatency:
    """Return the latency of a HostRecord; percentiles that n cannot carry stand as ``-``."""
    smoke = read(host, "smoke")
    if not mapping(smoke):
        return ShownLatency(unread(smoke, "no smoke test was run"))
    rows = tuple(_row(smoke, key) for key in METRICS)
    age, at = number(read(host, "smoke_age_s")), read(smoke, "taken_at")
    when = "" if isinstance(at, Unmeasured) or not at else f" at {show(at)}"
    ago = "" if age is None else f"{duration(age)} ago"
    return ShownLatency(
        stand_in=read(smoke, "conditions", "stand_in") is True,
        verdict=show(read(smoke, "verdict")),
        reasons=tuple(map(show, items(read(smoke, "reasons")))),
        rows=rows,
        notes=tuple(_notes(smoke, rows)),
        load=tuple(_load(smoke)),
        age=f"measured {ago}{when}, not in this run" if ago else f"measured in this run{when}",
    )


def _row(smoke: object, key: str) -> LatencyRow:
    names = [f"{percent}_{key}_ms" for percent in PERCENTILES]
    largest, *cells = (
        str(value) if isinstance(value, Unmeasured) else milliseconds(number(value))
        for value in (read(smoke, name) for name in (f"max_{key}_ms", *names))
    )
    intervals = tuple(_interval(read(smoke, "ci95", name)) for name in names)
    return LatencyRow(key, METRICS[key], largest, tuple(cells), intervals, formula(smoke, key))


def _interval(value: object) -> str:
    """Return a 95 % interval as ``38.9 to 43.0``; a bound that n cannot give stands as ``?``."""
    if not isinstance(value, list) or len(value) != 2:
        return ""
    return " to ".join("?" if v is None else milliseconds(v) for v in map(number, value))


def formula(smoke: object, key: str) -> str:
    """Return the formula that the smoke test states for a metric."""
    stated = mapping(read(smoke, "formulas"))
    names = {name.lower().removesuffix("_ms"): text for name, text in stated.items()}
    found = names.get(key, names.get(METRICS.get(key, "").lower()))
    return "unmeasured: formula not in the record" if found is None else show(found)


def _notes(smoke: object, rows: tuple[LatencyRow, ...]) -> Iterator[str]:
    """Yield why a percentile is not printed, or how far a printed one can be trusted."""
    given = [read(smoke, f"{percent}_note") for percent in ("p95", "p99")]
    notes = [clean(note) for note in given if isinstance(note, str) and note.strip()]
    yield from dict.fromkeys(notes)
    if not notes and any("-" in row.cells for row in rows):
        yield f"-: n = {show(read(smoke, 'completed'))} requests cannot carry this percentile"


def _load(smoke: object) -> Iterator[tuple[str, str]]:
    """Yield n, rate, tokens, and what the answers were, as (name, text)."""

    def figure(key: str, unit: str = "req/s") -> str:
        value = read(smoke, key)
        found = number(value)
        return show(value) if found is None else f"{found:.4g} {unit}"

    said = {key: show(read(smoke, key)) for key in (
        "completed", "num_prompts", "failed", "total_input_tokens", "total_output_tokens",
    )}  # fmt: skip
    took = number(read(smoke, "duration"))
    of = f"{said['completed']} of {said['num_prompts']} completed, {said['failed']} failed"
    yield "requests (n)", of
    yield "rate", f"{figure('request_rate')} offered"
    yield "throughput", figure("request_throughput")
    yield "goodput", figure("request_goodput")
    yield "met the objective", goodput_share(smoke)
    yield "tokens", f"{said['total_input_tokens']} in, {said['total_output_tokens']} out"
    yield "output", figure("output_throughput", "tokens/s")
    yield "took", show(read(smoke, "duration")) if took is None else duration(took)
    yield from _answers(read(smoke, "golden"))


def goodput_share(smoke: object) -> str:
    """Return the share of requests that met the objective, with its 95 % interval if stated."""
    share = number(read(smoke, "goodput_share"))
    if share is None:
        return "unmeasured"
    ends = [number(end) for end in items(read(smoke, "goodput_share_ci95"))]
    of = " to ".join(f"{100 * end:.3g}" for end in ends if end is not None)
    return f"{100 * share:.3g} %" + (f" ({of})" if of else "")


def samples(smoke: object) -> str:
    """Return n of the smoke test for a caption, such as ``n = 240``."""
    n = integer(read(smoke, "completed"))
    return "n unmeasured" if n is None else f"n = {n}"


def _answers(golden: object) -> Iterator[tuple[str, str]]:
    """Yield what the golden answers came to: beside the reference, and by replica."""
    found = understood(GoldenResult, golden)
    if found is None:
        yield "answers", unread(golden, "nothing was recorded")
        return
    if found.reference:
        yield "answers", f"{show(found.reference.outcome)} ({show(found.reference.why)})"
    else:
        doubt = found.doubt or "they were not compared with the reference"
        yield "answers", f"unmeasured: {show(doubt)}"
    for name, one in sorted(found.replicas.items()):
        apart = f"beside most replicas, largest distance {one.nats:.3g} nats"
        more = f"; {show(one.why)}" if one.why else ""
        yield f"answers of {show(name)}", f"{one.outcome.word} {apart}{more}"


def conditions_line(smoke: object) -> str:
    """Return the conditions in one line for a terminal, in the order a reader asks for them."""
    given = mapping(read(smoke, "conditions"))
    sides = (
        [f"{show(read(given, f'{side}_{kind}'))} {kind}" for kind in ("requested", "measured")]
        for side in ("isl", "osl")
    )
    model, engine = (show(given.get(key, f"{key} unmeasured")) for key in ("model", "engine"))
    rest = ("arrival", "seed", "warmups", "max_num_seqs")
    more = (f"{key.replace('_', ' ')} {show(read(given, key))}" for key in rest)
    sent, got = map("/".join, sides)
    return "; ".join([f"{model} on {engine}", f"{sent} tokens in, {got} out", *more])


def conditions(smoke: object) -> Pairs:
    """Return every condition of the measurement, to repeat it, the usual ones first."""
    given = mapping(read(smoke, "conditions"))
    known = [key for key in _CONDITIONS if key in given]
    return [_named(key, given[key]) for key in dict.fromkeys([*known, *given])]


def instruments(smoke: object) -> Pairs:
    """Return what the client and the server reported of themselves during the measurement."""
    prompts = show(mapping(read(smoke, "conditions")).get("prompts", "prompts unmeasured"))
    rows = []
    for who, key in (
        ("client", "client"),
        ("schedule delay", "schedule_delay_ms"),
        ("server", "server"),
    ):
        found = mapping(read(smoke, key))
        for name, value in [(name, read(found, name)) for name in found] or [
            ("", read(smoke, key))
        ]:
            words, text = _named(name, value)
            unit = " (ms)" if key == "schedule_delay_ms" else ""
            beside = f" ({prompts})" if name in _OF_PROMPTS else ""
            rows.append((f"{who} {words}{unit}".rstrip(), text + beside))
    return [*rows, ("tokens per chunk", show(read(smoke, "tokens_per_chunk")))]


def _named(key: str, value: object) -> tuple[str, str]:
    """A key and its value as a person writes them: shares in percent, units beside the name."""
    share = number(value)
    if key.endswith("_share") and share is not None:
        return key.replace("_", " "), f"{100 * share:.2g} %"
    name, unit = next(
        ((key.removesuffix(f"_{u}"), f" ({u})") for u in ("ms", "s") if key.endswith(f"_{u}")),
        (key, ""),
    )
    return _CONDITIONS.get(key, name.replace("_", " ") + unit), show(value)


def paths(smoke: object) -> list[tuple[str, list[str]]]:
    """Return the same latencies by path (gateway, direct), as (path, cells)."""
    return [
        (
            show(name),
            [
                " / ".join(milliseconds(number(read(found, f"{p}_{key}_ms"))) for p in PERCENTILES)
                for key in METRICS
            ],
        )
        for name, found in mapping(read(smoke, "paths")).items()
    ]


def gpus_during(smoke: object) -> tuple[str, Table | None]:
    """Return why nothing is known of the GPUs, or "" and their table: least, median and most."""
    found = read(smoke, "gpus")
    if not items(found):
        return unread(found, "no GPU was looked at"), None
    rows = tuple(
        (show(read(gpu, "index")), show(read(gpu, "samples")),
         *(_ends(read(gpu, key), 1000.0 if key.endswith("_mw") else 1.0) for key in NUMBERS),
         _slowed(read(gpu, REASONS)))
        for gpu in items(found)
    )  # fmt: skip
    return "", Table(_GPU_HEAD, rows, "each GPU during the load: least / median / most")


def _ends(value: object, scale: float) -> str:
    if isinstance(value, Unmeasured):
        return str(value)
    ends = [number(read(value, key)) for key in ("min", "median", "max")]
    return " / ".join("-" if end is None else f"{end / scale:.4g}" for end in ends)


def _slowed(value: object) -> str:
    reasons = integer(value)
    return show(value) if reasons is None else ", ".join(slowed_by(reasons)) or "nothing"
