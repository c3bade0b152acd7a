"""The PCIe side of the machine picture: switches over their GPUs, data NICs at the switch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from b200kit.report.content.graph import UNKNOWN, GraphGpu, GraphNic, Topology, worst
from b200kit.report.content.topology import common
from b200kit.report.document import clean
from b200kit.report.html.svg import box, clip, group, line, text

HEIGHT = 76.0  # of the band between a NUMA box's head and its GPUs
_BAR_TOP, _BAR = 26.0, 18.0
_CHIP, _CHIP_HEIGHT, _CHIP_GAP = 54.0, 17.0, 4.0

Placed = tuple[float, GraphGpu]
"""A GPU of the graph and the left edge of its tile."""


def switch_of(gpu: GraphGpu, graph: Topology) -> str:
    """The deepest bridge that a GPU shares with another GPU or a data NIC, else its root port."""
    path = gpu.bridges or ()
    others = [other.bridges or () for other in graph.gpus if other is not gpu]
    others += [nic.bridges for nic in graph.data_nics]
    depth = max((common(path, other) for other in others), default=0)
    return path[max(depth, 1) - 1] if path else ""


def band(placed: Sequence[Placed], graph: Topology, top: float, tile: float) -> Iterator[str]:
    """Yield a bar for each switch with its NICs above it and its GPUs' links below."""
    for switch, members in groupby(placed, key=lambda one: switch_of(one[1], graph)):
        yield from _switch(switch, list(members), graph, top, tile)


def elsewhere(node: int | None, graph: Topology) -> str:
    """Return the data NICs of a NUMA node that hang at no GPU's switch, in words."""
    if graph.nics_why:
        return f"NICs unmeasured: {clean(graph.nics_why)}"
    switches = {switch_of(gpu, graph) for gpu in graph.gpus}
    here = [n for n in graph.data_nics if n.numa == node and not switches & {*n.bridges}]
    return f"other NICs: {', '.join(clean(nic.name) for nic in here)}" if here else ""


def chips(nics: Sequence[GraphNic], x: float, y: float, room: float, class_: str) -> Iterator[str]:
    """Yield as many NICs as fit beside each other, and how many more there are."""
    fit = max(int((room + _CHIP_GAP) // (_CHIP + _CHIP_GAP)), 1)
    shown = nics if len(nics) <= fit else nics[: fit - 1]
    names = [(clean(n.name), _nic_tip(n)) for n in shown]
    if len(nics) > fit:
        names.append((f"+{len(nics) - len(shown)}", ", ".join(clean(n.name) for n in nics)))
    for i, (name, tip) in enumerate(names):
        left = x + i * (_CHIP + _CHIP_GAP)
        yield group(
            box(left, y, _CHIP, _CHIP_HEIGHT, class_, 3),
            text(left + _CHIP / 2, y + 12.5, clip(name, _CHIP - 4, 6.2), "t-nic", "middle"),
            tip=tip,
        )


def _nic_tip(nic: GraphNic) -> str:
    node = "?" if nic.numa is None else nic.numa
    use = "switch management, carries no data" if nic.management else "data"
    return clean(f"{nic.name}, PCI {nic.address}, NUMA node {node}, {use}")


def _switch(
    switch: str, members: list[Placed], graph: Topology, top: float, tile: float
) -> Iterator[str]:
    left, right = members[0][0], members[-1][0] + tile
    shared = [
        lane for _, g in members for lane in g.lanes[:-1] if lane.address in _above(g, switch)
    ]
    tone = worst(*(lane.tone for lane in shared)) if switch else UNKNOWN
    nics = [nic for nic in graph.data_nics if switch and switch in nic.bridges]
    for i in range(min(len(nics), int((right - left + _CHIP_GAP) // (_CHIP + _CHIP_GAP)))):
        middle = left + i * (_CHIP + _CHIP_GAP) + _CHIP / 2
        yield line(middle, top + _CHIP_HEIGHT, middle, top + _BAR_TOP, "lane quiet")
    yield from chips(nics, left, top, right - left, "nic")
    worst_lane = min(shared, key=lambda lane: (lane.tone != tone, lane.width or 0), default=None)
    fault = f"  {worst_lane.text}" if worst_lane and tone == "bad" else ""
    name = f"PCIe {switch}{fault}" if switch else "path unmeasured"
    middle, room = (left + right) / 2, right - left
    yield group(
        box(left, top + _BAR_TOP, right - left, _BAR, f"pcie {tone}", 4),
        text(middle, top + _BAR_TOP + 13, clip(name, room, 6), "t-nic", "middle"),
        tip=f"{name}: {', '.join(lane.text for lane in dict.fromkeys(shared)) or 'unmeasured'}",
    )
    for x, gpu in members:
        yield from _lane(gpu, switch, x + tile / 2, top)


def _above(gpu: GraphGpu, switch: str) -> tuple[str, ...]:
    """The bridges of a GPU's path down to the switch."""
    path = gpu.bridges or ()
    return path[: path.index(switch) + 1] if switch in path else ()


def _lane(gpu: GraphGpu, switch: str, x: float, top: float) -> Iterator[str]:
    """The link from the switch to the GPU, with its width beside it: all below the switch."""
    above = _above(gpu, switch)
    own = [lane for lane in gpu.lanes if lane.address not in above]
    tone = worst(*(lane.tone for lane in own))
    shown = min(own, key=lambda lane: (lane.tone != tone, lane.width or 0))
    y = top + _BAR_TOP + _BAR
    yield line(x, y, x, top + HEIGHT, f"lane {tone}")
    yield text(x + 8, (y + top + HEIGHT) / 2 + 4, shown.text, f"t-lane {tone}")
