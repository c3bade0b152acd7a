"""What the hardware data says of a node's GPUs and connections. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.node.state.view import Unmeasured, View


@dataclass(frozen=True)
class ExpectedGraph:
    """What the hardware data says of the graph; None where it says nothing, so nothing is good."""

    gpus: int | None
    links: int | None
    speed_floor: int | None
    width: int | None
    generation: int | None
    p2p: int | None
    fabric: dict[str, int | None]


FABRIC_KEYS = {
    "state": "fabric.state",
    "status": "fabric.status",
    "health_summary": "fabric.health",
}
"""What says that a GPU is in the fabric, by the name of its expectation."""


def expected_graph(expectation: object) -> ExpectedGraph:
    """The expected graph, from an expectation document."""
    view = View(expectation)

    def of(name: str) -> int | None:
        return known(view.number("hardware", "expect", name, "value"))

    names = ("nvlink.links", "nvlink.speed_floor", "pcie.width", "pcie.generation")
    links, floor, width, generation = map(of, names)
    gpus = known(view.number("gpu_count"))
    fabric = {key: of(name) for key, name in FABRIC_KEYS.items()}
    return ExpectedGraph(gpus, links, floor, width, generation, of("p2p.status"), fabric)


def known(reading: int | Unmeasured) -> int | None:
    """A number, or None when it was not read."""
    return None if isinstance(reading, Unmeasured) else reading
