"""Waits that a median hides: a request that stood still, with where it was asked. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from b200kit.node.client.formulas import Run


@dataclass(frozen=True)
class Stall:
    """A wait of one request: seconds, and after how many chunks of its answer."""

    path: str
    request: int
    of: int
    seconds: float
    after: int

    def __str__(self) -> str:
        where = f"after {self.after} chunks" if self.after else "before the first token"
        return (
            f"{self.path}: request {self.request} of {self.of} stood still for"
            f" {self.seconds * 1000:.0f} ms {where}"
        )


def stalls(paths: Mapping[str, Run], limit_ms: float) -> list[Stall]:
    """Waits that are longer by *limit_ms* than the usual one of their kind, the longest first.

    Usual is the median over all paths: of times to the first token, and of gaps.
    """
    done = [timing for run in paths.values() for timing in run.completed]
    if not done:
        return []
    first = median(timing.ttft for timing in done)
    gap = median(gap for timing in done for gap in timing.gaps or (0.0,))
    found = [
        Stall(name, number, len(run.records), wait, after)
        for name, run in paths.items()
        for number, wait, after in _waits(run)
        if (wait - (gap if after else first)) * 1000 > limit_ms
    ]
    return sorted(found, key=lambda stall: -stall.seconds)


def _waits(run: Run) -> Iterator[tuple[int, float, int]]:
    """Request, seconds and chunks before it, of every wait."""
    for number, timing in enumerate(run.timings, 1):
        if timing:
            for after, wait in enumerate((timing.ttft, *timing.gaps)):
                yield number, wait, after


def lines(found: list[Stall]) -> list[str]:
    """What a verdict says of them: the longest of each path, and how many there are."""
    paths = list(dict.fromkeys(stall.path for stall in found))
    of_path = [[stall for stall in found if stall.path == path] for path in paths]
    return [f"{each[0]} ({len(each)} such wait{'s'[: len(each) > 1]})" for each in of_path]
