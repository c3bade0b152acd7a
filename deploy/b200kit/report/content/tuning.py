"""The tuning of a node: which layout was chosen and why, the matrix, goodput against rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from b200kit.node.client.formulas import PathFigures
from b200kit.records.goodput_knee import Knee
from b200kit.records.tuning import TuningCell, TuningResult
from b200kit.report.content.latency import is_stand_in
from b200kit.report.document import (
    Pairs,
    Unmeasured,
    integer,
    mapping,
    milliseconds,
    read,
    structured,
)
from b200kit.report.html.figure import Table

Measure = Callable[[PathFigures], float | None]
NO_KNEE = Knee(None, None, None, None, "")


@dataclass(frozen=True, slots=True)
class ShownTuning:
    """A tuning as it is shown; its layouts by their texts."""

    of: TuningResult
    stand_in: bool

    @property
    def layouts(self) -> list[str]:
        """Each layout once, in the order of the cells."""
        return list(dict.fromkeys(str(cell.layout) for cell in self.of.cells))

    @property
    def workloads(self) -> list[str]:
        """Each load once, likewise."""
        return list(dict.fromkeys(cell.workload for cell in self.of.cells))

    @property
    def chosen(self) -> str:
        """The chosen layout; empty where there is none."""
        return str(self.of.chosen.layout or "")

    @property
    def facts(self) -> Pairs:
        """What was chosen and why, how many cells there are, what was not tried."""
        states = Counter(cell.status for cell in self.of.cells)
        counted = ", ".join(f"{count} {status}" for status, count in states.items())
        return [
            ("chosen layout", self.chosen or "none"),
            ("why", self.of.chosen.why),
            ("cells", counted or "none"),
            *((f"not tried: {one.name}", one.why) for one in self.of.refused),
        ]

    @property
    def evidence(self) -> list[str]:
        """A line a layout, the best first."""
        return [f"{one.layout}: {one.words}" for one in self.of.chosen.evidence]

    def knee(self, layout: str, workload: str) -> Knee:
        """Return the knee that was found there."""
        there = (k for k in self.of.knees if (str(k.layout), k.workload) == (layout, workload))
        return next((one.knee for one in there), NO_KNEE)

    def cells(self, layout: str, workload: str) -> list[TuningCell]:
        """Return the cells of a layout under a load."""
        return [c for c in self.of.cells if (str(c.layout), c.workload) == (layout, workload)]


def goodput(main: PathFigures) -> float | None:
    """Good requests a second."""
    return main.request_goodput


def figure(cell: TuningCell | None, measure: Measure) -> float | None:
    """Return a figure of our client where it has any."""
    return measure(cell.ours.main) if cell and cell.is_done and cell.ours else None


def tuning_of(host: object) -> Unmeasured | ShownTuning:
    """Return the tuning of a HostRecord, or why there is none."""
    found = structured(TuningResult, read(host, "tuning"), "none")
    if isinstance(found, Unmeasured):
        return found
    # Where none says whether its figures are a stand-in's, the smoke test decides.
    known = [cell.ours.conditions.stand_in for cell in found.cells if cell.ours]
    return ShownTuning(found, any(known or [is_stand_in(host)]))


_HEAD = ("layout", "workload", "rate", "status", "goodput", "of the rate", "TTFT P50", "TTFT P95",
         "TPOT P50", "TPOT P95")  # fmt: skip
_TIMES: tuple[Measure, ...] = (
    lambda main: main.ttft.p50_ms, lambda main: main.ttft.p95_ms,
    lambda main: main.tpot.p50_ms, lambda main: main.tpot.p95_ms,
)  # fmt: skip


def all_cells(tuning: ShownTuning) -> Table:
    """Return every cell in figures."""
    rows = []
    for cell in tuning.of.cells:
        knee, good = tuning.knee(str(cell.layout), cell.workload), figure(cell, goodput)
        status = f"{cell.status}: {cell.why}" if cell.why else cell.status
        if knee.rate is not None and knee.rate == cell.rate:
            status = f"{cell.status}, the knee"
        share = "-" if good is None or not cell.rate else f"{100 * good / cell.rate:.0f} %"
        times = [milliseconds(figure(cell, measure)) for measure in _TIMES]
        rate = "-" if cell.rate is None else whole(cell.rate)
        place = (str(cell.layout), cell.workload, rate, status)
        rows.append((*place, _rate(good), share, *times))
    return Table(_HEAD, tuple(rows), f"{len(rows)} cells in figures (requests/s and ms)")


def all_knees(tuning: ShownTuning) -> Table:
    """Return each knee with what is sure about it."""
    head = ("layout", "workload", "knee", "surely good to", "surely bad from", "goodput", "why")
    rows = [
        (str(one.layout), one.workload, "none" if k.rate is None else whole(k.rate), _rate(k.low),
         _rate(k.high), _rate(k.goodput), k.why)
        for one in tuning.of.knees for k in [one.knee]
    ]  # fmt: skip
    return Table(head, tuple(rows), f"{len(rows)} knees in figures (requests/s)")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def whole(value: float) -> str:
    """Return a rate without needless decimals."""
    found = integer(value)
    return f"{value:.3g}" if found is None else str(found)


def line(host: object) -> str:
    """Return the tuning in one line for a terminal, or nothing."""
    if "tuning" not in mapping(host):
        return ""
    found = tuning_of(host)
    if isinstance(found, Unmeasured):
        return str(found)
    mark = "STAND-IN ENGINE: " if found.stand_in else ""
    facts = dict(found.facts)
    return f"{mark}{facts['chosen layout']}; {facts['why']} ({facts['cells']})"
