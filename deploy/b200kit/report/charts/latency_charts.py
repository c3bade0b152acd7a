"""The latencies of a smoke test: their distributions, and each request at the second it was sent.

A percentile hides when something happened. A server that froze, or was cold at the start, shows
over time.
"""

from __future__ import annotations

from operator import itemgetter

from b200kit.node.client.percentiles import carries, percentile
from b200kit.report.charts.chart import RIGHT, Chart, linear, spanning
from b200kit.report.content.latency import METRICS, PERCENTILES, formula, samples
from b200kit.report.document import integer, items, mapping, milliseconds, number, numbers, read
from b200kit.report.html.figure import Figure, Table

_ARRAYS = {"ttft": ("ttfts_ms", "requests"), "itl": ("itls_ms", "gaps between chunks")}
_POINTS = 300  # more steps than this cannot be distinguished at the width of the plot
_OVER_TIME = {
    "TTFT": {"ttft_ms": ("speck", "TTFT of a request")},
    "TPOT and longest gap": {
        "tpot_ms": ("speck", "TPOT of a request (the mean of its gaps)"),
        "itl_max_ms": ("triangle", "the longest ITL of that request"),
    },
}
_WINDOWS = 6
_COLUMNS = {
    "TTFT P50": ("ttft_ms", 50), "TTFT most": ("ttft_ms", 100),
    "TPOT P50": ("tpot_ms", 50), "longest gap": ("itl_max_ms", 100),
}  # fmt: skip

Sent = tuple[float, bool, dict[str, float]]
"""When a request was sent (s since the first was due), whether it failed, its latencies in ms."""


def distributions(smoke: object, *, stand_in: bool) -> list[Figure]:
    """Return the CDFs of the latencies of which a smoke result holds two samples or more."""
    return [
        _cdf(smoke, key, values, unit_of, stand_in=stand_in)
        for key, (array, unit_of) in _ARRAYS.items()
        if len(values := sorted(numbers(read(smoke, array)))) >= 2
    ]


def _cdf(smoke: object, key: str, values: list[float], unit_of: str, *, stand_in: bool) -> Figure:
    """Return the share of ordered `values` at or below each, with a guide at each percentile.

    A percentile that n cannot carry has no guide, whatever the result says.
    """
    count = len(values)
    chart = Chart(spanning(values, "ms"), linear(0.0, 100.0, "%", 4), stand_in=stand_in)
    ranks = [*range(1, count, max(count // _POINTS, 1)), count]
    steps = [(values[rank - 1], 100 * rank / count) for rank in ranks]
    chart.curve([(chart.x.low, 0.0), *steps, (chart.x.high, 100.0)], steps=True)
    stated = {int(name[1:]): number(read(smoke, f"{name}_{key}_ms")) for name in PERCENTILES}
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
        f"{METRICS[key]}: {formula(smoke, key)} ({samples(smoke)} requests)",
    )


def over_time(smoke: object, *, stand_in: bool) -> list[Figure]:
    """Return TTFT, and TPOT with the longest gap of each request, over time; [] below two."""
    found = _requests(smoke)
    names = _OVER_TIME if len(found) >= 2 else ()
    return [_scatter(smoke, name, found, stand_in=stand_in) for name in names]


def _requests(smoke: object) -> list[Sent]:
    """Return the requests of a smoke result whose time is recorded, in the order of sending."""
    kinds = [key for series in _OVER_TIME.values() for key in series]
    found = [
        (
            at,
            bool(mapping(entry).get("error")),
            {k: value for k in kinds if (value := number(read(entry, k))) is not None},
        )
        for entry in items(read(smoke, "requests"))
        if (at := number(read(entry, "at_s"))) is not None
    ]
    return sorted(found, key=itemgetter(0))


def _scatter(smoke: object, name: str, found: list[Sent], *, stand_in: bool) -> Figure:
    series = _OVER_TIME[name]
    values = [ms[key] for key in series for _, _, ms in found if key in ms]
    along = linear(0.0, found[-1][0], "s since the first request was due", 6)
    chart = Chart(along, spanning(values, "ms"), stand_in=stand_in)
    for key, (shape, _) in series.items():
        chart.marks(shape, [(at, ms[key]) for at, _, ms in found if key in ms], 2.2, "each")
    keys = tuple(series.values())
    lost = [(at, chart.y.high) for at, failed, _ in found if failed]
    if lost:
        chart.marks("cross", lost, 4, "bad")
        keys += (("cross", "failed: it has no latency"),)
    middle = number(read(smoke, f"p50_{next(iter(series))}"))
    if values and middle is not None:
        chart.level(middle, f"P50 {milliseconds(middle)}")
    told = f"No request of {len(found)} has a {name}."
    if values:
        ends = f"{milliseconds(min(values))} to {milliseconds(max(values))} ms"
        told = f"{len(found)} requests over {found[-1][0]:.1f} s: {ends}; {len(lost)} failed."
    sent = integer(read(smoke, "num_prompts")) or len(found)
    thinned = f" of {sent}, evenly thinned" if sent > len(found) else ""
    caption = f"{name} by when each request was sent (n = {len(found)}{thinned})"
    figure = chart.figure(f"{name} over time", told, caption, keys)
    return figure._replace(table=_table(found)) if name == "TTFT" else figure


def _table(found: list[Sent]) -> Table:
    """Return the run cut into windows of equal length."""
    length = max(found[-1][0], 1e-9) / _WINDOWS
    cut: list[list[Sent]] = [[] for _ in range(_WINDOWS)]
    for request in found:
        cut[min(int(max(request[0], 0.0) / length), _WINDOWS - 1)].append(request)
    rows = [
        (
            f"{i * length:.1f} to {(i + 1) * length:.1f} s",
            str(len(part)),
            str(sum(failed for _, failed, _ in part)),
            *(_percentile(part, key, percent) for key, percent in _COLUMNS.values()),
        )
        for i, part in enumerate(cut)
    ]
    return Table(("sent", "requests", "failed", *_COLUMNS), tuple(rows))


def _percentile(part: list[Sent], key: str, percent: float) -> str:
    values = [ms[key] for _, _, ms in part if key in ms]
    return milliseconds(percentile(values, percent)) if values else "-"
