"""Linux CPU lists: "0-3,8" and back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from b200kit.node.lib.readings import is_digits

MAX_CPU = 1 << 16
"""Numbers from here on are refused; the kernel's own limit is 8192 CPUs."""


def parse(text: str) -> list[int]:
    """The CPUs of a list in rising order, [] for an empty one; ValueError when it is malformed."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        if not is_digits(first) or (dash and not is_digits(last)):
            raise ValueError(f"{part!r} is no CPU number or range")
        low, high = int(first), int(last) if dash else int(first)
        if high < low or high >= MAX_CPU:
            raise ValueError(f"{part!r} is no rising range below {MAX_CPU}")
        cpus.update(range(low, high + 1))
    return sorted(cpus)


def repeated(lists: Iterable[str]) -> str:
    """The CPUs that are in more than one of some lists; ValueError when one is malformed."""
    every = Counter(cpu for text in lists for cpu in parse(text))
    return format(cpu for cpu, times in every.items() if times > 1)


def format(cpus: Iterable[int]) -> str:
    """The shortest list of these CPUs, "" for none."""
    runs: list[tuple[int, int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], cpu)
        else:
            runs.append((cpu, cpu))
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in runs)
