"""The matrix as a heat map: a number in each cell, its length as a bar, its rank as a shade.

A table, so that it is its own figures; the best of a column is named, no colour is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from b200kit.report.content.tuning import Cell, Tuning, whole
from b200kit.report.document import milliseconds

SHADES = 5


@dataclass(frozen=True, slots=True)
class Spot:
    """One cell: its text, a note below it, shade 1 (worst) to SHADES, bar in percent of the most.

    Shade 0 is no figure.
    """

    text: str
    note: str
    shade: int
    bar: float
    best: bool


@dataclass(frozen=True, slots=True)
class Heat:
    """One map: columns, and rows of (layout, whether it is the chosen one, cells)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, bool, tuple[Spot, ...]], ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """What a map shows: its name, where it stands in a result, whether more is better."""

    name: str
    key: str
    more: bool


MEASURES = (
    Measure("goodput, requests/s", "request_goodput", more=True),
    Measure("TTFT P50, ms", "p50_ttft_ms", more=False),
    Measure("TPOT P50, ms", "p50_tpot_ms", more=False),
)


def heats(tuning: Tuning) -> list[Heat]:
    """Return the maps: a workload a column; with one workload alone, a measure a column."""
    if len(tuning.workloads) == 1:
        columns = [(m.name, m, tuning.workloads[0]) for m in MEASURES]
        return [_heat(tuning, f"at the knee, workload {tuning.workloads[0]}", columns)]
    return [
        _heat(tuning, f"{m.name}, at the knee", [(w, m, w) for w in tuning.workloads])
        for m in MEASURES
    ]


def _heat(tuning: Tuning, title: str, columns: Sequence[tuple[str, Measure, str]]) -> Heat:
    filled = [_column(tuning, measure, workload) for _, measure, workload in columns]
    rows = tuple(
        (layout, layout == tuning.chosen, tuple(column[i] for column in filled))
        for i, layout in enumerate(tuning.layouts)
    )
    return Heat(title, tuple(head for head, _, _ in columns), rows)


def _column(tuning: Tuning, measure: Measure, workload: str) -> list[Spot]:
    """Return a column's cells; each column is shaded on its own, for workloads differ."""
    best = [tuning.best(layout, workload) for layout in tuning.layouts]
    values = [cell.figure(measure.key) if cell else None for cell in best]
    known = [value for value in values if value is not None]
    ends = (min(known), max(known)) if known else (0.0, 0.0)
    return [
        _spot(value, cell, ends, measure) if cell and value is not None
        else Spot(_missing(tuning, layout, workload), "", 0, 0.0, best=False)
        for layout, cell, value in zip(tuning.layouts, best, values, strict=True)
    ]  # fmt: skip


def _spot(value: float, cell: Cell, ends: tuple[float, float], measure: Measure) -> Spot:
    low, high = ends
    share = (value - low) / (high - low) if high > low else 1.0
    good = share if measure.more or high == low else 1.0 - share
    say: Callable[[float], str] = whole if measure.more else milliseconds
    rate = "all at once" if cell.rate is None else f"at {whole(cell.rate)}/s"
    return Spot(
        text=say(value),
        note=rate,
        shade=1 + min(int(good * SHADES), SHADES - 1),
        bar=100 * value / high if high > 0 else 0.0,
        best=value == (high if measure.more else low),
    )


def _missing(tuning: Tuning, layout: str, workload: str) -> str:
    """Return why there is no figure: what became of the cells there."""
    states = dict.fromkeys(cell.status for cell in tuning.there(layout, workload))
    return ", ".join("unmeasured" if state == "done" else state for state in states) or "not run"
