"""Wait until the fabric of every GPU has settled: no GPU not started or in progress any more.

Fabric manager takes up to half a minute after boot, and judging before it is done would call a good
node bad. Waiting is not judging: what it settled to is for the gate to say.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import Any

from deploy.core.checks.fabric import STATES
from deploy.core.state import StateView
from deploy.node.nvml import Worker

UNSETTLED = (1, 2)
"""nvml.h NVML_GPU_FABRIC_STATE_NOT_STARTED and _IN_PROGRESS."""
PAUSE_S = 1.0
NVML_TIMEOUT_S = 20.0


def fabric_states(reading: dict[str, Any]) -> list[int | None]:
    """Fabric state of every GPU in NVML's part of a NodeState, None where it was not read."""
    gpus = StateView(reading).gpus()
    states = [gpu.number("fabric", "state") for gpu in gpus or []]
    return [state if isinstance(state, int) else None for state in states]


def unsettled(states: list[int | None]) -> bool:
    """Whether waiting can still help."""
    return any(state in UNSETTLED for state in states)


def told(states: list[int | None]) -> str:
    """The states on one line, "7 completed, 1 in progress"."""
    words = [STATES.get(state, str(state)) if state is not None else "unread" for state in states]
    counts = Counter(words)
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "no GPU was read"


def wait(deadline_s: float) -> list[int | None]:
    """Poll until settled or for `deadline_s` seconds; the last states read."""
    end = time.monotonic() + deadline_s
    while True:
        states = fabric_states(Worker(NVML_TIMEOUT_S).result())
        if not unsettled(states) or time.monotonic() >= end:
            return states
        time.sleep(min(PAUSE_S, max(0.0, end - time.monotonic())))


def main(args: list[str]) -> int:
    """Wait and print the states on one line; 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="wait-fabric")
    parser.add_argument("--deadline", type=float, default=120.0, help="seconds, 120 by default")
    print(f"fabric: {told(wait(parser.parse_args(args).deadline))}")
    return 0
