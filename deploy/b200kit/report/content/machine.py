"""The machine of a HostRecord: what its observation shows, and what the run made of each GPU."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.report.content.graph import BAD, Gpu, Topology
from b200kit.report.content.topology import topology
from b200kit.report.content.verdict import verdict_of
from b200kit.report.document import integer, items, read


@dataclass(frozen=True, slots=True)
class MachineView:
    """The node, the names of its GPUs with a failed finding, the replica of each GPU index."""

    graph: Topology
    faulty: frozenset[str]
    replicas: dict[int | None, int]

    def tone(self, gpu: Gpu) -> str:
        """Return the tone of a GPU: bad with a failed finding, else that of its NVLinks."""
        return BAD if gpu.name in self.faulty else gpu.nvlink_tone


def machine_of(host: object) -> MachineView:
    """Return the machine of a HostRecord, as far as its state goes."""
    findings = verdict_of(host).findings
    return MachineView(
        graph=topology(read(host, "state"), read(host, "expectation"), read(host, "verdict")),
        faulty=frozenset(
            name for f in findings if f.status == "fail" for name in (f.subject, *f.subjects)
        ),
        replicas={
            gpu: replica
            for row in items(read(host, "layout"))
            for gpu in map(integer, items(read(row, "gpus")))
            if gpu is not None and (replica := integer(read(row, "replica"))) is not None
        },
    )
