"""What is a fault of the servers where the load is one that healthy ones take at leisure. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from b200kit.node.client import replicas
from b200kit.node.client.engine_metrics import ServerFigures
from b200kit.node.client.formulas import Run

ROUNDS = 4
"""Times that requests are sent over a path until they carry the verdict, at most."""


@dataclass(frozen=True)
class LowLoad:
    """The limits at such a load.

    replica_slowdown: of one replica, as a share, that the run has to be able to find; a fifth of it
    is what healthy ones may differ by; None: they are not compared. stall_ms: a wait beyond the
    usual one.
    """

    replica_slowdown: float | None = 0.1
    stall_ms: float = 1000.0

    def comparison(self, paths: Mapping[str, Run]) -> replicas.Comparison | None:
        """The replicas asked directly, against each other; None where they are not compared."""
        direct = {n: run.series() for n, run in paths.items() if n.startswith("direct")}
        if self.replica_slowdown is None or len(direct) < 2:
            return None
        return replicas.compare(direct, self.replica_slowdown)

    def faults(self, paths: Mapping[str, Run], server: ServerFigures) -> Iterator[str]:
        """Strain, requests that stood still, and replicas that are slower than the others."""
        yield from _strain(server)
        yield from stall_lines(stalls(paths, self.stall_ms))
        compared = self.comparison(paths)
        for each in compared.slower if compared else ():
            yield (
                f"{each.path}: slower than the other replicas: median {each.metric.upper()}"
                f" {each.median_ms:.2f} ms against {each.others_ms:.2f} ms, {each.ratio:.2f} times"
                f" (at least {each.ratio_at_least:.2f}; n = {each.n})"
            )

    def doubts(self, paths: Mapping[str, Run]) -> Iterator[str]:
        """That a slow replica might not have been found, and what to do."""
        found = self.comparison(paths)
        if found is None or found.is_decided:
            return
        finds = "no slow one" if found.finds is None else f"one that is {found.finds:.0%} slower"
        yield (
            f"not enough requests: {found.fewest} to each replica find {finds}, where"
            f" {found.wanted:.0%} are asked for: about {found.needed} would (smoke.direct_requests,"
            " smoke.replica_slowdown)"
        )


def _strain(server: ServerFigures) -> Iterator[str]:
    """What healthy, warm servers do not do."""
    if server.preemptions:
        yield (
            f"the servers preempted {server.preemptions} sequences at this low load: their KV cache"
            " is too small; lower max_num_seqs (b200 plan)"
        )
    if server.jit_warnings:
        yield (
            f"the servers compiled {server.jit_warnings} kernels while they were measured: the"
            " warm-up does not cover this load, and these times are a cold server's"
        )


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


def stall_lines(found: list[Stall]) -> list[str]:
    """What a verdict says of them: the longest of each path, and how many there are."""
    paths = list(dict.fromkeys(stall.path for stall in found))
    of_path = [[stall for stall in found if stall.path == path] for path in paths]
    return [f"{each[0]} ({len(each)} such wait{'s'[: len(each) > 1]})" for each in of_path]
