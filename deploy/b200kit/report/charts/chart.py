"""The one mechanism of every chart: two axes, and an area that is filled in the values' own units.

A scale is linear, logarithmic where the values spread too far for that (the axis then says so), or
a row of names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from b200kit.node.client.percentiles import percentile
from b200kit.report.content.latency import STAND_IN
from b200kit.report.html.figure import Figure, Keys
from b200kit.report.html.svg import box, el, line, picture, text

WIDTH, HEIGHT = 500.0, 262.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 486.0, 54.0, 220.0  # the edges of the area
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
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)


def linear(low: float, high: float, unit: str, about: int = 5) -> Axis:
    """Return an axis of about so many round numbers, from at most `low` to at least `high`."""
    rough = (high - low if high - low > 1e-9 else 1.0) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)
    last = max(math.ceil(high / step - 1e-9), 1)
    ticks = [step * i for i in range(math.floor(low / step + 1e-9), last + 1)]
    return Axis(ticks[0], ticks[-1], tuple((t, f"{t:g}") for t in ticks), unit)


def near(values: Sequence[float], unit: str) -> Axis:
    """Return an axis that begins near the least value; for levels that are compared."""
    low, high = min(values), max(values)
    room = max((high - low) * 0.15, high * 0.02, 1e-9)
    return linear(max(low - room, 0.0), high + room, unit, 4)


def spanning(values: Sequence[float], unit: str) -> Axis:
    """Return an axis for latencies: linear from zero, logarithmic where a few are far out."""
    top = max(values, default=0.0)
    positive = [value for value in values if value > 0]
    if len(positive) < 2 or top <= _FAR * percentile(positive, 50):
        return linear(0.0, top, unit)
    low = max(min(positive), top / 1e5)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(top)) + 1)
    steps = [float(f"{m}e{power}") for power in powers for m in (1, 2, 5)]
    first, last = max(s for s in steps if s <= low), min(s for s in steps if math.inf > s >= top)
    shown = [s for s in steps if s in (first, last) or (first < s < last and f"{s:e}"[0] == "1")]
    ticks = tuple((s, f"{s / 1000:g}k" if s >= 10000 else f"{s:g}") for s in shown)
    return Axis(first, last, ticks, f"{unit}, log scale", logarithmic=True)


def names(labels: Sequence[str], unit: str, room: int = 7) -> Axis:
    """Return an axis of evenly spaced places; at most about `room` of the labels are shown."""
    stride = max(math.ceil(len(labels) / room), 1)
    shown = [(float(i), label) for i, label in enumerate(labels) if label and i % stride == 0]
    return Axis(-0.5, max(len(labels), 1) - 0.5, tuple(shown), unit)


class Chart:
    """An area between two axes; all that is put into it is given in values."""

    def __init__(self, x: Axis, y: Axis, *, stand_in: bool) -> None:
        """Begin an empty chart; `stand_in` marks figures of an engine that is none."""
        self.x, self.y, self.stand_in = x, y, stand_in
        self._parts: list[str] = []

    def at(self, x: float, y: float) -> Point:
        """Return the pixels of a point."""
        return LEFT + (RIGHT - LEFT) * self.x.share(x), BOTTOM - (BOTTOM - TOP) * self.y.share(y)

    def curve(self, points: Sequence[Point], class_: str = "curve", *, steps: bool = False) -> None:
        """Draw the line through these points; with `steps`, first along and then up."""
        (x, y), *places = [self.at(*point) for point in points]
        form = "H{:.1f}V{:.1f}" if steps else "L{:.1f} {:.1f}"
        path = f"M{x:.1f} {y:.1f}" + "".join(form.format(*place) for place in places)
        self._parts.append(el("path", d=path, class_=class_))

    def marks(self, shape: str, points: Iterable[Point], size: float, class_: str = "") -> None:
        """Draw a marker at each point."""
        self._parts.append(marks(shape, [self.at(*point) for point in points], size, class_))

    def note(self, point: Point, words: str, dx: float, dy: float, anchor: str = "middle") -> None:
        """Write words beside a point, so many pixels from it."""
        x, y = self.at(*point)
        self._parts.append(text(x + dx, y + dy, words, "t-mark", anchor))

    def band(self, low: float, high: float) -> None:
        """Shade what lies between two levels."""
        (_, bottom), (_, top) = self.at(self.x.low, low), self.at(self.x.low, high)
        self._parts.append(box(LEFT, top, RIGHT - LEFT, max(bottom - top, 1.0), "band", 0))

    def level(self, value: float, label: str) -> None:
        """Draw a guide at a level, its label above the area where it hides no marker."""
        self.curve([(self.x.low, value), (self.x.high, value)], "guide")
        left = RIGHT - 8.0 * len(label) - 30
        self._parts.append(line(left, TOP - 22, left + 22, TOP - 22, "guide"))
        self._parts.append(text(RIGHT, TOP - 18, label, "t-small strong", "end"))

    def figure(self, title: str, told: str, caption: str, keys: Keys = ()) -> Figure:
        """Return the whole picture; what is `told` is one sentence for who does not see it."""
        mark = text(WIDTH - 4, 17, STAND_IN, "t-stand-in", "end") if self.stand_in else ""
        svg = picture(
            WIDTH, HEIGHT, title, text(4, 17, title, "t-head"), mark, *self._axes(), *self._parts,
            class_="chart", least=330, most=640,
            description=f"{STAND_IN}. {told}" if self.stand_in else told,
        )  # fmt: skip
        return Figure(svg, caption, keys)

    def _axes(self) -> Iterable[str]:
        for value, label in self.y.ticks:
            _, y = self.at(self.x.low, value)
            yield line(LEFT, y, RIGHT, y, "grid")
            yield text(LEFT - 6, y + 4, label, "t-small", "end")
        for value, label in self.x.ticks:
            x, _ = self.at(value, self.y.low)
            yield line(x, BOTTOM, x, BOTTOM + 4, "axis")
            yield text(x, BOTTOM + 17, label, "t-small", "middle")
        yield line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")
        yield text(RIGHT, HEIGHT - 7, self.x.unit, "t-small", "end")
        yield text(4, TOP - 18, self.y.unit, "t-small")


SHAPES = {
    "speck": "h0",
    "dot": "m-1 -.42l.58 -.58h.84l.58 .58v.84l-.58 .58h-.84l-.58 -.58z",
    "square": "m-.9 -.9h1.8v1.8h-1.8z",
    "triangle": "m0 -1.2l1.2 2.1h-2.4z",
    "diamond": "m0 -1.4l1.4 1.4l-1.4 1.4l-1.4 -1.4z",
    "plus": "m-1.3 0h2.6m-1.3 -1.3v2.6",
    "cross": "m-1 -1l2 2m0 -2l-2 2",
    "end": "m0 -1v2",
}
"""Markers by their outline at a radius of 1: distinct by shape, so that none needs a colour.

A speck is a round cap of no length, short to write: there may be thousands.
"""
_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]+")


def marks(shape: str, places: Iterable[Point], size: float, class_: str = "") -> str:
    """Return all markers of one kind as one path; `places` are pixels."""
    drawn = _NUMBER.sub(lambda found: f"{float(found[0]) * size:.4g}", SHAPES[shape])
    path = "".join(f"M{x:.1f} {y:.1f}{drawn}" for x, y in places)
    return el("path", d=path, class_=f"mark {shape} {class_}".strip())
