"""The machine of a HostRecord: what its observation shows, what the run made of each GPU, P2P."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.node.checks.nvlink.p2p import pair_name
from b200kit.node.state.verdict import Status
from b200kit.report.content.graph import BAD, Gpu, Topology
from b200kit.report.content.topology import PEERS, tones_of, topology
from b200kit.report.content.verdict import verdict_of
from b200kit.report.document import Unmeasured, integer, items, read, show, unread

_KINDS = ("nvlink", "read", "write")
_REPORTED = ("atomics", "prop")  # in the tip only: no check judges them
# NVML_P2P_STATUS_*: nvml.h; the short forms are those of `nvidia-smi topo -p2p`.
_STATUS = {
    0: ("OK", "OK"),
    1: ("CNS", "chipset not supported"),
    2: ("GNS", "GPU not supported"),
    3: ("TNS", "topology not supported"),
    4: ("DR", "disabled by registry key"),
    5: ("NS", "not supported"),
    6: ("U", "unknown"),
}
_MOST_GPUS = 16


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
    verdict = verdict_of(host)
    failed = [f for f in verdict.findings if f.status is Status.FAIL]
    return MachineView(
        graph=topology(read(host, "state"), read(host, "expectation"), verdict),
        faulty=frozenset(name for f in failed for name in (f.subject, *f.subjects)),
        replicas={
            gpu: replica
            for row in items(read(host, "layout"))
            for gpu in map(integer, items(read(row, "gpus")))
            if gpu is not None and (replica := integer(read(row, "replica"))) is not None
        },
    )


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One ordered pair: its short text, its tone, and the three statuses in words."""

    text: str
    tone: str
    tip: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """The cells by row (from) and column (to), the legend of the codes in it, or why none."""

    labels: tuple[str, ...] = ()
    rows: tuple[tuple[MatrixCell, ...], ...] = ()
    legend: str = ""
    why: str = ""


def matrix_of(host: object) -> Matrix:
    """What NVML says of the P2P of every ordered pair of GPUs, in the colours of the verdict."""
    p2p = read(host, "state", "p2p")
    size = min(max(len(items(read(p2p, kind))) for kind in _KINDS), _MOST_GPUS)
    if not size:
        return Matrix(why=unread(p2p, "no pair was read"))
    known = (read(host, "state", "gpus", i, "index") for i in range(size))
    labels = [str(i) if isinstance(n, Unmeasured) else show(n) for i, n in enumerate(known)]
    tones = tones_of(read(host, "state"), read(host, "expectation"), verdict_of(host))
    rows = tuple(
        tuple(
            _cell(p2p, i, j, tones.of(PEERS, pair_name(f"GPU {labels[i]}", f"GPU {labels[j]}")))
            for j in range(size)
        )
        for i in range(size)
    )
    used = {word for row in rows for one in row for word in one.text.split()}
    legend = "; ".join(f"{c} = {long}" for c, long in _STATUS.values() if c in used and c != "OK")
    return Matrix(tuple(labels), rows, legend)


def _cell(p2p: object, i: int, j: int, tone: str) -> MatrixCell:
    if i == j:
        return MatrixCell("", "self", "itself")
    values = {kind: read(p2p, kind, i, j) for kind in (*_KINDS, *_REPORTED)}
    words = []
    for kind, value in values.items():
        code = integer(value)
        long = show(value) if code is None else _STATUS.get(code, ("", f"status {code}"))[1]
        words.append(f"{kind} {long}")
    tip = f"{i} to {j}: {', '.join(words)}"
    codes = {kind: integer(values[kind]) for kind in _KINDS}
    short = {
        kind: _STATUS.get(code, (str(code), ""))[0]
        for kind, code in codes.items()
        if code is not None
    }
    if len(short) < len(codes):
        return MatrixCell("?", tone, tip)
    if len(set(short.values())) == 1:
        return MatrixCell(short["nvlink"], tone, tip)
    return MatrixCell(" ".join(f"{k[0].upper()}: {short[k]}" for k in short if codes[k]), tone, tip)
