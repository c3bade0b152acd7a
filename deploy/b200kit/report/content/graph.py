"""A node's GPUs and what connects them; topology.py builds it from an observation. Pure.

    NVSwitch fabric == GPU == P2P of every ordered pair
                        |
    NUMA node -- root port -- PCIe switch -- port     (and the data NICs at the same switch)

Every connection has a tone: good, bad, or unknown where it was not judged or not read.
"""

from __future__ import annotations

from dataclasses import dataclass

GOOD, BAD, UNKNOWN = "good", "bad", "unknown"
COMPLETED = "completed"
"""The state of a GPU's fabric in which its NVLinks carry data."""


def worst(*tones: str) -> str:
    """The worst of several tones; none at all is unknown."""
    return next((tone for tone in (BAD, UNKNOWN) if tone in tones), GOOD if tones else UNKNOWN)


@dataclass(frozen=True)
class Pair:
    """The P2P of an ordered pair of GPUs, as `topo -m` writes it."""

    text: str
    tone: str


@dataclass(frozen=True)
class Links:
    """The NVLinks between one GPU and the fabric; `states` are up, down or unknown in link order.

    `down` and `slow` are link numbers.
    """

    up: int | None
    expected: int | None
    states: tuple[str, ...]
    down: tuple[int, ...]
    slow: tuple[int, ...]
    tone: str

    @property
    def total(self) -> int:
        """How many links there should be, or else how many were reported."""
        return len(self.states) if self.expected is None else self.expected

    @property
    def text(self) -> str:
        """ "17/18", with a question mark for what is not known."""
        return f"{'?' if self.up is None else self.up}/{self.total or '?'}"


@dataclass(frozen=True)
class Fabric:
    """A GPU's place in the fabric: its state, and which other readings are not as expected."""

    state: str
    faults: tuple[str, ...]
    tone: str

    @property
    def text(self) -> str:
        """ "completed", and what is not as expected."""
        return ", ".join([self.state, *self.faults])


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
class GraphNic:
    """One RDMA device; `management` ones are the switches' own and carry no data."""

    name: str
    address: str
    numa: int | None
    bridges: tuple[str, ...]
    management: bool | None


@dataclass(frozen=True)
class GraphGpu:
    """One GPU; `lanes` go from the root port to the GPU itself, which is the last.

    `position` is its place in NVML's list; a GPU that only the PCI tree shows has none.
    """

    index: int | None
    position: int | None
    module: int | None
    address: str
    numa: int | None
    numa_tone: str
    links: Links
    fabric: Fabric
    lanes: tuple[Lane, ...]
    bridges: tuple[str, ...] | None
    nics: tuple[str, ...]
    nic_path: str

    @property
    def name(self) -> str:
        """Its name, as in findings where NVML gives its index."""
        if self.index is not None:
            return f"GPU {self.index}"
        return "GPU ?" if self.position is None else f"GPU at position {self.position}"

    @property
    def pcie(self) -> Lane:
        """The worst link of the path, the narrowest of several."""
        order = {BAD: 0, UNKNOWN: 1, GOOD: 2}
        return min(self.lanes, key=lambda lane: (order[lane.tone], lane.width or 0))

    @property
    def nvlink_tone(self) -> str:
        """The tone of its NVLinks, which carry data only in a fabric that is as expected."""
        return worst(self.links.tone, self.fabric.tone)

    @property
    def tone(self) -> str:
        """The worst of its connections: to the fabric, to the PCIe root, to its NUMA node."""
        lanes = (lane.tone for lane in self.lanes)
        return worst(self.nvlink_tone, *lanes, self.numa_tone)


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node, or (id None) the place of GPUs whose node is not known."""

    id: int | None
    cpus: str
    memory: str
    gpus: tuple[GraphGpu, ...]

    @property
    def title(self) -> str:
        """The name over the box."""
        return "NUMA node unknown" if self.id is None else f"NUMA node {self.id}"


@dataclass(frozen=True)
class Topology:
    """The whole node; `pairs` holds every ordered pair of the GPUs by position.

    `missing` GPUs are expected, but neither NVML nor the PCI tree shows them.
    """

    gpus: tuple[GraphGpu, ...]
    numa: tuple[NumaNode, ...]
    nics: tuple[GraphNic, ...]
    nics_why: str
    pairs: dict[tuple[int, int], Pair]
    expected: int | None
    why: str
    count_tone: str

    @property
    def missing(self) -> int:
        """How many GPUs are expected and not found."""
        return max((self.expected or 0) - len(self.gpus), 0)

    @property
    def missing_modules(self) -> list[int]:
        """The modules of the missing GPUs by elimination; empty where that does not tell them."""
        free = {*range(1, (self.expected or 0) + 1)} - {gpu.module for gpu in self.gpus}
        return sorted(free) if len(free) == self.missing else []

    @property
    def data_nics(self) -> tuple[GraphNic, ...]:
        """The NICs that carry data; one that may be the switches' own is none."""
        return tuple(nic for nic in self.nics if nic.management is False)

    @property
    def management(self) -> tuple[GraphNic, ...]:
        """The devices through which the switches are managed."""
        return tuple(nic for nic in self.nics if nic.management)

    @property
    def tone(self) -> str:
        """The worst connection of any GPU; no GPU at all is unknown, a missing one is bad."""
        tones = [gpu.tone for gpu in self.gpus]
        pairs = [pair.tone for pair in self.pairs.values()]
        return worst(*tones, *pairs, *([self.count_tone] if self.missing else []))
