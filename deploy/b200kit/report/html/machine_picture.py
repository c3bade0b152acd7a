"""The picture of a node: PCIe switches and NICs above the GPUs, NVLinks and their switch below."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.report.content.facts import fabric_line, links_line
from b200kit.report.content.graph import COMPLETED, GraphGpu, NumaNode, Topology
from b200kit.report.content.topology import MachineView
from b200kit.report.html import pcie_picture
from b200kit.report.html.svg import box, clip, el, group, line, picture, text

TILE, TILE_HEIGHT, GAP, PAD = 112.0, 84.0, 8.0, 12.0
HEAD = 66.0  # room for a box's title, CPUs, memory and the NICs beside its switches
TILE_TOP = HEAD + pcie_picture.HEIGHT
LINKS_TOP = TILE_TOP + TILE_HEIGHT + PAD + 1
SWITCH_TOP = LINKS_TOP + 84
HEIGHT = SWITCH_TOP + 66
SWITCH_LEAST = 450.0  # room for the words in the switch
_SMALL = 5.9  # width of a character of the small text


def diagram(machine: MachineView) -> str:
    """Return the picture as SVG, or an empty string where nothing of the machine is known."""
    graph = machine.graph
    if not graph.numa and not graph.gpus:
        return ""
    parts: list[str] = []
    x = 1.0
    for node in graph.numa:
        width = box_width(len(node.gpus))
        parts.append(_numa(node, machine, x, width))
        x += width + 14
    if graph.missing and graph.gpus:
        width = box_width(graph.missing)
        parts.append(_missing(graph, x, width))
        x += width + 14
    width = max(x - 13, SWITCH_LEAST)
    label = f"NUMA nodes, GPUs and NVLinks: {links_line(graph)}, {fabric_line(graph)}"
    return picture(
        width, HEIGHT, label, *parts, _switch(graph, width),
        class_="machine", least=width * 0.8, most=width,
    )  # fmt: skip


def box_width(gpus: int) -> float:
    """Return the width of a NUMA node's box; one without GPUs keeps the room of a tile."""
    tiles = max(gpus, 1)
    return tiles * TILE + (tiles - 1) * GAP + 2 * PAD


def _numa(node: NumaNode, machine: MachineView, x: float, width: float) -> str:
    frame = box(x, 1, width, TILE_TOP + TILE_HEIGHT + PAD, "numa")
    parts = [frame, text(x + PAD, 21, node.title, "t-head")]
    room = width - 2 * PAD
    if len(node.gpus) > 1:
        parts.append(text(x + width - PAD, 21, node.memory, "t-small", "end"))
    parts.append(text(x + PAD, 39, clip(f"CPUs {node.cpus}", room, _SMALL), "t-small"))
    tip = f"{node.title}: CPUs {node.cpus}, {node.memory or 'memory unmeasured'}"
    beside = pcie_picture.elsewhere(node.id, machine.graph)
    parts.append(text(x + PAD, 55, clip(beside, room, _SMALL), "t-small"))
    if not node.gpus:
        parts.append(box(x + PAD, TILE_TOP, TILE, TILE_HEIGHT, "tile ghost"))
        middle = (x + PAD + TILE / 2, TILE_TOP + TILE_HEIGHT / 2 + 4)
        parts.append(text(*middle, "no GPU", "t-small", "middle"))
    placed = [(x + PAD + i * (TILE + GAP), gpu) for i, gpu in enumerate(node.gpus)]
    parts += [_gpu(gpu, at, machine) for at, gpu in placed]
    parts += pcie_picture.band(placed, machine.graph, HEAD, TILE)
    return group(*parts, tip=tip)


def _gpu(gpu: GraphGpu, x: float, machine: MachineView) -> str:
    module = f"module {'?' if gpu.module is None else gpu.module}"
    tip = f"{gpu.name}, {module}, PCI {gpu.address}: {gpu.links.text} links up"
    tone = machine.tone(gpu)
    replica = machine.replicas.get(gpu.index)
    parts = [
        box(x, TILE_TOP, TILE, TILE_HEIGHT, f"tile {tone}"),
        box(x, TILE_TOP, 5, TILE_HEIGHT, f"edge {tone}", 2),
        text(x + 13, TILE_TOP + 21, clip(gpu.name, TILE - 16, 8.6), "t-gpu"),
        text(x + 13, TILE_TOP + 39, "not in NVML" if gpu.position is None else module, "t-small"),
        text(x + 13, TILE_TOP + 56, clip(gpu.address, TILE - 16, 6.9), "t-mono"),
        text(
            x + 13,
            TILE_TOP + 74,
            "no replica" if replica is None else f"replica {replica}",
            "t-small",
        ),
        *_links(gpu, x),
        *_count(gpu, x + TILE / 2),
    ]
    return group(*parts, tip=f"{tip}; fabric {gpu.fabric.state}")


def _links(gpu: GraphGpu, x: float) -> Iterator[str]:
    """Yield a line a link; a link that is down ends before it reaches the switch."""
    states = gpu.links.states
    unread = ("unknown",) * max((gpu.links.expected or 1) - len(states), 0)
    links = (*states, *unread)[:36]
    step = (TILE - 12) / max(len(links) - 1, 1)
    completed = gpu.fabric.state == COMPLETED
    for i, state in enumerate(links):
        at = x + 6 + i * step if len(links) > 1 else x + TILE / 2
        kind = "up" if state != "up" or completed else "waiting"
        name = f"link {state if state != 'up' else kind}"
        yield line(at, LINKS_TOP, at, SWITCH_TOP - (52 if state == "down" else 0), name)


def _count(gpu: GraphGpu, middle: float) -> Iterator[str]:
    top = LINKS_TOP + 36
    yield box(middle - 29, top, 58, 22, f"pill {gpu.nvlink_tone}", 11)
    yield text(middle, top + 15.5, gpu.links.text, "t-pill", "middle")
    state = gpu.fabric.state
    if state != COMPLETED:
        words = "fabric unread" if state.startswith("unmeasured") else state
        yield box(middle - 46, top + 25, 92, 18, "plate", 3)
        yield text(middle, top + 38, clip(words, 92, 6), "t-small", "middle")


def _missing(graph: Topology, x: float, width: float) -> str:
    parts = [
        box(x, 1, width, TILE_TOP + TILE_HEIGHT + PAD, "numa lost"),
        text(x + PAD, 21, "Missing", "t-head"),
        text(x + PAD, 39, "expected, not found", "t-small"),
    ]
    modules = [*map(str, graph.missing_modules)] or ["?"] * graph.missing
    for i, module in enumerate(modules):
        left = x + PAD + i * (TILE + GAP)
        words = "by elimination" if graph.missing_modules else ""
        parts += [
            box(left, TILE_TOP, TILE, TILE_HEIGHT, "tile ghost bad"),
            text(left + 13, TILE_TOP + 21, "no GPU", "t-gpu"),
            text(left + 13, TILE_TOP + 39, f"module {module}", "t-small"),
            text(left + 13, TILE_TOP + 56, words, "t-small"),
        ]
    return group(*parts, tip=f"{graph.missing} of {graph.expected} GPUs missing")


def _switch(graph: Topology, width: float) -> str:
    words = f"{links_line(graph)} · fabric {fabric_line(graph)}"
    managers = graph.management
    none = "management devices unmeasured" if graph.nics_why else "no management device found"
    return group(
        box(1, SWITCH_TOP, width - 2, 64, "switch"),
        text(PAD + 4, SWITCH_TOP + 24, "NVLink switch", "t-head"),
        el("title", "the NVSwitch fabric of the baseboard"),
        text(width - PAD - 4, SWITCH_TOP + 24, clip(words, width - 130, _SMALL), "t-small", "end"),
        text(PAD + 4, SWITCH_TOP + 49, "managed through" if managers else none, "t-small"),
        *pcie_picture.chips(managers, PAD + 108, SWITCH_TOP + 36, width - 128, "nic manager"),
    )
