"""A cumulative distribution as inline SVG: the share of samples at or below each latency."""

from __future__ import annotations

import math
from collections.abc import Iterator

from deploy.report.reading import milliseconds
from deploy.report.svg import el, line, picture, text

WIDTH, HEIGHT = 540.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 16.0, 34.0, 42.0
_POINTS = 300  # more steps than this cannot be told apart at the width of the plot


def cdf(name: str, values: list[float], marks: dict[str, float], unit_of: str) -> str:
    """Return the plot of `values` (ms), with a guide at each of `marks`; "" below two samples."""
    if len(values) < 2:
        return ""
    ordered = sorted(max(value, 0.0) for value in values)
    ticks = nice_ticks(ordered[-1])
    end = max(ticks[-1], ordered[-1]) or 1.0
    title = f"{name}, {len(ordered)} {unit_of}"
    label = f"Cumulative distribution of {title}"
    return picture(
        WIDTH, HEIGHT, label,
        text(LEFT, 18, title, "t-head"),
        *_grid(ticks, end),
        el("path", d=_steps(ordered, end), class_="curve"),
        *_guides(marks, end),
        class_="chart",
    )  # fmt: skip


def nice_ticks(top: float, about: int = 6) -> list[float]:
    """Return round numbers from 0 to at least `top`, about so many."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def _x(value: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * min(value / end, 1.0)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _grid(ticks: list[float], end: float) -> Iterator[str]:
    for percent in (0, 25, 50, 75, 100):
        y = _y(percent / 100)
        yield line(LEFT, y, WIDTH - RIGHT, y, "grid")
        yield text(LEFT - 7, y + 4, f"{percent} %", "t-small", "end")
    for tick in ticks:
        yield line(_x(tick, end), _y(0), _x(tick, end), _y(0) + 4, "axis")
        yield text(_x(tick, end), _y(0) + 18, f"{tick:g}", "t-small", "middle")
    yield line(LEFT, _y(0), WIDTH - RIGHT, _y(0), "axis")
    yield text(WIDTH - RIGHT, HEIGHT - 6, "ms", "t-small", "end")


def _steps(ordered: list[float], end: float) -> str:
    """Return the path of the step function, thinned to what the plot can show."""
    count = len(ordered)
    stride = max(count // _POINTS, 1)
    ranks = [*range(stride, count, stride), count] if stride > 1 else list(range(1, count + 1))
    path = f"M{_x(0, end):.1f} {_y(0):.1f}"
    for rank in ranks:
        path += f"H{_x(ordered[rank - 1], end):.1f}V{_y(rank / count):.1f}"
    return path + f"H{_x(end, end):.1f}"


def _guides(marks: dict[str, float], end: float) -> Iterator[str]:
    """Yield a guide a percentile, its label on the free side of the curve (right, below it)."""
    room_left = WIDTH - RIGHT - 96
    for name, value in marks.items():
        x, share = _x(value, end), float(name.lstrip("Pp")) / 100
        yield line(x, _y(0), x, _y(share), "guide")
        yield el("circle", cx=x, cy=_y(share), r=3.5, class_="dot")
        words = f"{name} {milliseconds(value)}"
        right = x <= room_left
        at, anchor = (x + 7, "start") if right else (x - 7, "end")
        lift = 14 if right else 14 + (100 - 100 * share) * 0.2
        yield text(at, _y(share) + lift, words, "t-mark", anchor)
