"""Latency over the time of the smoke test: one marker a request, at the second it was sent.

A percentile hides when something happened. A server that froze, or was cold at the start, shows
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from b200kit.node.client.percentiles import percentile
from b200kit.report.charts.axes import Frame, chart, linear, marks, spanning
from b200kit.report.document import integer, items, mapping, milliseconds, number, read
from b200kit.report.html.figure import Figure, Table

WINDOWS = 6
_TABLE = ("sent", "requests", "failed", "TTFT P50", "TTFT most", "TPOT P50", "longest gap")


@dataclass(frozen=True, slots=True)
class Request:
    """When it was sent (s since the first was due), and its latencies in ms, those that it has."""

    at: float
    ttft: float | None
    tpot: float | None
    gap: float | None
    failed: bool


def requests_of(smoke: object) -> list[Request]:
    """Return the requests of a smoke result whose time is recorded, in the order of sending."""
    found = [
        Request(
            at=at,
            ttft=number(read(entry, "ttft_ms")),
            tpot=number(read(entry, "tpot_ms")),
            gap=number(read(entry, "itl_max_ms")),
            failed=bool(mapping(entry).get("error")),
        )
        for entry in items(read(smoke, "requests"))
        if (at := number(read(entry, "at_s"))) is not None
    ]
    return sorted(found, key=lambda request: request.at)


def over_time(smoke: object, *, stand_in: bool) -> list[Figure]:
    """Return TTFT, and TPOT with the longest gap of each request, over time; [] below two."""
    found = requests_of(smoke)
    if len(found) < 2:
        return []
    sent = integer(read(smoke, "num_prompts")) or len(found)
    thinned = f" of {sent}, evenly thinned" if sent > len(found) else ""
    caption = f"by when each request was sent (n = {len(found)}{thinned})"
    drawn: list[Figure] = []
    for name, shapes in _PICTURES:
        middle = number(read(smoke, f"p50_{next(iter(shapes))}_ms"))
        svg = _picture(name, shapes, found, middle, stand_in=stand_in)
        table = None if drawn else _table(found)
        drawn.append(Figure(svg, f"{name} {caption}", _keys(shapes, found), table))
    return drawn


_PICTURES: tuple[tuple[str, dict[str, str]], ...] = (
    ("TTFT", {"ttft": "speck"}),
    ("TPOT and longest gap", {"tpot": "speck", "gap": "triangle"}),
)
_WORDS = {"ttft": "TTFT of a request", "tpot": "TPOT of a request (the mean of its gaps)",
          "gap": "the longest ITL of that request"}  # fmt: skip


def _keys(shapes: dict[str, str], found: list[Request]) -> tuple[tuple[str, str], ...]:
    keys = [(shape, _WORDS[kind]) for kind, shape in shapes.items()]
    if any(request.failed for request in found):
        keys.append(("cross", "failed: it has no latency"))
    return tuple(keys)


def _picture(
    name: str,
    shapes: dict[str, str],
    found: list[Request],
    middle: float | None,
    *,
    stand_in: bool,
) -> str:
    series = {k: [(r.at, v) for r in found if (v := getattr(r, k)) is not None] for k in shapes}
    values = [value for points in series.values() for _, value in points]
    along = linear(found[-1].at, "s since the first request was due", 6)
    frame = Frame(along, spanning(values, "ms"))
    parts = [
        marks(shape, [frame.at(*point) for point in series[kind]], 2.2, "each")
        for kind, shape in shapes.items()
    ]
    lost = [frame.at(request.at, frame.y.high) for request in found if request.failed]
    if lost:
        parts.append(marks("cross", lost, 4, "bad"))
    if values and middle is not None:
        parts += frame.level(middle, f"P50 {milliseconds(middle)}")
    return chart(frame, f"{name} over time", _told(name, found, values), *parts, stand_in=stand_in)


def _told(name: str, found: list[Request], values: Sequence[float]) -> str:
    if not values:
        return f"No request of {len(found)} has a {name}."
    ends = f"{milliseconds(min(values))} to {milliseconds(max(values))} ms"
    lost = sum(request.failed for request in found)
    return f"{len(found)} requests over {found[-1].at:.1f} s: {ends}; {lost} failed."


def _table(found: list[Request]) -> Table:
    """Return the run cut into windows of equal length."""
    length = max(found[-1].at, 1e-9) / WINDOWS
    cut: list[list[Request]] = [[] for _ in range(WINDOWS)]
    for request in found:
        cut[min(int(max(request.at, 0.0) / length), WINDOWS - 1)].append(request)
    rows = [tuple(_window(i * length, (i + 1) * length, part)) for i, part in enumerate(cut)]
    return Table(_TABLE, tuple(rows))


def _window(start: float, end: float, part: list[Request]) -> Iterator[str]:
    yield f"{start:.1f} to {end:.1f} s"
    yield str(len(part))
    yield str(sum(request.failed for request in part))
    for key, percent in (("ttft", 50), ("ttft", 100), ("tpot", 50), ("gap", 100)):
        values = [v for r in part if (v := getattr(r, key)) is not None]
        yield milliseconds(percentile(values, percent)) if values else "-"
