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
from functools import partial
from typing import Any

import pynvml as n  # type: ignore[import-untyped]

from b200kit.node.facts.nvml.call import reading, words
from b200kit.node.facts.nvml.gpu import CALLS
from b200kit.node.latency.gpu_samples import KEYS, Sample, during
from b200kit.node.lib.readings import is_unmeasured, unmeasured
from b200kit.node.lib.stdout import claim_stdout, emit

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

    def document(self, begin: float, end: float) -> Any:
        """One entry a GPU, or why there is none."""
        self.stop.set()
        deadline = time.monotonic() + GRACE_S
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self.error:
            return unmeasured(self.error)
        return [
            during(i, list(observed), begin, end) for i, observed in sorted(self.samples.items())
        ]


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
        emit(out, sampler.document(float(desired[0]), float(desired[1])))
    # A thread that is stuck in the kernel must not keep this process.
    os._exit(0)
