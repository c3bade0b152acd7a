"""A tuning: goodput against the rate, a line a layout."""

from __future__ import annotations

from b200kit.records.goodput_knee import Knee
from b200kit.report.charts.chart import Chart, Point, linear
from b200kit.report.content.tuning import ShownTuning, figure, goodput, whole
from b200kit.report.html.figure import Figure

SHAPES = ("dot", "square", "triangle", "diamond", "plus")
"""A layout each in one picture; the others are in the table."""


def sweeps(tuning: ShownTuning) -> list[Figure]:
    """Return a picture a workload that was measured at two rates or more."""
    return [found for name in tuning.workloads if (found := _sweep(tuning, name))]


def _sweep(tuning: ShownTuning, workload: str) -> Figure | None:
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


def _line(tuning: ShownTuning, layout: str, workload: str) -> list[Point]:
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
