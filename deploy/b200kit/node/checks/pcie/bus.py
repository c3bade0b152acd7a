"""Walks over the PCI bus for checks: the GPUs on it and the bridges above them. No check itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from b200kit.node.checks.findings import unread
from b200kit.node.checks.node_scale import in_words
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import GpuView, StateView, Unmeasured, View

AT_REST = "2.5 GT/s"
"""The lowest speed, to which links are brought down when nothing is sent; a stuck one has more."""


@dataclass(frozen=True)
class BusGpu:
    """One GPU as the kernel lists it; `known` is the same as NVML knows it, if it does."""

    entry: View
    known: GpuView | None

    @property
    def name(self) -> str:
        """ "GPU 2", or by its address where NVML does not list it."""
        return self.known.subject if self.known else f"the GPU at {self.entry.at('address').raw()}"

    @property
    def rests(self) -> bool:
        """Whether its link is known to have the speed of rest."""
        return str(self.entry.text("current_link_speed")).startswith(AT_REST)

    @property
    def part(self) -> str:
        """What a person needs to find it."""
        return self.known.part if self.known else f"PCI {self.entry.at('address').raw()}"


@dataclass(frozen=True)
class Bridge:
    """One PCI bridge above a GPU; the last one shares its link with the GPU."""

    entry: View
    beside_gpu: bool
    gpu_rests: bool = False

    @property
    def name(self) -> str:
        """ "bridge 0000:88:01.0"."""
        return f"bridge {self.entry.text('address') or self.entry.path}"


def bus_gpus(state: StateView) -> list[BusGpu] | Unmeasured:
    """Every GPU on the PCI bus; Unmeasured where there is none to look at."""
    entries = state.items("pci", "gpus")
    if isinstance(entries, Unmeasured):
        return entries
    found = [BusGpu(e, state.gpu_at(str(e.at("address").raw()))) for e in entries]
    return found or Unmeasured("the PCI bus lists no GPU")


def each_on_bus(
    state: StateView, check_gpu: Callable[[BusGpu], Iterable[Finding]], all_well: Finding
) -> Iterator[Finding]:
    """What `check_gpu` finds on every GPU of the bus; `all_well` when nothing of it blocks."""
    gpus = bus_gpus(state)
    if isinstance(gpus, Unmeasured):
        yield unread("the PCI bus", gpus)
        return
    found = [finding for gpu in gpus for finding in check_gpu(gpu)]
    yield from found
    if not any(finding.blocks for finding in found):
        yield all_well


def each_bridge(
    state: StateView, check_bridge: Callable[[Bridge], Iterable[Finding]], all_well: Finding
) -> Iterator[Finding]:
    """What `check_bridge` finds on every bridge above a GPU, each once with the GPUs below it."""
    gpus = bus_gpus(state)
    if isinstance(gpus, Unmeasured):
        yield unread("the PCI bus", gpus)
        return
    below: dict[Finding, list[str]] = {}
    for gpu in gpus:
        for finding in above(gpu, check_bridge):
            names = below.setdefault(finding, [])
            names += [gpu.name] if gpu.name not in names else []
    for finding, names in below.items():
        summary = f"{finding.summary} (above {in_words(names)})"
        yield replace(finding, summary=summary, subjects=tuple(names))
    if not below:
        yield all_well


def above(gpu: BusGpu, check_bridge: Callable[[Bridge], Iterable[Finding]]) -> Iterator[Finding]:
    """What `check_bridge` finds on the bridges of one GPU; that none is listed is unmeasured."""
    entries = gpu.entry.items("bridges")
    if isinstance(entries, Unmeasured):
        yield unread("the PCI bridges", entries)
    elif not entries:
        yield unread("the PCI bridges", Unmeasured("none is listed"))
    else:
        for entry in entries:
            yield from check_bridge(Bridge(entry, entry is entries[-1], gpu.rests))
