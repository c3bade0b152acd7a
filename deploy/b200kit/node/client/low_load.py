"""What is a fault of the servers where the load is one that healthy ones take at leisure. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from b200kit.node.client import replicas, stalls
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

    def faults(self, paths: Mapping[str, Run], server: Mapping[str, object]) -> Iterator[str]:
        """Strain, requests that stood still, and replicas that are slower than the others.

        server: the servers' own numbers (the document's `server`).
        """
        yield from _strain(server)
        yield from stalls.lines(stalls.stalls(paths, self.stall_ms))
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


def _strain(server: Mapping[str, object]) -> Iterator[str]:
    """What healthy, warm servers do not do."""
    if thrown := _count(server, "preemptions"):
        yield (
            f"the servers preempted {thrown:.0f} sequences at this low load: their KV cache is too"
            " small; lower max_num_seqs (b200 plan)"
        )
    if compiled := _count(server, "jit_warnings"):
        yield (
            f"the servers compiled {compiled:.0f} kernels while they were measured: the warm-up"
            " does not cover this load, and these times are a cold server's"
        )


def _count(server: Mapping[str, object], key: str) -> float:
    value = server.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
