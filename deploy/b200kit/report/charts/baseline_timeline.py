"""This run against the record as a picture: each run's median, the baseline's band, the newest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from b200kit.node.client.percentiles import percentile
from b200kit.report.charts.axes import Frame, chart, marks, names, near
from b200kit.report.content.latency import METRICS
from b200kit.report.document import (
    Unmeasured,
    items,
    mapping,
    milliseconds,
    number,
    read,
    show,
)
from b200kit.report.html.figure import Figure, Table
from b200kit.report.html.svg import box, line, text

_KEYS = (
    ("square", "accepted as the baseline"),
    ("dot", "another run"),
    ("cross", "a run whose figures count nowhere, at the top edge"),
    ("diamond", "the newest run"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the record; `changes` is what its system has that the run before had not."""

    id: str
    at: str
    medians: dict[str, float]
    kind: str
    why: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Band:
    """Where the accepted baseline lets one run's median lie, in ms, and what the band is."""

    low: float
    high: float
    middle: float
    words: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The section's pictures, what their markers mean, and what changed where a letter stands."""

    figures: list[Figure]
    keys: tuple[tuple[str, str], ...]
    changes: list[tuple[str, str]]
    table: Table
    note: str


def runs_of(document: object) -> list[Run]:
    """Return the runs of a record document's timeline, oldest first."""
    entries = items(read(document, "timeline", "runs"))
    return [_run(entry, newest=i == len(entries) - 1) for i, entry in enumerate(entries)]


def _run(entry: object, newest: bool) -> Run:
    reason = read(entry, "not_counted")
    why = show(reason) if reason or isinstance(reason, Unmeasured) else ""
    kind = "cross" if why else "square" if read(entry, "baseline") is True else "dot"
    # What a starved client measured is its own: it has a place in the order, and no height.
    found = {k: None if why else number(read(entry, "medians", k)) for k in METRICS}
    return Run(
        id=show(read(entry, "id")),
        at=show(read(entry, "at"))[:16].replace("T", " "),
        medians={key: value for key, value in found.items() if value is not None},
        kind="diamond" if newest and not why else kind,
        why=why,
        changes=tuple(map(show, items(read(entry, "changes")))),
    )


def timeline_of(document: object) -> Timeline:
    """Return the pictures of a record document; none where it holds no runs to place."""
    runs = runs_of(document)
    stand_in = read(document, "timeline", "stand_in") is True
    figures = [
        _figure(key, name, runs, _band(document, key, runs), stand_in)
        for key, name in METRICS.items()
        if any(key in run.medians for run in runs)
    ]
    kinds = {run.kind for run in runs}
    changed = [run for run in runs if run.changes]
    return Timeline(
        figures=figures,
        keys=tuple(key for key in _KEYS if key[0] in kinds),
        changes=[(f"{_letter(i)}, {r.at}", "; ".join(r.changes)) for i, r in enumerate(changed)],
        table=_table(runs),
        note=_note(document),
    )


def _table(runs: list[Run]) -> Table:
    words = dict(_KEYS)
    rows = [
        (
            run.id,
            run.at,
            *(milliseconds(run.medians.get(k)) for k in METRICS),
            run.why or words[run.kind],
        )
        for run in reversed(runs)
    ]
    head = ("run", "taken", *(f"{name} P50" for name in METRICS.values()), "what it is")
    return Table(head, tuple(rows), f"{len(runs)} runs in figures, in ms")


def _note(document: object) -> str:
    """Return which runs of the record are not in the pictures."""
    counts = {
        words: number(read(document, "timeline", key))
        for key, words in (("omitted", "older"), ("other_load", "of another load"))
    }
    parts = [f"{count:g} {words}" for words, count in counts.items() if count]
    return f"Not shown: {', '.join(parts)}." if parts else ""


def _band(document: object, key: str, runs: list[Run]) -> Band | None:
    """Return what the baseline predicts of one run (95 %), or its own spread below five runs."""
    accepted = [r.medians[key] for r in runs if r.kind == "square" and key in r.medians]
    if not accepted:
        return None
    middle = percentile(accepted, 50)
    hint = mapping(read(document, "hint", key))
    low, high = number(hint.get("low")), number(hint.get("high"))
    if low is not None and high is not None:
        return Band(low, high, middle, "one run by the baseline, 95 %")
    return Band(min(accepted), max(accepted), middle, "accepted, least to most")


def _figure(key: str, name: str, runs: list[Run], band: Band | None, stand_in: bool) -> Figure:
    values = [run.medians[key] for run in runs if key in run.medians]
    ends = [*values, band.low, band.high] if band else values
    frame = Frame(names(_days(runs), "runs in their order"), near(ends, "ms"))
    title = f"{name}, median of each run"
    svg = chart(
        frame, title, _told(name, values, band),
        *(_shade(frame, band) if band else ()),
        *_changes(frame, runs), *_points(frame, key, runs),
        stand_in=stand_in,
    )  # fmt: skip
    words = f"band: {band.words}" if band else "no baseline is accepted"
    return Figure(svg, f"{name}; {words}; the axis does not begin at 0")


def _days(runs: list[Run]) -> list[str]:
    """Return the day of each run, where it is not that of the run before."""
    days = [run.at[:10] for run in runs]
    return [day[5:] if i == 0 or day != days[i - 1] else "" for i, day in enumerate(days)]


def _shade(frame: Frame, band: Band) -> Iterator[str]:
    top, bottom = frame.py(band.high), frame.py(band.low)
    left = frame.px(frame.x.low)
    yield box(left, top, frame.right - left, max(bottom - top, 1.0), "band", 0)
    yield from frame.level(band.middle, f"baseline {milliseconds(band.middle)}")


def _changes(frame: Frame, runs: list[Run]) -> Iterator[str]:
    changed = [i for i, run in enumerate(runs) if run.changes]
    for position, i in enumerate(changed):
        x = frame.px(i - 0.5)
        yield line(x, frame.py(frame.y.high), x, frame.py(frame.y.low), "change")
        yield text(x + 3, frame.py(frame.y.high) + 10, _letter(position), "t-mark")


def _points(frame: Frame, key: str, runs: list[Run]) -> Iterator[str]:
    places = [
        (run, frame.at(i, run.medians.get(key, frame.y.high)))
        for i, run in enumerate(runs)
        if key in run.medians or run.why
    ]
    for kind, _ in _KEYS:
        found = [at for run, at in places if run.kind == kind]
        if found:
            yield marks(kind, found, 4.6 if kind == "diamond" else 3.4)
    if places and places[-1][0].kind == "diamond":
        run, (x, y) = places[-1]
        yield text(x - 2, y - 10, milliseconds(run.medians[key]), "t-mark", "end")


def _told(name: str, values: list[float], band: Band | None) -> str:
    span = f"{milliseconds(min(values))} to {milliseconds(max(values))} ms"
    position = ""
    if band:
        inside = "inside" if band.low <= values[-1] <= band.high else "outside"
        position = (
            f", {inside} the baseline's {milliseconds(band.low)} to {milliseconds(band.high)}"
        )
    return f"{len(values)} runs, {span}; the newest {milliseconds(values[-1])} ms{position}."


def _letter(position: int) -> str:
    return chr(ord("A") + position) if position < 26 else str(position + 1)
