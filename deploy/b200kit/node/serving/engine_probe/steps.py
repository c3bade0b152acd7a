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
from b200kit.node.serving.engine_probe.asked import ProbeRequest


@dataclass(frozen=True)
class ProbeStep:
    """One step: returns what was seen, or raises Fault or NotApplicable."""

    name: str
    take: Callable[[ProbeRequest], str]
    within_s: float = 20.0


STEPS = (
    ProbeStep("loopback", network.loopback),
    ProbeStep("netlink", network.netlink),
    ProbeStep("interface", network.interface),
    ProbeStep("shared-memory", memory.shared_memory),
    ProbeStep("locked-memory", memory.locked_memory),
    ProbeStep("executable-memory", memory.executable_memory),
    ProbeStep("cache", memory.cache),
    ProbeStep("compiler", compilers.compiler),
    ProbeStep("headers", compilers.headers, 60.0),
    ProbeStep("cuda", cuda.cuda, 60.0),
    ProbeStep("triton", compilers.triton, 120.0),
    ProbeStep("all-reduce", collective.all_reduce, 120.0),
    ProbeStep("flashinfer", flashinfer.kernels, 120.0),
)
BY_NAME = {step.name: step for step in STEPS}
