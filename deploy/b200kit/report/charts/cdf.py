"""A cumulative distribution: the share of samples at or below each latency."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.client.percentiles import carries
from b200kit.report.charts.axes import PERCENT, Frame, chart, marks, spanning
from b200kit.report.content.latency import METRICS, PERCENTILES, formula, samples
from b200kit.report.document import milliseconds, number, numbers, read
from b200kit.report.html.figure import Figure
from b200kit.report.html.svg import el, line, text

_ARRAYS = {"ttft": ("ttfts_ms", "requests"), "itl": ("itls_ms", "gaps between chunks")}
_POINTS = 300  # more steps than this cannot be distinguished at the width of the plot


def distributions(smoke: object, *, stand_in: bool) -> list[Figure]:
    """Return the CDFs of the latencies whose samples a smoke result holds.

    A percentile that n cannot carry has no guide, whatever the result says.
    """
    found = []
    for key, (array, unit_of) in _ARRAYS.items():
        values = numbers(read(smoke, array))
        given = {
            name.upper(): value
            for name in PERCENTILES
            if carries(len(values), float(name.lstrip("p")))
            and (value := number(read(smoke, f"{name}_{key}_ms"))) is not None
        }
        svg = cdf(METRICS[key], values, given, unit_of, stand_in=stand_in)
        if svg:
            caption = f"{METRICS[key]}: {formula(smoke, key)} ({samples(smoke)} requests)"
            found.append(Figure(svg, caption))
    return found


def cdf(
    name: str, values: list[float], given: dict[str, float], unit_of: str, *, stand_in: bool = False
) -> str:
    """Return the plot of `values` (ms), with a guide at each percentile of `given`.

    "" below two samples.
    """
    if len(values) < 2:
        return ""
    ordered = sorted(max(value, 0.0) for value in values)
    frame = Frame(spanning(ordered, "ms"), PERCENT)
    percentiles = ", ".join(f"{name} {milliseconds(value)} ms" for name, value in given.items())
    return chart(
        frame, f"{name}, {len(ordered)} {unit_of}",
        f"Cumulative distribution; {percentiles or 'no percentile is given'}; "
        f"least {milliseconds(ordered[0])} ms, most {milliseconds(ordered[-1])} ms.",
        el("path", d=_steps(ordered, frame), class_="curve"),
        *_guides(given, frame),
        stand_in=stand_in,
    )  # fmt: skip


def _steps(ordered: list[float], frame: Frame) -> str:
    """Return the path of the step function, thinned to what the plot can show."""
    count = len(ordered)
    stride = max(count // _POINTS, 1)
    ranks = [*range(stride, count, stride), count] if stride > 1 else list(range(1, count + 1))
    path = f"M{frame.px(frame.x.low):.1f} {frame.py(0):.1f}"
    for rank in ranks:
        path += f"H{frame.px(ordered[rank - 1]):.1f}V{frame.py(rank / count):.1f}"
    return path + f"H{frame.right:.1f}"


def _guides(given: dict[str, float], frame: Frame) -> Iterator[str]:
    """Yield a guide a percentile, its label below the curve; the highest one comes first."""
    taken = 0.0
    for name, value in sorted(given.items(), key=lambda one: one[1], reverse=True):
        x, y = frame.at(value, float(name.lstrip("Pp")) / 100)
        yield line(x, frame.py(0), x, y, "guide")
        yield marks("dot", [(x, y)], 3.5)
        taken = max(y + 14, taken + 15)
        left = x > frame.right - 90
        words = f"{name} {milliseconds(value)}"
        yield text(x + (-7 if left else 7), taken, words, "t-mark", "end" if left else "start")
