"""How figures are printed, and why there are none."""

from __future__ import annotations

import json
import os
from typing import Any


class Missing(Exception):
    """What is to be measured cannot be had on this machine; the text says why."""


def show(name: str, **figures: Any) -> None:
    """One line: what was measured, and each figure by its name."""
    print(f"  {name}: " + "  ".join(f"{key} {_short(value)}" for key, value in figures.items()))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return value if isinstance(value, str) else json.dumps(value)


def a_cpu_each() -> list[int]:
    """This process's CPUs; Missing where two processes would share one and measure each other."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise Missing("client and server need a CPU each")
    return cpus
