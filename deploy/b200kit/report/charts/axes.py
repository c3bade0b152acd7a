"""The one mechanism of every chart: axes with their ticks, a frame that places values, markers.

Values come in their own units, pictures are in pixels. A scale is linear from zero, logarithmic
where the values spread too far for that (the axis then says so), or a row of names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from b200kit.node.client.percentiles import percentile
from b200kit.report.html.svg import el, line, picture, text

WIDTH, HEIGHT = 500.0, 262.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 46.0, 42.0
STAND_IN = "STAND-IN ENGINE"
_MOST_TICKS = 7
_FAR = 12.0  # largest over median above which a linear axis hides the rest

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `low` to `high`, ticks as (value, label), the unit in words."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    unit: str = ""
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return where `value` stands, 0 to 1; what lies outside stands at the edge."""
        if self.logarithmic:
            low, high, value = (math.log(max(v, self.low)) for v in (self.low, self.high, value))
        else:
            low, high = self.low, self.high
        return min(max((value - low) / (high - low), 0.0), 1.0)


def linear(top: float, unit: str, about: int = 5) -> Axis:
    """Return an axis from zero to at least `top`."""
    ticks = nice_ticks(top, about)
    return Axis(0.0, ticks[-1], tuple((tick, f"{tick:g}") for tick in ticks), unit)


def spanning(values: Sequence[float], unit: str, about: int = 5) -> Axis:
    """Return an axis for latencies: linear from zero, logarithmic where a few are far out."""
    top = max(values, default=0.0)
    positive = [value for value in values if value > 0]
    if len(positive) < 2 or top <= _FAR * percentile(positive, 50):
        return linear(top, unit, about)
    low = max(min(positive), top / 1e5)
    ticks = [t for t in _decades(low, top) if t <= top * 1.5]
    first = max((t for t in _decades(low / 10, low) if t <= low), default=low)
    end = next(t for t in _decades(top / 10, top * 10) if t >= top)
    shown = sorted({first, end, *ticks})
    if len(shown) > _MOST_TICKS:
        shown = [t for t in shown if t in (first, end) or f"{t:e}"[0] == "1"]
    return Axis(
        first, end, tuple((t, _short(t)) for t in shown), f"{unit}, log scale", logarithmic=True
    )


def _decades(low: float, high: float) -> Iterator[float]:
    """Yield 1, 2, 5, 10, 20 ... from below `low` to above `high`."""
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        yield from (float(f"{m}e{power}") for m in (1, 2, 5) if float(f"{m}e{power}") >= low)


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 10000 else f"{value:g}"


def names(labels: Sequence[str], unit: str, room: int = 7) -> Axis:
    """Return an axis of evenly spaced places; at most about `room` of the labels are shown."""
    stride = max(math.ceil(len(labels) / room), 1)
    shown = [(float(i), label) for i, label in enumerate(labels) if label and i % stride == 0]
    return Axis(-0.5, max(len(labels), 1) - 0.5, tuple(shown), unit)


def near(values: Sequence[float], unit: str) -> Axis:
    """Return an axis that begins near the least value; for levels that are compared."""
    low, high = min(values), max(values)
    room = max((high - low) * 0.15, high * 0.02, 1e-9)
    step = _step((high - low + 2 * room) / 4)
    first, last = math.floor((low - room) / step), math.ceil((high + room) / step)
    ticks = [step * i for i in range(max(first, 0), last + 1)]
    return Axis(ticks[0], ticks[-1], tuple((t, f"{t:.6g}") for t in ticks), unit)


PERCENT = Axis(0.0, 1.0, tuple((p / 100, f"{p} %") for p in (0, 25, 50, 75, 100)))


def nice_ticks(top: float, about: int = 6) -> list[float]:
    """Return round numbers from 0 to at least `top`, about so many."""
    if top <= 0:
        return [0.0, 1.0]
    step = _step(top / about)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)


@dataclass(frozen=True, slots=True)
class Frame:
    """A plot's area between its two axes."""

    x: Axis
    y: Axis
    width: float = WIDTH
    height: float = HEIGHT

    @property
    def right(self) -> float:
        """Return the right edge of the area in pixels."""
        return self.width - RIGHT

    def at(self, x: float, y: float) -> Point:
        """Return the pixels of a point."""
        return self.px(x), self.py(y)

    def px(self, x: float) -> float:
        """Return the pixels of a value of the lower axis."""
        return LEFT + (self.right - LEFT) * self.x.share(x)

    def py(self, y: float) -> float:
        """Return the pixels of a value of the left axis."""
        bottom = self.height - BOTTOM
        return bottom - (bottom - TOP) * self.y.share(y)

    def axes(self) -> Iterator[str]:
        """Yield grid, axes, labels of the ticks and both units."""
        bottom = self.height - BOTTOM
        for value, label in self.y.ticks:
            yield line(LEFT, self.py(value), self.right, self.py(value), "grid")
            yield text(LEFT - 6, self.py(value) + 4, label, "t-small", "end")
        for value, label in self.x.ticks:
            yield line(self.px(value), bottom, self.px(value), bottom + 4, "axis")
            yield text(self.px(value), bottom + 17, label, "t-small", "middle")
        yield line(LEFT, bottom, self.right, bottom, "axis")
        yield text(self.right, self.height - 7, self.x.unit, "t-small", "end")
        yield text(4, TOP - 12, self.y.unit, "t-small")

    def level(self, value: float, label: str) -> Iterator[str]:
        """Yield a horizontal guide, its label above the area where it hides no marker."""
        yield line(LEFT, self.py(value), self.right, self.py(value), "guide")
        width = 7.0 * len(label) + 30
        yield line(self.right - width, TOP - 16, self.right - width + 22, TOP - 16, "guide")
        yield text(self.right, TOP - 12, label, "t-small strong", "end")


def chart(frame: Frame, title: str, description: str, *parts: str, stand_in: bool) -> str:
    """Return a whole chart; `description` is one sentence for readers who do not see it."""
    marked = [text(frame.width - 4, 17, STAND_IN, "t-stand-in", "end")] if stand_in else []
    described = f"{STAND_IN}. {description}" if stand_in else description
    return picture(
        frame.width, frame.height, title, text(4, 17, title, "t-head"), *marked,
        *frame.axes(), *parts,
        class_="chart", least=330, description=described,
    )  # fmt: skip


SHAPES = {
    "speck": "h0",
    "dot": "m-1 -.42l.58 -.58h.84l.58 .58v.84l-.58 .58h-.84l-.58 -.58z",
    "square": "m-.9 -.9h1.8v1.8h-1.8z",
    "triangle": "m0 -1.2l1.2 2.1h-2.4z",
    "diamond": "m0 -1.4l1.4 1.4l-1.4 1.4l-1.4 -1.4z",
    "plus": "m-1.3 0h2.6m-1.3 -1.3v2.6",
    "cross": "m-1 -1l2 2m0 -2l-2 2",
}
"""Markers by their outline at a radius of 1: distinct by shape, so that none needs a colour.

A speck is a round cap of no length, short to write: there may be thousands.
"""
_NUMBER = re.compile(r"-?\d*\.?\d+")


def marks(shape: str, places: Iterable[Point], size: float = 3.2, class_: str = "") -> str:
    """Return all markers of one kind as one path; `places` are pixels."""
    drawn = _NUMBER.sub(lambda found: f"{float(found[0]) * size:.4g}", SHAPES[shape])
    path = "".join(f"M{x:.1f} {y:.1f}{drawn}" for x, y in places)
    return el("path", d=path, class_=f"mark {shape} {class_}".strip())


def track(places: Sequence[Point], class_: str = "curve") -> str:
    """Return the line through these pixels."""
    return el("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places), class_=class_)
