"""The vertices and edges of a node's graph; topology.py builds it from an observation. Pure.

    NVSwitch fabric == GPU == P2P of every ordered pair
                        |
    NUMA node -- root port -- PCIe switch -- port     (and the data NICs at the same switch)

Every edge has a tone: good, bad, or unknown where it was not read or has no expectation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

GOOD, BAD, UNKNOWN = "good", "bad", "unknown"
FABRIC = "NVSwitch fabric"
ROOT = "PCIe root"


def worst(*tones: str) -> str:
    """The worst of several tones; none at all is unknown."""
    return next((tone for tone in (BAD, UNKNOWN) if tone in tones), GOOD if tones else UNKNOWN)


@dataclass(frozen=True)
class Edge:
    """Two vertices by name, what connects them (nvlink, p2p, pcie, numa), its state in words."""

    a: str
    b: str
    kind: str
    text: str
    tone: str


@dataclass(frozen=True)
class Links:
    """The NVLinks between one GPU and the fabric, by link number."""

    up: int | None
    expected: int | None
    down: tuple[int, ...]
    slow: tuple[int, ...]
    tone: str
    why: str = ""

    @property
    def text(self) -> str:
        """ "17/18", with a question mark for what is not known."""
        known = ("?" if number is None else str(number) for number in (self.up, self.expected))
        return "/".join(known)


@dataclass(frozen=True)
class Lane:
    """One PCIe link on the way from the root to a GPU, named by the address at its lower end.

    Width is the negotiated one. The generation is the highest that both ends can do: at rest the
    negotiated one is lower, to save power.
    """

    address: str
    width: int | None
    generation: int | None
    tone: str

    @property
    def text(self) -> str:
        """ "gen5 x16", with a question mark for what was not read."""
        generation = "?" if self.generation is None else self.generation
        return f"gen{generation} x{'?' if self.width is None else self.width}"


@dataclass(frozen=True)
class Nic:
    """One RDMA device; `management` ones are the switches' own and carry no data."""

    name: str
    address: str
    numa: int | None
    bridges: tuple[str, ...]
    management: bool | None


@dataclass(frozen=True)
class Gpu:
    """One GPU; `lanes` go from the root port to the GPU itself, which is the last."""

    name: str
    address: str
    numa: int | None
    links: Links
    fabric: str
    fabric_tone: str
    lanes: tuple[Lane, ...]
    bridges: tuple[str, ...] | None
    nics: tuple[str, ...]
    nic_path: str

    @property
    def pcie(self) -> Lane:
        """The worst link of the path, the narrowest of several."""
        order = {BAD: 0, UNKNOWN: 1, GOOD: 2}
        return min(self.lanes, key=lambda lane: (order[lane.tone], lane.width or 0))

    @property
    def tone(self) -> str:
        """The worst of the GPU's own edges."""
        return worst(*(edge.tone for edge in self.edges()))

    def edges(self) -> Iterator[Edge]:
        """Its edges to the fabric, up to the PCIe root, and to its NUMA node."""
        fabric = f"{self.links.text} links, fabric {self.fabric}"
        yield Edge(self.name, FABRIC, "nvlink", fabric, worst(self.links.tone, self.fabric_tone))
        ends = [ROOT, *(lane.address for lane in self.lanes[:-1]), self.name]
        for (a, b), lane in zip(pairwise(ends), self.lanes, strict=True):
            yield Edge(a, b, "pcie", lane.text, lane.tone)
        yield numa_edge(self.name, self.numa)


@dataclass(frozen=True)
class Topology:
    """The whole graph; `pairs` holds every ordered pair of the GPUs by position."""

    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    nics_why: str
    pairs: dict[tuple[int, int], Edge]
    missing: int
    why: str

    @property
    def data_nics(self) -> tuple[Nic, ...]:
        """The NICs that carry data; one that may be the switches' own is none."""
        return tuple(nic for nic in self.nics if nic.management is False)

    @property
    def management(self) -> tuple[Nic, ...]:
        """The devices through which the switches are managed."""
        return tuple(nic for nic in self.nics if nic.management)

    def edges(self) -> list[Edge]:
        """Every edge of the graph once; GPUs share the upper part of their PCIe paths."""
        found = [edge for gpu in self.gpus for edge in gpu.edges()]
        found += [numa_edge(nic.name, nic.numa) for nic in self.nics]
        return list(dict.fromkeys([*found, *self.pairs.values()]))

    @property
    def tone(self) -> str:
        """The worst edge of any GPU; no GPU at all is unknown, a missing one is bad."""
        tones = [gpu.tone for gpu in self.gpus]
        pairs = [pair.tone for pair in self.pairs.values()]
        return worst(*tones, *pairs, *([BAD] if self.missing else []))


def numa_edge(name: str, node: int | None) -> Edge:
    """The edge between a device and its NUMA node."""
    tone = UNKNOWN if node is None else GOOD
    return Edge(name, f"NUMA node {'?' if node is None else node}", "numa", "", tone)
