"""Walks over the PCI bus for checks: the GPUs on it and the bridges above them. No check itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from b200kit.node.checks.findings import within
from b200kit.node.checks.node_scale import in_words
from b200kit.node.state.verdict import Finding, cause
from b200kit.node.state.view import GpuView, StateView, Unread, View

AT_REST = "2.5 GT/s"
"""The lowest speed, to which links are brought down when nothing is sent; a stuck one has more."""

IDLE = 1
"""Clock event reason of a GPU on which nothing runs (nvmlClocksEventReasonGpuIdle)."""


@dataclass(frozen=True)
class BusGpu:
    """One GPU as the kernel lists it; `known` is the same as NVML knows it, if it does."""

    entry: View
    known: GpuView | None

    @property
    def subject(self) -> str:
        """ "GPU 2", or by its address where NVML does not list it."""
        return self.known.subject if self.known else f"the GPU at {self.entry.reading('address')}"

    @property
    def rests(self) -> bool:
        """Whether its link has the speed of rest, and the GPU does not work.

        Raises Unread where it has that speed, and what the GPU does was not read.
        """
        slow = (self.entry.known(str, "current_link_speed") or "").startswith(AT_REST)
        if not slow or self.known is None or self.known.is_missing("clocks_event_reasons"):
            return slow
        return bool(self.known.number("clocks_event_reasons") & IDLE)

    @property
    def part(self) -> str:
        """What a person needs to find it."""
        return self.known.part if self.known else self.slot

    @property
    def slot(self) -> str:
        """Where it is on the bus."""
        return f"PCI {self.entry.reading('address')}"


@dataclass(frozen=True)
class Bridge:
    """One PCI bridge above a GPU; the last one shares its link with the GPU.

    It is a subject of its own: the GPUs below it are not to blame.
    """

    entry: View
    beside_gpu: bool
    gpu_rests: bool = False

    @property
    def subject(self) -> str:
        """ "bridge 0000:88:01.0"."""
        return f"bridge {self.entry.known(str, 'address') or self.entry.path}"

    @property
    def part(self) -> str:
        """What a person needs to find it."""
        return f"PCI {self.subject}"


def bus_gpus(state: StateView) -> list[BusGpu]:
    """Every GPU on the PCI bus; that there is none raises Unread."""
    entries = state.items("pci", "gpus")
    if not entries:
        raise Unread("pci.gpus", "the PCI bus lists no GPU")
    return [BusGpu(entry, state.gpu_at(str(entry.reading("address")))) for entry in entries]


def each_bridge(
    state: StateView, check_bridge: Callable[[Bridge], Iterable[Finding]], all_well: Finding
) -> Iterator[Finding]:
    """What `check_bridge` finds on every bridge above a GPU, each once with the GPUs below it."""
    below: dict[Finding, list[str]] = {}
    for gpu in bus_gpus(state):
        for finding in within(above(gpu, check_bridge)):
            # Every GPU below a bridge lists it, so its place in the document is not its own.
            names = below.setdefault(replace(finding, summary=cause(finding.summary)), [])
            names += [gpu.subject] if gpu.subject not in names else []
    for finding, names in below.items():
        summary = f"{finding.summary} (above {in_words(names)})"
        yield replace(finding, summary=summary, subjects=tuple(names))
    if not below:
        yield all_well


def above(gpu: BusGpu, check_bridge: Callable[[Bridge], Iterable[Finding]]) -> Iterator[Finding]:
    """What `check_bridge` finds on the bridges of one GPU; it may be on the root bus itself."""
    entries = gpu.entry.items("bridges")
    for entry in entries:
        bridge = Bridge(entry, entry is entries[-1], gpu.rests)
        yield from within(check_bridge(bridge), bridge)
