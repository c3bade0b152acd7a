"""The node's GPUs as a matrix for a terminal, in the form of `nvidia-smi topo -m`.

What is bad carries an exclamation mark and a culprit an arrow, so that colour only adds.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.lib.cpulist import format as ranges
from b200kit.report.content.graph import BAD, GOOD, UNKNOWN, Gpu, Topology
from b200kit.report.document import clean
from b200kit.report.terminal.lines import WIDTH, paint, shorten, wrap

MOST = 8
"""GPUs that fit the width; a node with more gets the line a GPU only."""

_CELL = 6
_MARKS = {BAD: "!", UNKNOWN: "", GOOD: ""}
_LEGEND = {
    "NV": "NVn n links of both up",
    "x!": "x P2P dead",
    "--": "-- unmeasured",
    "?": "? unmeasured",
    "!": "! not as expected",
    ">": "> look at this one",
    "PIX": "PIX below the same switch",
    "PXB": "PXB over several bridges",
    "NODE": "NODE on the same NUMA node",
    "SYS": "SYS on another",
}


def topology_lines(graph: Topology, *, indent: int = 0, colour: bool = False) -> list[str]:
    """Return the matrix of a node, at most 100 columns."""
    pad = " " * min(indent, WIDTH // 4)
    if not graph.gpus:
        return wrap(
            f"{pad}topology  ", f"unmeasured: {clean(graph.why) or 'no GPU is in the record'}"
        )
    lines = [_header(graph), *(_row(graph, at, colour) for at in range(len(graph.gpus)))]
    text = "".join(_row(graph, at, colour=False) for at in range(len(graph.gpus)))
    legend = "; ".join(words for code, words in _LEGEND.items() if code in text)
    notes = [*_notes(graph, pad)]
    if graph.missing:
        notes += wrap(f"{pad}  ", f"{graph.missing} expected GPU not found at all")
    return [*(f"{pad}{line}".rstrip() for line in lines), *notes, *wrap(f"{pad}  ", legend)]


def topology_is_in_doubt(graph: Topology) -> bool:
    """Say whether the matrix of a node shows something: an edge is bad, or some were not read.

    Where NVML reported no GPU, every cell would be unmeasured, and the findings say why.
    """
    read = any(gpu.links.up is not None for gpu in graph.gpus)
    return graph.tone == BAD or (read and graph.tone != GOOD)


def _header(graph: Topology) -> str:
    cells = [f"{_short(gpu):<{_CELL}}" for gpu in graph.gpus] if _fits(graph) else []
    return f"  {'':<7}{''.join(cells)}{'links':<7}{'NUMA':<5}{'PCIe':<10}nearest NIC"


def _fits(graph: Topology) -> bool:
    return len(graph.gpus) <= MOST


def _short(gpu: Gpu) -> str:
    """ "GPU3", or the PCI bus of a GPU that NVML does not list."""
    if gpu.index is not None:
        return shorten(f"GPU{gpu.index}", _CELL - 1)
    return "@" + shorten(gpu.address.rpartition(":")[0].rpartition(":")[2], _CELL - 2)


def _row(graph: Topology, at: int, colour: bool) -> str:
    gpu = graph.gpus[at]
    cells = [_cell(graph, at, b, colour) for b in range(len(graph.gpus))] if _fits(graph) else []
    node = "?" if gpu.numa is None else str(gpu.numa)
    # Where all of several are bad, there is not one to look at.
    others = [other.tone for other in graph.gpus if other is not gpu]
    stands_out = not others or set(others) != {BAD}
    first = f"{'>' if gpu.tone == BAD and stands_out else ' '} {_short(gpu):<7}"
    ends = [
        _marked(gpu.links.text, gpu.links.tone, 7, colour),
        f"{shorten(node, 4):<5}",
        _marked(gpu.pcie.text, gpu.pcie.tone, 10, colour),
    ]
    head = paint(first, gpu.tone, colour) if gpu.tone == BAD else first
    return "".join([head, *cells, *ends, _nics(gpu)])


def _cell(graph: Topology, a: int, b: int, colour: bool) -> str:
    if a == b:
        return f"{'.':<{_CELL}}"
    pair = graph.pairs[a, b]
    return _marked(pair.text, pair.tone, _CELL, colour)


def _marked(cell: str, tone: str, width: int, colour: bool) -> str:
    text = shorten(cell, width - 2) + _MARKS[tone]
    return paint(text, tone, colour and tone != GOOD) + " " * (width - len(text))


def _nics(gpu: Gpu) -> str:
    """ "PIX mlx5_4,5", or how many there are where they are no nearer than others."""
    names = [clean(name) for name in gpu.nics]
    stem = names[0].rpartition("_")[0] + "_" if names else ""
    if stem != "_" and all(name.startswith(stem) for name in names):
        names = [stem + ",".join(name.removeprefix(stem) for name in names)] if names else []
    return shorten(f"{gpu.nic_path} {','.join(names)}".rstrip(), 18)


def _notes(graph: Topology, pad: str) -> Iterator[str]:
    """What is bad about GPUs' own edges, what is so of several once, with links and ports."""
    by_text: dict[str, list[Gpu]] = {}
    for gpu in graph.gpus:
        if faults := "; ".join(_faults(gpu)):
            by_text.setdefault(faults, []).append(gpu)
    for faults, gpus in by_text.items():
        several = f"GPU{ranges(gpu.index or 0 for gpu in gpus)}"
        known = all(gpu.index is not None for gpu in gpus)
        name = several if known else ", ".join(_short(gpu) for gpu in gpus)
        yield from wrap(f"{pad}> {name:<7}", faults)


def _faults(gpu: Gpu) -> Iterator[str]:
    """What is bad about one GPU's own edges."""
    if gpu.links.down:
        yield f"NVLink down: {_numbers(gpu.links.down)}"
    if gpu.links.slow:
        yield f"NVLink slow: {_numbers(gpu.links.slow)}"
    if gpu.fabric.tone == BAD:
        yield f"fabric {gpu.fabric.text}"
    yield from (f"PCIe {lane.text} at {lane.address}" for lane in gpu.lanes if lane.tone == BAD)


def _numbers(links: tuple[int, ...]) -> str:
    return ranges(number for number in links if number >= 0) or "?"
