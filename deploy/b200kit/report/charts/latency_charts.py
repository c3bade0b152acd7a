"""The latencies of a smoke test: their distributions, and each request at the second it was sent.

A percentile hides when something happened. A server that froze, or was cold at the start, shows
over time.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter

from b200kit.node.client.percentiles import carries
from b200kit.node.client.smoke_result import RequestFigures, SmokeResult
from b200kit.node.state.view import Unmeasured
from b200kit.report.charts.chart import RIGHT, Chart, Point, linear, spanning
from b200kit.report.content.latency import formula
from b200kit.report.document import milliseconds
from b200kit.report.html.figure import Figure
from b200kit.report.names import METRICS

_POINTS = 300  # more steps than this cannot be distinguished at the width of the plot
Value = Callable[[RequestFigures], float | None]
"""A latency of a request in ms."""
_GAP: Value = attrgetter("itl_max_ms")
_OVER_TIME: dict[str, dict[Value, tuple[str, str]]] = {
    "TTFT": {attrgetter("ttft_ms"): ("speck", "TTFT of a request")},
    "TPOT and longest gap": {
        attrgetter("tpot_ms"): ("speck", "TPOT of a request (the mean of its gaps)"),
        _GAP: ("triangle", "the longest ITL of that request"),
    },
}


def distributions(smoke: Unmeasured | SmokeResult) -> list[Figure]:
    """Return the CDFs of the latencies of which a smoke test holds two samples or more."""
    if isinstance(smoke, Unmeasured):
        return []
    found = (("ttft", smoke.ttfts_ms, "requests"), ("itl", smoke.itls_ms, "gaps between chunks"))
    return [_cdf(smoke, key, sorted(ms), unit_of) for key, ms, unit_of in found if len(ms) >= 2]


def _cdf(smoke: SmokeResult, key: str, values: list[float], unit_of: str) -> Figure:
    """Return the share of ordered `values` at or below each, with a guide at each percentile.

    A percentile that n cannot carry has no guide, whatever the result says.
    """
    count = len(values)
    chart = Chart(
        spanning(values, "ms"), linear(0.0, 100.0, "%", 4), stand_in=smoke.conditions.stand_in
    )
    ranks = [*range(1, count, max(count // _POINTS, 1)), count]
    steps = [(values[rank - 1], 100 * rank / count) for rank in ranks]
    chart.curve([(chart.x.low, 0.0), *steps, (chart.x.high, 100.0)], steps=True)
    own = smoke.main.latency(key)
    stated = {50: own.p50_ms, 95: own.p95_ms, 99: own.p99_ms}
    given = {p: value for p, value in stated.items() if value is not None and carries(count, p)}
    lowest = 0.0
    for percent, value in sorted(given.items(), key=itemgetter(1), reverse=True):
        point = (value, percent)
        chart.curve([(value, 0.0), point], "guide")
        chart.marks("dot", [point], 3.5)
        x, y = chart.at(*point)
        lowest = max(y + 14, lowest + 15)  # below the curve, and below the label before
        right, anchor = (-7, "end") if x > RIGHT - 90 else (7, "start")
        chart.note(point, f"P{percent} {milliseconds(value)}", right, lowest - y, anchor)
    told = ", ".join(f"P{percent} {milliseconds(value)} ms" for percent, value in given.items())
    return chart.figure(
        f"{METRICS[key]}, {count} {unit_of}",
        f"Cumulative distribution; {told or 'no percentile is given'}; "
        f"least {milliseconds(values[0])} ms, most {milliseconds(values[-1])} ms.",
        f"{METRICS[key]}: {formula(smoke, key)} (n = {smoke.main.completed} requests)",
    )


def over_time(smoke: Unmeasured | SmokeResult) -> list[Figure]:
    """Return TTFT, and TPOT with the longest gap of each request, over time; [] below two."""
    if isinstance(smoke, Unmeasured) or len(smoke.requests) < 2:
        return []
    found = sorted(smoke.requests, key=attrgetter("at_s"))
    return [_scatter(smoke, name, found) for name in _OVER_TIME]


def _values(found: list[RequestFigures], of: Value) -> list[Point]:
    return [(one.at_s, ms) for one in found if (ms := of(one)) is not None]


def _scatter(smoke: SmokeResult, name: str, found: list[RequestFigures]) -> Figure:
    series = _OVER_TIME[name]
    points = {of: _values(found, of) for of in series}
    values = [ms for each in points.values() for _, ms in each]
    along = linear(0.0, found[-1].at_s, "s since the first request was due", 6)
    chart = Chart(along, spanning(values, "ms"), stand_in=smoke.conditions.stand_in)
    for of, (shape, _) in series.items():
        chart.marks(shape, points[of], 2.2, "each")
    keys = tuple(series.values())
    lost = [(one.at_s, chart.y.high) for one in found if one.error]
    if lost:
        chart.marks("cross", lost, 4, "bad")
        keys += (("cross", "failed: it has no latency"),)
    middle = (smoke.main.ttft if name == "TTFT" else smoke.main.tpot).p50_ms
    if values and middle is not None:
        chart.level(middle, f"P50 {milliseconds(middle)}")
    told = f"No request of {len(found)} has a {name}."
    if values:
        ends = f"{milliseconds(min(values))} to {milliseconds(max(values))} ms"
        told = f"{len(found)} requests over {found[-1].at_s:.1f} s: {ends}; {len(lost)} failed."
    sent = smoke.main.num_prompts
    thinned = f" of {sent}, evenly thinned" if sent > len(found) else ""
    caption = f"{name} by when each request was sent (n = {len(found)}{thinned})"
    return chart.figure(f"{name} over time", told, caption, keys)
