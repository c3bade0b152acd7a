"""The P2P matrix: what NVML says of every ordered pair of GPUs, in the colours of the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.node.checks.nvlink.p2p import pair_name
from b200kit.report.content.tones import PEERS, tones_of
from b200kit.report.document import Unmeasured, integer, items, read, show

KINDS = ("nvlink", "read", "write")
REPORTED = ("atomics", "prop")  # in the tip only: no check judges them
# NVML_P2P_STATUS_*: nvml.h; the short forms are those of `nvidia-smi topo -p2p`.
STATUS = {
    0: ("OK", "OK"),
    1: ("CNS", "chipset not supported"),
    2: ("GNS", "GPU not supported"),
    3: ("TNS", "topology not supported"),
    4: ("DR", "disabled by registry key"),
    5: ("NS", "not supported"),
    6: ("U", "unknown"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One ordered pair: its short text, its tone, and the three statuses in words."""

    text: str
    tone: str
    tip: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """The cells by row (from) and column (to), the legend of the codes in it, or why none."""

    labels: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    legend: str
    why: str


def matrix_of(host: object) -> Matrix:
    """Return the P2P matrix of a HostRecord; its size is that of the largest of the three."""
    p2p = read(host, "state", "p2p")
    size = min(max(len(items(read(p2p, kind))) for kind in KINDS), 16)
    if not size:
        why = str(p2p) if isinstance(p2p, Unmeasured) else "unmeasured: no pair was read"
        return Matrix((), (), "", why)
    labels = tuple(_label(host, i) for i in range(size))
    tones = tones_of(read(host, "state"), read(host, "expectation"), read(host, "verdict"))

    def cell(i: int, j: int) -> Cell:
        pair = pair_name(f"GPU {labels[i]}", f"GPU {labels[j]}")
        return _cell(p2p, i, j, tones.of(PEERS, pair))

    rows = tuple(tuple(cell(i, j) for j in range(size)) for i in range(size))
    used = {word for row in rows for one in row for word in one.text.split()}
    legend = "; ".join(f"{c} = {long}" for c, long in STATUS.values() if c in used and c != "OK")
    return Matrix(labels, rows, legend, "")


def _label(host: object, position: int) -> str:
    index = read(host, "state", "gpus", position, "index")
    return str(position) if isinstance(index, Unmeasured) else show(index)


def _cell(p2p: object, i: int, j: int, tone: str) -> Cell:
    if i == j:
        return Cell("", "self", "itself")
    found = {kind: read(p2p, kind, i, j) for kind in KINDS}
    codes = {kind: integer(value) for kind, value in found.items()}
    values = found | {kind: read(p2p, kind, i, j) for kind in REPORTED}
    tip = f"{i} to {j}: " + ", ".join(f"{k} {_long(v)}" for k, v in values.items())
    if all(code == 0 for code in codes.values()):
        return Cell("OK", tone, tip)
    if any(code is None for code in codes.values()):
        return Cell("?", tone, tip)
    if len(set(codes.values())) == 1:
        return Cell(_code(codes["nvlink"]), tone, tip)
    parts = [f"{kind[0].upper()}: {_code(code)}" for kind, code in codes.items() if code]
    return Cell(" ".join(parts), tone, tip)


def _code(status: int | None) -> str:
    return "?" if status is None else STATUS.get(status, (str(status), ""))[0]


def _long(value: object) -> str:
    code = integer(value)
    return show(value) if code is None else STATUS.get(code, ("", f"status {code}"))[1]
