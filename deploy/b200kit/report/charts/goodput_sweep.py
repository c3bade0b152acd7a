"""Goodput against the rate of requests, a line a layout, with the knee that was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from b200kit.report.charts.axes import SHAPES, Frame, Point, chart, linear, marks, track
from b200kit.report.content.tuning import Knee, Tuning, whole
from b200kit.report.html.figure import Figure
from b200kit.report.html.svg import line, text

MOST = 5
"""Layouts in one picture; the others are in the table."""
_SHAPES = [name for name in SHAPES if name not in ("speck", "cross")]


def sweeps(tuning: Tuning) -> list[Figure]:
    """Return a picture a workload that was measured at two rates or more."""
    return [found for name in tuning.workloads if (found := _sweep(tuning, name))]


def _sweep(tuning: Tuning, workload: str) -> Figure | None:
    lines = {layout: _points(tuning, layout, workload) for layout in tuning.layouts}
    swept = {layout: points for layout, points in lines.items() if len(points) >= 2}
    if not swept:
        return None
    shown = _shown(tuning, workload, list(swept))
    kinds = dict(zip(shown, _SHAPES, strict=False))
    top = max(rate for layout in shown for rate, _ in swept[layout])
    most = max(good for layout in shown for _, good in swept[layout])
    frame = Frame(
        linear(top, "offered, requests/s"), linear(max(most * 1.1, top / 4), "goodput, requests/s")
    )
    parts = [*_ideal(frame)]
    for layout, shape in kinds.items():
        places = [frame.at(*point) for point in swept[layout]]
        parts += [track(places, f"curve {shape}"), marks(shape, places, 3.6)]
    parts += _knees(tuning, workload, list(kinds), frame)
    svg = chart(frame, f"Goodput against rate, workload {workload}", _told(tuning, workload, shown),
                *parts, stand_in=tuning.stand_in)  # fmt: skip
    words = [
        (s, f"{name} (chosen)" if name == tuning.chosen else name) for name, s in kinds.items()
    ]
    left = len(swept) - len(shown)
    rest = f"; {left} more layouts are in the table" if left else ""
    return Figure(
        svg,
        f"Thin diagonal: every request good; K: the knee, with a bar where it surely lies{rest}",
        tuple(words),
    )


def _points(tuning: Tuning, layout: str, workload: str) -> list[Point]:
    found = {
        cell.rate: good
        for cell in tuning.there(layout, workload)
        if cell.rate is not None and (good := cell.figure("request_goodput")) is not None
    }
    return sorted(found.items())


def _shown(tuning: Tuning, workload: str, layouts: Sequence[str]) -> list[str]:
    """Return the layouts to draw: the chosen one, then those with the most goodput."""

    def rank(layout: str) -> tuple[bool, float]:
        best = tuning.best(layout, workload)
        return layout != tuning.chosen, -((best.figure("request_goodput") if best else 0.0) or 0.0)

    return sorted(layouts, key=rank)[:MOST]


def _ideal(frame: Frame) -> Iterator[str]:
    """Yield the line on which every request that was sent was a good one."""
    end = min(frame.x.high, frame.y.high)
    yield line(*frame.at(0, 0), *frame.at(end, end), "ideal")


def _knees(tuning: Tuning, workload: str, shown: list[str], frame: Frame) -> Iterator[str]:
    found = [knee for layout in shown if (knee := tuning.knee(layout, workload))]
    for knee in found[:1]:
        yield from _sure(knee, frame)
    places = dict.fromkeys((knee.rate, knee.goodput) for knee in found)
    for rate, goodput in places:
        if rate is not None and goodput is not None:
            x, y = frame.at(rate, goodput)
            yield marks("dot", [(x, y)], 7.5, "knee")
            yield text(x, y - 11, f"K {whole(rate)}", "t-mark", "middle")


def _sure(knee: Knee, frame: Frame) -> Iterator[str]:
    """Yield the span between the rate that is surely good and the one that is surely bad."""
    if knee.goodput is not None and knee.low is not None and knee.high is not None:
        left, y = frame.at(knee.low, knee.goodput)
        right = frame.px(knee.high)
        yield line(left, y, right, y, "whisker")
        yield from (line(x, y - 4, x, y + 4, "whisker") for x in (left, right))


def _told(tuning: Tuning, workload: str, shown: list[str]) -> str:
    parts = []
    for layout in shown:
        knee = tuning.knee(layout, workload)
        at = "no knee" if knee is None or knee.rate is None else f"knee at {whole(knee.rate)}/s"
        parts.append(f"{layout}: {at}")
    return "; ".join(parts) + "."
