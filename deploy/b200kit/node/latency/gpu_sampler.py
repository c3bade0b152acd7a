"""The process that reads the GPUs while a load runs, so that NVML costs the client no time.

Each GPU is read by its own thread, so one that hangs costs the others nothing. "ready" is printed
once each has been read, or none can be. When the load is over its begin and end (monotonic seconds)
come as a line on standard input. A parent that died closes it without one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import or_
from typing import Any

import pynvml as n  # type: ignore[import-untyped]

from b200kit.node.client.percentiles import percentile
from b200kit.node.client.smoke_result import Extent, GpuFigures
from b200kit.node.facts.nvml.call import reading, words
from b200kit.node.facts.nvml.gpu import CALLS
from b200kit.node.lib.documents import unstructure
from b200kit.node.lib.program import claim_stdout, emit
from b200kit.node.lib.readings import is_unmeasured, reason
from b200kit.node.state.view import Unmeasured

EVERY_S = 0.2
GRACE_S = 1.0
"""Seconds that a reading under way at the end of the load may still take."""


class Sampler:
    """All GPUs, read until asked to stop."""

    def __init__(self) -> None:
        self.error: str | None = "nvmlInit did not return"
        self.samples: dict[int, list[Sample]] = {}
        self.stop = threading.Event()
        self.read_once = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []

    def run(self) -> None:
        """Start a thread for each GPU; meant for a thread of its own, as NVML may hang."""
        try:
            n.nvmlInit()
            self.samples = {index: [] for index in range(int(n.nvmlDeviceGetCount()))}
        except (n.NVMLError, OSError, AttributeError) as error:
            self.error = words(error)
            return
        self.error = None if self.samples else "NVML lists no GPU"
        self.threads = [threading.Thread(target=self.watch, args=(i,)) for i in self.samples]
        for thread in self.threads:
            thread.daemon = True
            thread.start()

    def watch(self, index: int) -> None:
        """One GPU, again and again."""
        handle = reading(lambda: n.nvmlDeviceGetHandleByIndex(index))
        while not self.stop.is_set():
            found = {
                key: handle if is_unmeasured(handle) else reading(partial(CALLS[key], handle))
                for key in KEYS
            }
            self.samples[index].append(Sample(time.monotonic(), found))
            if len(self.samples[index]) == 1:
                self.read_once.release()
            self.stop.wait(EVERY_S)

    def say_ready(self, out: int) -> None:
        """Tell the parent once every GPU was read, or none can be."""
        for _ in self.samples:
            self.read_once.acquire()
        emit(out, "ready")

    def figures(self, begin: float, end: float) -> Unmeasured | tuple[GpuFigures, ...]:
        """Those of each GPU, or why there are none."""
        self.stop.set()
        deadline = time.monotonic() + GRACE_S
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self.error:
            return Unmeasured(self.error)
        return tuple(
            during(i, list(observed), begin, end) for i, observed in sorted(self.samples.items())
        )


def main(args: list[str]) -> int:
    """Sample until the load's begin and end come on standard input; then print one line."""
    del args
    out, sampler = claim_stdout(), Sampler()

    def collect() -> None:
        sampler.run()
        sampler.say_ready(out)

    threading.Thread(target=collect, daemon=True).start()
    desired = sys.stdin.readline().split()
    if len(desired) == 2:
        emit(out, unstructure(sampler.figures(float(desired[0]), float(desired[1]))))
    # A thread that is stuck in the kernel must not keep this process.
    os._exit(0)


KEYS = ("sm_clock_mhz", "power_usage_mw", "temperature_c", "clocks_event_reasons")
MOST_SILENT_S = 2.0
"""Seconds without a reading that leave too much unseen (inferred: heat slows for longer)."""


@dataclass(frozen=True)
class Sample:
    """One look at a GPU: when it was over (monotonic seconds) and a reading for each of KEYS."""

    at: float
    readings: Mapping[str, Any]


def during(index: int, samples: Sequence[Sample], begin: float, end: float) -> GpuFigures:
    """One GPU's figures: the extent of each number, all event reasons that occurred."""
    observed = [sample for sample in samples if begin <= sample.at <= end]
    silent = _silence([begin, *(sample.at for sample in observed), end])
    if not observed or silent > MOST_SILENT_S:
        why = f"NVML gave no reading for {silent:.1f} s of the {end - begin:.1f} s of the load"
        return GpuFigures(index, len(observed), *(Unmeasured(why),) * 4)
    clock, power, heat, reasons = (
        _numbers([s.readings.get(key) for s in observed]) for key in KEYS
    )
    return GpuFigures(
        index,
        len(observed),
        _extent(clock),
        _extent(power),
        _extent(heat),
        reasons if isinstance(reasons, Unmeasured) else reduce(or_, map(int, reasons)),
    )


def _silence(times: Sequence[float]) -> float:
    return max(after - before for before, after in pairwise(times))


def _numbers(values: Sequence[object]) -> Unmeasured | list[float]:
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values):
        return numbers
    first = next(value for value in values if not isinstance(value, int | float))
    why = reason(first) or "not read"
    return Unmeasured(f"{len(values) - len(numbers)} of {len(values)} readings: {why}")


def _extent(found: Unmeasured | list[float]) -> Unmeasured | Extent:
    if isinstance(found, Unmeasured):
        return found
    return Extent(float(min(found)), percentile(found, 50), float(max(found)))
