"""CPU lists of a scenario, laid on the CPUs a machine really has.

A unit that names a CPU which does not exist fails to start (`215/CPUAFFINITY`), so a simulated
224-CPU node must name real ones. Slices are proportional, in order, and each NUMA node that has
CPUs gets at least one; with fewer CPUs than such nodes, neighbours share one, which no kernel
says: no replica is laid out on such a map.
"""

from __future__ import annotations

from collections.abc import Sequence


def parse_cpulist(text: str) -> list[int]:
    """The CPU numbers of a kernel CPU list (`0-55,112-167`); ValueError when it is none."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        cpus.extend(range(int(first), int(last if dash else first) + 1))
    return cpus


def _shares(weights: Sequence[int], online: int) -> list[int]:
    """`online` CPUs dealt out in proportion to `weights`, at least one each (largest remainder)."""
    spare, total = online - len(weights), sum(weights)
    exact = [weight * spare / total for weight in weights]
    shares = [1 + int(part) for part in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: int(exact[i]) - exact[i])
    for index in by_remainder[: online - sum(shares)]:
        shares[index] += 1
    return shares


def _slice_text(start: int, length: int) -> str:
    return str(start) if length == 1 else f"{start}-{start + length - 1}"


def scale(cpulists: Sequence[str], online: int) -> list[str]:
    """One real CPU list for each written one, over CPUs 0..online-1; an empty one stays so."""
    sizes = [len(parse_cpulist(text)) for text in cpulists]
    weights = [size for size in sizes if size]
    if online < len(weights):
        slices = [str(number * online // len(weights)) for number in range(len(weights))]
    else:
        shares = _shares(weights, online) if weights else []
        slices = [_slice_text(sum(shares[:number]), share) for number, share in enumerate(shares)]
    real = iter(slices)
    return [next(real) if size else "" for size in sizes]
