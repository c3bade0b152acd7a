"""The steps of the probe, causes before symptoms, each with the time it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from b200kit.node.serving.engine_probe import (
    collective,
    compilers,
    cuda,
    flashinfer,
    memory,
    network,
)
from b200kit.node.serving.engine_probe.asked import Asked


@dataclass(frozen=True)
class Step:
    """One step: returns what was seen, or raises Fault or NotApplicable."""

    name: str
    take: Callable[[Asked], str]
    within_s: float = 20.0


STEPS = (
    Step("loopback", network.loopback),
    Step("netlink", network.netlink),
    Step("interface", network.interface),
    Step("shared-memory", memory.shared_memory),
    Step("locked-memory", memory.locked_memory),
    Step("executable-memory", memory.executable_memory),
    Step("cache", memory.cache),
    Step("compiler", compilers.compiler),
    Step("headers", compilers.headers, 60.0),
    Step("cuda", cuda.cuda, 60.0),
    Step("triton", compilers.triton, 120.0),
    Step("all-reduce", collective.all_reduce, 120.0),
    Step("flashinfer", flashinfer.kernels, 120.0),
)
BY_NAME = {step.name: step for step in STEPS}
