"""How long a tuning takes: guessed from its parameters, then by what it has shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from b200kit.node.lib import timestamp
from b200kit.tuning.cells import Load
from b200kit.tuning.goodput_knee import Sweep

# Inferred: what a cell takes besides its load (correctness, uncounted and direct requests,
# commands), what `vllm bench serve` takes to start (6.2 s measured, docs/measure.md), and how long
# a layout takes to be warm on a node whose kernels are compiled already.
CELL_S, BENCH_S, SWITCH_S = 8.0, 12.0, 240.0


@dataclass(frozen=True)
class Pace:
    """Seconds that a change of layout and a cell beside its load take; cells a sweep takes."""

    switch_s: float
    beside_s: float
    cells: float

    @classmethod
    def observed(
        cls, lines: Sequence[Mapping[str, Any]], load: Load, sweep: Sweep, bench: bool
    ) -> Pace:
        """By the lines so far, and the guesses where they say nothing."""
        switches = [float(line["seconds"]) for line in lines if line.get("status") == "up"]
        besides = [
            took - _loads(load, float(line["cell"]["rate"]), bench)
            for line in lines
            if line.get("kind") == "cell" and line["cell"].get("status") == "done"
            if (took := seconds(line["cell"])) is not None
        ]
        guess = CELL_S + (BENCH_S if bench else 0)
        return cls(
            mean(switches) if switches else SWITCH_S,
            max(0.0, mean(besides)) if besides else guess,
            float(sweep.cells),
        )

    def cell(self, load: Load, rate: float, bench: bool) -> float:
        """Seconds of a cell."""
        return self.beside_s + _loads(load, rate, bench)

    def sweep(self, load: Load, sweep: Sweep, bench: bool, done: int = 0) -> float:
        """Seconds of what is left of a sweep, at most: each cell as long as one at its first rate.

        Rates below the first, which only a layout that is too slow gets, take longer.
        """
        return max(0.0, self.cells - done) * self.cell(load, sweep.first, bench)


def _loads(load: Load, rate: float, bench: bool) -> float:
    """Seconds for which a cell sends: once by each client."""
    return load.count(rate) / rate * (2 if bench else 1)


def seconds(cell: Mapping[str, Any]) -> float | None:
    """How long a cell took; None where it does not say."""
    try:
        began, ended = (timestamp.parse(cell[k]) for k in ("started", "ended"))
    except (KeyError, ValueError):
        return None
    return (ended - began).total_seconds()


def total(parts: Iterable[float]) -> str:
    """A sum of seconds as a person says it: "40 s", "12 m", "3 h 05 m"."""
    whole = round(sum(parts))
    if whole < 60:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} m" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} m"
