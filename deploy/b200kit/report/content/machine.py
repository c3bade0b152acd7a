"""The node as a person pictures it: NUMA nodes, their GPUs, each GPU's NVLinks.

Built from a HostRecord alone. NVML has GPUs and links, the PCI tree their places, the expectation
their number; whatever is missing in one of them stays unmeasured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from b200kit.report.content.findings import findings_of
from b200kit.report.content.graph import Topology
from b200kit.report.content.topology import FABRIC_STATES, topology
from b200kit.report.document import Unmeasured, integer, items, read, show

_COMPLETED = 3  # NVML_GPU_FABRIC_STATE_COMPLETED
_LINKS = "nvlink.links"  # the hardware data's name for the NVLinks of one GPU


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: where it is, and its links as ``up``, ``down`` or ``unknown`` in link order."""

    label: str
    index: int | None
    module: str
    address: str
    numa: int | None
    links: tuple[str, ...]
    expected_links: int | None
    fabric: str
    replica: int | None = None
    faulty: bool = False
    note: str = ""

    @property
    def up(self) -> int | None:
        """Return how many links are up, or None where no link could be read."""
        known = [link for link in self.links if link != "unknown"]
        return known.count("up") if known else None

    @property
    def total(self) -> int:
        """Return how many links there should be, or else how many were reported."""
        return self.expected_links if self.expected_links is not None else len(self.links)

    @property
    def count(self) -> str:
        """Return the link count as ``0/18``, or ``?/18`` where no link could be read."""
        return f"{'?' if self.up is None else self.up}/{self.total or '?'}"

    @property
    def link_tone(self) -> str:
        """Return good, bad or unknown; links that are up count only on a completed fabric."""
        if (self.up is not None and self.up < self.total) or self.fabric in _not_completed():
            return "bad"
        measured = self.up is not None and "unknown" not in self.links and self.total
        return "good" if measured and self.fabric == FABRIC_STATES[_COMPLETED] else "unknown"

    @property
    def tone(self) -> str:
        """Return the tone of the whole GPU: bad with a failed finding or a bad link."""
        return "bad" if self.faulty else self.link_tone


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node, or (id None) the place of GPUs whose node is not known."""

    id: int | None
    cpus: str
    memory: str
    gpus: tuple[Gpu, ...]

    @property
    def title(self) -> str:
        """Return the name over the box."""
        return "NUMA node unknown" if self.id is None else f"NUMA node {self.id}"


@dataclass(frozen=True, slots=True)
class MachineView:
    """The whole node; `missing` GPUs are expected but neither NVML nor the PCI tree shows them."""

    nodes: tuple[NumaNode, ...]
    gpus: tuple[Gpu, ...]
    expected_gpus: int | None
    missing: int
    missing_modules: tuple[int, ...]
    why_no_gpus: str
    graph: Topology


def machine_of(host: object) -> MachineView:
    """Return the machine of a HostRecord, as far as its state goes."""
    expected = integer(read(host, "expectation", "gpu_count"))
    reading = read(host, "state", "gpus")
    gpus = tuple(_gpus(host))
    missing = max((expected or 0) - len(gpus), 0) if gpus else 0
    modules = {gpu.module for gpu in gpus}
    gaps = [m for m in range(1, (expected or 0) + 1) if str(m) not in modules]
    return MachineView(
        nodes=tuple(_nodes(host, gpus)),
        gpus=gpus,
        expected_gpus=expected,
        missing=missing,
        missing_modules=tuple(gaps) if len(gaps) == missing else (),
        why_no_gpus=str(reading) if isinstance(reading, Unmeasured) else "",
        graph=topology(read(host, "state"), read(host, "expectation")),
    )


def expected_links(expectation: object) -> int | None:
    """Return the NVLinks a GPU should have by the hardware data, or None."""
    return integer(read(expectation, "hardware", "expect", _LINKS, "value"))


def _gpus(host: object) -> Iterator[Gpu]:
    """Yield the GPUs that NVML lists, then those that only the PCI tree shows."""
    per_gpu = expected_links(read(host, "expectation"))
    on_pci = {
        show(read(entry, "address")).lower(): entry
        for entry in items(read(host, "state", "pci", "gpus"))
    }
    failed = {f.subject for f in findings_of(read(host, "verdict")) if f.status == "fail"}
    replicas = _replicas(host)
    for position, entry in enumerate(items(read(host, "state", "gpus"))):
        gpu = _nvml_gpu(entry, position, per_gpu)
        numa = integer(read(on_pci.pop(gpu.address.lower(), None), "numa_node"))
        yield replace(
            gpu,
            numa=numa if numa is not None and numa >= 0 else None,
            replica=None if gpu.index is None else replicas.get(gpu.index),
            faulty=gpu.label in failed,
        )
    for address, entry in on_pci.items():
        yield _pci_only(address, entry, per_gpu)


def _nvml_gpu(entry: object, position: int, per_gpu: int | None) -> Gpu:
    index = integer(read(entry, "index"))
    state = read(entry, "fabric", "state")
    number = integer(state)
    return Gpu(
        label=f"GPU {index}" if index is not None else f"GPU at position {position}",
        index=index,
        module=_short(read(entry, "module_id")),
        address=_short(read(entry, "pci_address")),
        numa=None,
        links=tuple(_link(link) for link in items(read(entry, "links"))),
        expected_links=per_gpu,
        fabric=show(state) if number is None else FABRIC_STATES.get(number, f"state {number}"),
    )


def _pci_only(address: str, entry: object, per_gpu: int | None) -> Gpu:
    numa = integer(read(entry, "numa_node"))
    where = numa if numa is not None and numa >= 0 else None
    silent = "unmeasured: NVML does not list it"
    return Gpu("GPU ?", None, "?", address, where, (), per_gpu, silent, note="not in NVML")


def _link(link: object) -> str:
    state = integer(read(link, "state"))
    return "unknown" if state is None else "up" if state == 1 else "down"


def _short(value: object) -> str:
    return "?" if value is None or isinstance(value, Unmeasured) else show(value)


def _not_completed() -> set[str]:
    return {name for state, name in FABRIC_STATES.items() if state != _COMPLETED}


def _replicas(host: object) -> dict[int, int]:
    """Return the replica of each GPU index in the layout."""
    return {
        gpu: replica
        for row in items(read(host, "layout"))
        for gpu in map(integer, items(read(row, "gpus")))
        if gpu is not None and (replica := integer(read(row, "replica"))) is not None
    }


def _nodes(host: object, gpus: tuple[Gpu, ...]) -> Iterator[NumaNode]:
    """Yield every NUMA node, with or without GPUs, then one for GPUs of no known node."""
    known: set[int | None] = set()
    for entry in items(read(host, "state", "numa")):
        number = integer(read(entry, "id"))
        if number is None or number in known:
            continue
        known.add(number)
        kib = integer(read(entry, "memory_kib"))
        yield NumaNode(
            id=number,
            cpus=show(read(entry, "cpus")) or "none",
            memory="memory unmeasured" if kib is None else f"{kib / 1048576:.0f} GiB",
            gpus=tuple(gpu for gpu in gpus if gpu.numa == number),
        )
    lost = tuple(gpu for gpu in gpus if gpu.numa not in known)
    if lost:
        yield NumaNode(None, "unmeasured", "", lost)
