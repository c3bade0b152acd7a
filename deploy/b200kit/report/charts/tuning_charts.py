"""The tuning matrix: a heat map of the layouts at their knees, and goodput against the rate.

The map is a table, so that it is its own figures; the best of a column is named, no colour is
needed.
"""

from __future__ import annotations

from typing import NamedTuple

from b200kit.records.goodput_knee import Knee
from b200kit.report.charts.chart import Chart, Point, linear
from b200kit.report.content.tuning import Measure, Tuning, figure, goodput, whole
from b200kit.report.document import milliseconds
from b200kit.report.html.figure import Figure

SHADES = 5
SHAPES = ("dot", "square", "triangle", "diamond", "plus")
"""A layout each in one picture; the others are in the table."""
_MEASURES: dict[str, Measure] = {
    "goodput, requests/s": goodput,
    "TTFT P50, ms": lambda main: main.ttft.p50_ms,
    "TPOT P50, ms": lambda main: main.tpot.p50_ms,
}


class Spot(NamedTuple):
    """One cell: shade 1 (worst) to SHADES, 0 for no figure; bar in percent of the column's most."""

    text: str
    note: str = ""
    shade: int = 0
    bar: float = 0.0
    best: bool = False


class Heat(NamedTuple):
    """One workload's map: columns, and rows of (layout, whether it is the chosen one, cells)."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, bool, tuple[Spot, ...]]]


def heats(tuning: Tuning) -> list[Heat]:
    """Return a map a workload, with a measure a column."""
    maps = []
    for workload in tuning.workloads:
        columns = [_column(tuning, measure, workload) for measure in _MEASURES.values()]
        rows = [
            (layout, layout == tuning.chosen, tuple(column[layout] for column in columns))
            for layout in tuning.layouts
        ]
        maps.append(Heat(f"at the knee, workload {workload}", tuple(_MEASURES), rows))
    return maps


def _column(tuning: Tuning, measure: Measure, workload: str) -> dict[str, Spot]:
    """Return a column's cells by layout; each column is shaded on its own."""
    best = {layout: tuning.best(layout, workload) for layout in tuning.layouts}
    values = {layout: figure(cell, measure) for layout, cell in best.items()}
    known = [value for value in values.values() if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    more = measure is goodput
    spots = {}
    for layout, cell in best.items():
        value = values[layout]
        if cell is None or value is None:
            spots[layout] = Spot(_missing(tuning, layout, workload))
            continue
        good = abs(value - (low if more else high)) / (high - low) if high > low else 1.0
        spots[layout] = Spot(
            text=whole(value) if more else milliseconds(value),
            note="all at once" if cell.rate is None else f"at {whole(cell.rate)}/s",
            shade=1 + min(int(good * SHADES), SHADES - 1),
            bar=100 * value / high if high > 0 else 0.0,
            best=value == (high if more else low),
        )
    return spots


def _missing(tuning: Tuning, layout: str, workload: str) -> str:
    """Return why there is no figure: what became of the cells there."""
    states = dict.fromkeys(cell.status for cell in tuning.cells(layout, workload))
    return ", ".join("unmeasured" if state == "done" else state for state in states) or "not run"


def sweeps(tuning: Tuning) -> list[Figure]:
    """Return a picture a workload that was measured at two rates or more."""
    return [found for name in tuning.workloads if (found := _sweep(tuning, name))]


def _sweep(tuning: Tuning, workload: str) -> Figure | None:
    """Return a line a layout, the chosen one and those with the most goodput, and the knees."""
    lines = {layout: _line(tuning, layout, workload) for layout in tuning.layouts}
    most = {layout: max(y for _, y in line) for layout, line in lines.items() if len(line) >= 2}
    if not most:
        return None
    ranked = sorted(most, key=lambda layout: (layout != tuning.chosen, -most[layout]))
    kinds = dict(zip(ranked, SHAPES, strict=False))
    rate = max(lines[layout][-1][0] for layout in kinds)
    room = max(1.1 * max(most[layout] for layout in kinds), rate / 4)
    along, up = linear(0.0, rate, "offered, requests/s"), linear(0.0, room, "goodput, requests/s")
    chart = Chart(along, up, stand_in=tuning.stand_in)
    end = min(along.high, up.high)
    chart.curve([(0.0, 0.0), (end, end)], "ideal")
    for layout, shape in kinds.items():
        chart.curve(lines[layout], f"curve {shape}")
        chart.marks(shape, lines[layout], 3.6)
    knees = {layout: tuning.knee(layout, workload) for layout in kinds}
    _knees(chart, list(knees.values()))
    told = [
        f"{layout}: no knee" if knee.rate is None
        else f"{layout}: knee at {whole(knee.rate)}/s"
        for layout, knee in knees.items()
    ]  # fmt: skip
    caption = "Thin diagonal: every request good; K: the knee, with a bar where it surely lies"
    if len(most) > len(kinds):
        caption += f"; {len(most) - len(kinds)} more layouts are in the table"
    keys = tuple((s, f"{n} (chosen)" if n == tuning.chosen else n) for n, s in kinds.items())
    title = f"Goodput against rate, workload {workload}"
    return chart.figure(title, f"{'; '.join(told)}.", caption, keys)


def _line(tuning: Tuning, layout: str, workload: str) -> list[Point]:
    """Return the goodput at each rate that was measured."""
    found = {
        cell.rate: good
        for cell in tuning.cells(layout, workload)
        if cell.rate is not None and (good := figure(cell, goodput)) is not None
    }
    return sorted(found.items())


def _knees(chart: Chart, knees: list[Knee]) -> None:
    """Mark each knee, and of the first where it surely lies."""
    for knee in knees[:1]:
        if knee.goodput is not None and knee.low is not None and knee.high is not None:
            span = [(knee.low, knee.goodput), (knee.high, knee.goodput)]
            chart.curve(span, "whisker")
            chart.marks("end", span, 4)
    for rate, good in dict.fromkeys((knee.rate, knee.goodput) for knee in knees):
        if rate is not None and good is not None:
            chart.marks("dot", [(rate, good)], 7.5, "knee")
            chart.note((rate, good), f"K {whole(rate)}", 0, -11)
