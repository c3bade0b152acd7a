"""The node's GPUs as a matrix for a terminal, in the form of `nvidia-smi topo -m`.

What is bad carries an exclamation mark and a culprit an arrow, so that colour only adds.
"""

from __future__ import annotations

from collections.abc import Iterable

from b200kit.node.lib.cpulist import format as ranges
from b200kit.report.content.graph import BAD, GOOD, UNKNOWN, GraphGpu, Topology
from b200kit.report.document import clean
from b200kit.report.terminal.lines import Lines, Piece, shorten

MOST = 8
"""GPUs that fit the width; a node with more gets the line a GPU only."""

_CELL, _FIRST = 6, 11
_MARKS = {BAD: "!", UNKNOWN: "", GOOD: ""}
_ENDS = f"{'links':<7}{'NUMA':<5}{'PCIe':<10}nearest NIC"
_NICS = 18
_LEGEND = {
    "NV": "NVn n links of both up",
    "x!": "x P2P dead",
    "--": "-- unmeasured",
    "?": "? unmeasured",
    "!": "! not as expected",
    ">": "> this one",
    "PIX": "PIX below the same switch",
    "PXB": "PXB over several bridges",
    "NODE": "NODE on the same NUMA node",
    "SYS": "SYS on another",
}


def topology_lines(page: Lines, graph: Topology) -> None:
    """Add the matrix of a node; where it is too wide, what a GPU is connected to stands below."""
    if not graph.gpus:
        why = f"unmeasured: {clean(graph.why) or 'no GPU is in the record'}"
        page.hang("  topology  ", text=why)
        return
    count = len(graph.gpus)
    pairs = _CELL * count if count <= MOST else 0
    wide = page.width >= _FIRST + pairs + 22 + _NICS
    text = ""
    for with_pairs, with_ends in [(True, True)] if wide else [(True, False), (False, True)]:
        if with_pairs and not with_ends and not pairs:
            continue
        cells = "".join(f"{_short(gpu):<{_CELL}}" for gpu in graph.gpus) if pairs else ""
        head = (cells if with_pairs else "") + (_ENDS if with_ends else "")
        page.line(f"{'':<{_FIRST}}{head}".rstrip())
        for at in range(count):
            row: list[Piece] = ["  ", _first(graph, at)]
            if with_pairs and pairs:
                row += (piece for b in range(count) for piece in _cell(graph, at, b))
            row += _ends(graph.gpus[at]) if with_ends else ()
            page.line(*row)
            text += "".join(piece if isinstance(piece, str) else piece[0] for piece in row)
    by_text: dict[str, list[GraphGpu]] = {}
    for gpu in graph.gpus:
        if faults := "; ".join(_faults(gpu)):
            by_text.setdefault(faults, []).append(gpu)
    for faults, gpus in by_text.items():
        several = f"GPU{ranges(gpu.index or 0 for gpu in gpus)}"
        known = all(gpu.index is not None for gpu in gpus)
        page.hang(f"  > {several if known else ', '.join(map(_short, gpus)):<7}", text=faults)
    if graph.missing:
        page.hang("    ", text=f"{graph.missing} expected GPU not found at all")
    page.hang("    ", text="; ".join(words for code, words in _LEGEND.items() if code in text))


def topology_is_in_doubt(graph: Topology) -> bool:
    """Say whether the matrix of a node shows something: an edge is bad, or some were not read.

    Where NVML reported no GPU, every cell would be unmeasured, and the findings say why.
    """
    read = any(gpu.links.up is not None for gpu in graph.gpus)
    return graph.tone == BAD or (read and graph.tone != GOOD)


def _short(gpu: GraphGpu) -> str:
    """ "GPU3", or the PCI bus of a GPU that NVML does not list."""
    if gpu.index is not None:
        return shorten(f"GPU{gpu.index}", _CELL - 1)
    return "@" + shorten(gpu.address.rpartition(":")[0].rpartition(":")[2], _CELL - 2)


def _first(graph: Topology, at: int) -> Piece:
    """The name of a GPU, with an arrow where it is bad and not all of several are."""
    gpu = graph.gpus[at]
    others = {other.tone for other in graph.gpus if other is not gpu}
    arrow = ">" if gpu.tone == BAD and others != {BAD} else " "
    name = f"{arrow} {_short(gpu):<7}"
    return (name, BAD) if gpu.tone == BAD else name


def _cell(graph: Topology, a: int, b: int) -> Iterable[Piece]:
    if a == b:
        return [f"{'.':<{_CELL}}"]
    pair = graph.pairs[a, b]
    return _marked(pair.text, pair.tone, _CELL)


def _ends(gpu: GraphGpu) -> list[Piece]:
    """Its links, NUMA node, PCIe link and nearest NICs."""
    node = "?" if gpu.numa is None else str(gpu.numa)
    names = [clean(name) for name in gpu.nics]
    stem = names[0].rpartition("_")[0] + "_" if names else ""
    if stem != "_" and all(name.startswith(stem) for name in names):
        names = [stem + ",".join(name.removeprefix(stem) for name in names)] if names else []
    nics = shorten(f"{gpu.nic_path} {','.join(names)}".rstrip(), _NICS)
    return [
        *_marked(gpu.links.text, gpu.links.tone, 7),
        f"{shorten(node, 4):<5}",
        *_marked(gpu.pcie.text, gpu.pcie.tone, 10),
        nics,
    ]


def _marked(cell: str, tone: str, width: int) -> list[Piece]:
    text = shorten(cell, width - 2) + _MARKS[tone]
    return [text if tone == GOOD else (text, tone), " " * (width - len(text))]


def _faults(gpu: GraphGpu) -> Iterable[str]:
    """What is bad about one GPU's own edges."""
    for word, numbers in (("down", gpu.links.down), ("slow", gpu.links.slow)):
        if numbers:
            yield f"NVLink {word}: {ranges(link for link in numbers if link >= 0) or '?'}"
    if gpu.fabric.tone == BAD:
        yield f"fabric {gpu.fabric.text}"
    yield from (f"PCIe {lane.text} at {lane.address}" for lane in gpu.lanes if lane.tone == BAD)
