"""The smoke test's figures as rows: four latencies at three percentiles, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from b200kit.report.content.answers import answers
from b200kit.report.document import (
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
)

METRICS = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2el": "E2E"}
PERCENTILES = ("p50", "p95", "p99")
STAND_IN = "STAND-IN ENGINE"
STAND_IN_WHY = "not vLLM on a GPU: these figures show the road, not the node's speed"
_FORMULA_NAMES = {"ttft": ("ttft",), "itl": ("itl",), "tpot": ("tpot",), "e2el": ("e2el", "e2e")}


@dataclass(frozen=True, slots=True)
class Row:
    """One latency as text in ms: maximum, percentiles, their 95 % intervals, and its formula."""

    key: str
    name: str
    largest: str
    cells: tuple[str, ...]
    intervals: tuple[str, ...]
    formula: str


@dataclass(frozen=True, slots=True)
class Latency:
    """All about one smoke test; `why` is set, and nothing else, where there is none."""

    why: str
    stand_in: bool
    verdict: str
    reasons: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    load: tuple[tuple[str, str], ...]
    age: str


def latency_of(host: object) -> Latency:
    """Return the latency of a HostRecord; percentiles that n cannot carry stand as ``-``."""
    smoke = read(host, "smoke")
    if smoke is None or isinstance(smoke, Unmeasured) or not mapping(smoke):
        why = str(smoke) if isinstance(smoke, Unmeasured) else "unmeasured: no smoke test was run"
        return Latency(why, False, "", (), (), (), (), "")
    rows = tuple(_row(smoke, key) for key in METRICS)
    reasons = read(smoke, "reasons")
    return Latency(
        why="",
        stand_in=read(smoke, "conditions", "stand_in") is True,
        verdict=show(read(smoke, "verdict")),
        reasons=tuple(map(show, reasons)) if isinstance(reasons, list) else (),
        rows=rows,
        notes=tuple(_notes(smoke, rows)),
        load=tuple(_load(smoke)),
        age=_age(read(host, "smoke_age_s"), read(smoke, "taken_at")),
    )


def _row(smoke: object, key: str) -> Row:
    return Row(
        key=key,
        name=METRICS[key],
        largest=_cell(read(smoke, f"max_{key}_ms")),
        cells=tuple(_cell(read(smoke, f"{p}_{key}_ms")) for p in PERCENTILES),
        intervals=tuple(_interval(read(smoke, "ci95", f"{p}_{key}_ms")) for p in PERCENTILES),
        formula=formula(smoke, key),
    )


def _interval(value: object) -> str:
    """Return a 95 % interval as ``38.9 to 43.0``; a bound that n cannot give stands as ``?``."""
    if not isinstance(value, list) or len(value) != 2:
        return ""
    return " to ".join("?" if v is None else milliseconds(v) for v in map(number, value))


def _cell(value: object) -> str:
    return str(value) if isinstance(value, Unmeasured) else milliseconds(number(value))


def formula(smoke: object, key: str) -> str:
    """Return the formula that the smoke test states for a metric."""
    stated = mapping(read(smoke, "formulas"))
    names = {str(name).lower().removesuffix("_ms"): text for name, text in stated.items()}
    for name in _FORMULA_NAMES.get(key, (key,)):
        if name in names:
            return show(names[name])
    return "unmeasured: formula not in the record"


def _notes(smoke: object, rows: tuple[Row, ...]) -> Iterator[str]:
    """Yield why a percentile is not printed, or how far a printed one can be trusted."""
    given = [read(smoke, f"{percent}_note") for percent in ("p95", "p99")]
    notes = [clean(note) for note in given if isinstance(note, str) and note.strip()]
    yield from dict.fromkeys(notes)
    if not notes and any("-" in row.cells for row in rows):
        yield f"-: n = {show(read(smoke, 'completed'))} requests cannot carry this percentile"


def _load(smoke: object) -> list[tuple[str, str]]:
    """Return n, rate, tokens, and what the answers were, as (name, text)."""
    completed, requested = show(read(smoke, "completed")), show(read(smoke, "num_prompts"))
    failed = show(read(smoke, "failed"))
    return [
        ("requests (n)", f"{completed} of {requested} completed, {failed} failed"),
        ("rate", f"{_rate(read(smoke, 'request_rate'))} offered"),
        ("throughput", _rate(read(smoke, "request_throughput"))),
        ("goodput", _rate(read(smoke, "request_goodput"))),
        ("met the objective", goodput_share(smoke)),
        ("tokens", f"{_both(smoke, 'input')} in, {_both(smoke, 'output')} out"),
        ("output", _rate(read(smoke, "output_throughput"), "tokens/s")),
        ("took", _seconds(read(smoke, "duration"))),
        *answers(smoke),
    ]


def goodput_share(smoke: object) -> str:
    """Return the share of requests that met the objective, with its 95 % interval if stated."""
    share = number(read(smoke, "goodput_share"))
    if share is None:
        return "unmeasured"
    ends = [number(end) for end in items(read(smoke, "goodput_share_ci95"))]
    of = " to ".join(f"{100 * end:.3g}" for end in ends if end is not None)
    return f"{100 * share:.3g} %" + (f" ({of})" if of else "")


def _both(smoke: object, side: str) -> str:
    return show(read(smoke, f"total_{side}_tokens"))


def _rate(value: object, unit: str = "req/s") -> str:
    found = number(value)
    return show(value) if found is None else f"{found:.4g} {unit}"


def _seconds(value: object) -> str:
    found = number(value)
    return show(value) if found is None else duration(found)


def _age(age: object, taken_at: object) -> str:
    when = "" if isinstance(taken_at, Unmeasured) or not taken_at else f" at {show(taken_at)}"
    found = number(age)
    if found is None:
        return f"measured in this run{when}"
    return f"measured {duration(found)} ago{when}, not in this run"


def samples(smoke: object) -> str:
    """Return n of the smoke test for a caption, such as ``n = 240``."""
    n = integer(read(smoke, "completed"))
    return "n unmeasured" if n is None else f"n = {n}"
