"""Kernel CPU lists and masks."""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str) -> list[int]:
    """`0-2,8` -> [0, 1, 2, 8]; the empty list for the empty text."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        cpus.extend(range(int(first), int(last if dash else first) + 1))
    return cpus


def mask(cpus: Iterable[int], width: int) -> str:
    """The kernel's mask text for `cpus`: 32-bit words in hex, highest first, for `width` CPUs."""
    bits = sum(1 << cpu for cpu in set(cpus))
    words = max(1, -(-width // 32))
    return ",".join(f"{bits >> (32 * word) & 0xFFFFFFFF:08x}" for word in reversed(range(words)))


def ids(numbers: Iterable[int]) -> str:
    """[0, 1, 2, 5] -> `0-2,5`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
