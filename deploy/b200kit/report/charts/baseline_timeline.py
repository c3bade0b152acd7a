"""This run against the record as a picture: each run's median, the baseline's band, the newest."""

from __future__ import annotations

from typing import NamedTuple

from b200kit.node.client.percentiles import percentile
from b200kit.records.comparison import AgainstRecord, ShownRun
from b200kit.report.charts.chart import Chart, names, near
from b200kit.report.document import Pairs, Unmeasured, milliseconds
from b200kit.report.html.figure import Figure, Table
from b200kit.report.names import METRICS

_KEYS = {
    "square": "accepted as the baseline",
    "dot": "another run",
    "cross": "a run whose figures count nowhere, at the top edge",
    "diamond": "the newest run",
}

Band = tuple[float, float, float, str]
"""Where the baseline lets one run's median lie, its middle (ms), and what the band is."""


class TimelinePictures(NamedTuple):
    """The section's pictures, what their markers mean, and the runs in figures."""

    figures: list[Figure]
    keys: Pairs
    table: Table


def timeline_of(record: Unmeasured | AgainstRecord) -> TimelinePictures:
    """Return the pictures of a record: of each latency that two runs hold a median of."""
    medians = (f"{name} P50" for name in METRICS.values())
    head = ("run", "taken", *medians, "what it is", "changed before it")
    if isinstance(record, Unmeasured):
        return TimelinePictures([], [], Table(head, ()))
    runs, kinds = record.timeline.runs, [_kind(run) for run in record.timeline.runs]
    if kinds and kinds[-1] != "cross":
        kinds[-1] = "diamond"
    shown = [key for key in METRICS if sum(key in run.medians for run in runs) >= 2]
    rows = [_row(run, kind) for run, kind in zip(runs, kinds, strict=True)]
    counts = {"older": record.timeline.omitted, "of another load": record.timeline.other_load}
    others = "".join(f", {count} {words} left out" for words, count in counts.items() if count)
    return TimelinePictures(
        figures=[_figure(record, key, kinds) for key in shown],
        keys=[(kind, words) for kind, words in _KEYS.items() if shown and kind in kinds],
        table=Table(head, tuple(reversed(rows)), f"{len(runs)} runs in figures, in ms{others}"),
    )


def _kind(run: ShownRun) -> str:
    return "cross" if run.not_counted else "square" if run.baseline else "dot"


def _row(run: ShownRun, kind: str) -> tuple[str, ...]:
    medians = (milliseconds(run.medians.get(key)) for key in METRICS)
    at, what = run.at[:16].replace("T", " "), run.not_counted or _KEYS[kind]
    return (run.id, at, *medians, what, "; ".join(run.changes))


def _figure(record: AgainstRecord, key: str, kinds: list[str]) -> Figure:
    """Return one latency's picture; a run that counts nowhere stands at the top edge."""
    runs = record.timeline.runs
    medians = {i: run.medians[key] for i, run in enumerate(runs) if key in run.medians}
    band = _band(record, key, [medians[i] for i in medians if kinds[i] == "square"])
    days = [run.at[:10] for run in runs]
    labels = ["" if i and day == days[i - 1] else day[5:] for i, day in enumerate(days)]
    up = near([*medians.values(), *(band[:2] if band else ())], "ms")
    along = names(labels, "runs in their order")
    chart = Chart(along, up, stand_in=record.timeline.stand_in)
    if band:
        chart.band(*band[:2])
        chart.level(band[2], f"baseline {milliseconds(band[2])}")
    for i in (i for i, run in enumerate(runs) if run.changes):
        chart.curve([(i - 0.5, up.low), (i - 0.5, up.high)], "change")
    heights = medians | {i: up.high for i, run in enumerate(runs) if run.not_counted}
    for kind in _KEYS:
        found = [(i, height) for i, height in heights.items() if kinds[i] == kind]
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
        f"{name}; {words}; upright: the system changed; the axis does not begin at 0",
    )


def _band(record: AgainstRecord, key: str, accepted: list[float]) -> Band | None:
    """Return what the baseline predicts of one run (95 %), or its own spread below five runs."""
    if not accepted:
        return None
    middle, hint = percentile(accepted, 50), record.hint.get(key)
    if hint is None:
        return min(accepted), max(accepted), middle, "band: accepted, least to most"
    return hint.low, hint.high, middle, "band: one run by the baseline, 95 %"


def _placed(newest: float | None, band: Band | None) -> str:
    """Return where the newest run stands, in words."""
    if newest is None or band is None:
        return "has none" if newest is None else f"{milliseconds(newest)} ms"
    low, high = band[:2]
    side = "inside" if low <= newest <= high else "outside"
    ends = f"{milliseconds(low)} to {milliseconds(high)}"
    return f"{milliseconds(newest)} ms, {side} the baseline's {ends}"
