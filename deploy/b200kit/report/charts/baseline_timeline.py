"""This run against the record as a picture: each run's median, the baseline's band, the newest."""

from __future__ import annotations

from typing import NamedTuple

from b200kit.node.client.percentiles import percentile
from b200kit.report.charts.chart import Chart, names, near
from b200kit.report.content.latency import METRICS
from b200kit.report.document import Pairs, Unmeasured, items, milliseconds, number, read, show
from b200kit.report.html.figure import Figure, Table

_KEYS = {
    "square": "accepted as the baseline",
    "dot": "another run",
    "cross": "a run whose figures count nowhere, at the top edge",
    "diamond": "the newest run",
}

Band = tuple[float, float, float, str]
"""Where the baseline lets one run's median lie, its middle (ms), and what the band is."""


class Run(NamedTuple):
    """One run of the record; `changes` is what its system has that the run before had not."""

    id: str
    at: str
    medians: dict[str, float]
    kind: str
    why: str
    changes: str


class Timeline(NamedTuple):
    """The section's pictures, what their markers mean, and what changed where a letter stands."""

    figures: list[Figure]
    keys: Pairs
    changes: Pairs
    table: Table
    note: str


def timeline_of(document: object) -> Timeline:
    """Return the pictures of a record document: of each latency that two runs hold a median of."""
    entries = items(read(document, "timeline", "runs"))
    runs = [_run(entry, newest=i == len(entries)) for i, entry in enumerate(entries, 1)]
    shown = [key for key in METRICS if sum(key in run.medians for run in runs) >= 2]
    kinds = {run.kind for run in runs if shown}
    head = ("run", "taken", *(f"{name} P50" for name in METRICS.values()), "what it is")
    return Timeline(
        figures=[_figure(document, key, runs) for key in shown],
        keys=[(kind, words) for kind, words in _KEYS.items() if kind in kinds],
        changes=[(f"{letter}, {runs[i].at}", runs[i].changes) for i, letter in _letters(runs)],
        table=Table(head, tuple(map(_row, reversed(runs))), f"{len(runs)} runs in figures, in ms"),
        note=_note(document),
    )


def _run(entry: object, newest: bool) -> Run:
    reason = read(entry, "not_counted")
    why = show(reason) if reason or isinstance(reason, Unmeasured) else ""
    kind = "square" if read(entry, "baseline") is True else "dot"
    # What a starved client measured is its own: it has a place in the order, and no height.
    found = {} if why else {key: number(read(entry, "medians", key)) for key in METRICS}
    return Run(
        id=show(read(entry, "id")),
        at=show(read(entry, "at"))[:16].replace("T", " "),
        medians={key: value for key, value in found.items() if value is not None},
        kind="cross" if why else "diamond" if newest else kind,
        why=why,
        changes="; ".join(map(show, items(read(entry, "changes")))),
    )


def _row(run: Run) -> tuple[str, ...]:
    medians = (milliseconds(run.medians.get(key)) for key in METRICS)
    return (run.id, run.at, *medians, run.why or _KEYS[run.kind])


def _letters(runs: list[Run]) -> list[tuple[int, str]]:
    """Return each run before which the system changed, with its letter; after 26 a number."""
    changed = [i for i, run in enumerate(runs) if run.changes]
    return [(i, chr(ord("A") + n) if n < 26 else str(n + 1)) for n, i in enumerate(changed)]


def _note(document: object) -> str:
    """Return which runs of the record are not in the pictures."""
    kinds = {"omitted": "older", "other_load": "of another load"}
    counts = {words: number(read(document, "timeline", key)) for key, words in kinds.items()}
    parts = [f"{count:g} {words}" for words, count in counts.items() if count]
    return f"Not shown: {', '.join(parts)}." if parts else ""


def _figure(document: object, key: str, runs: list[Run]) -> Figure:
    """Return one latency's picture; a run that counts nowhere stands at the top edge."""
    medians = {i: run.medians[key] for i, run in enumerate(runs) if key in run.medians}
    band = _band(document, key, [medians[i] for i in medians if runs[i].kind == "square"])
    days = [run.at[:10] for run in runs]
    labels = ["" if i and day == days[i - 1] else day[5:] for i, day in enumerate(days)]
    up = near([*medians.values(), *(band[:2] if band else ())], "ms")
    stand_in = read(document, "timeline", "stand_in") is True
    chart = Chart(names(labels, "runs in their order"), up, stand_in=stand_in)
    if band:
        chart.band(*band[:2])
        chart.level(band[2], f"baseline {milliseconds(band[2])}")
    for i, letter in _letters(runs):
        chart.curve([(i - 0.5, up.low), (i - 0.5, up.high)], "change")
        chart.note((i - 0.5, up.high), letter, 0, -3)
    heights = medians | {i: up.high for i, run in enumerate(runs) if run.why}
    for kind in _KEYS:
        found = [(i, height) for i, height in heights.items() if runs[i].kind == kind]
        if found:
            chart.marks(kind, found, 4.6 if kind == "diamond" else 3.4)
    newest = runs[-1].medians.get(key)
    if newest is not None:
        chart.note((len(runs) - 1, newest), milliseconds(newest), -2, -10, "end")
    name, words = METRICS[key], band[3] if band else "no baseline is accepted"
    return chart.figure(
        f"{name}, median of each run",
        f"{len(medians)} runs, {milliseconds(min(medians.values()))} to "
        f"{milliseconds(max(medians.values()))} ms; the newest {_placed(newest, band)}.",
        f"{name}; {words}; the axis does not begin at 0",
    )


def _band(document: object, key: str, accepted: list[float]) -> Band | None:
    """Return what the baseline predicts of one run (95 %), or its own spread below five runs."""
    if not accepted:
        return None
    low, high = (number(read(document, "hint", key, end)) for end in ("low", "high"))
    words = "band: one run by the baseline, 95 %"
    if low is None or high is None:
        low, high, words = min(accepted), max(accepted), "band: accepted, least to most"
    return low, high, percentile(accepted, 50), words


def _placed(newest: float | None, band: Band | None) -> str:
    """Return where the newest run stands, in words."""
    if newest is None or band is None:
        return "has none" if newest is None else f"{milliseconds(newest)} ms"
    low, high = band[:2]
    side = "inside" if low <= newest <= high else "outside"
    ends = f"{milliseconds(low)} to {milliseconds(high)}"
    return f"{milliseconds(newest)} ms, {side} the baseline's {ends}"
