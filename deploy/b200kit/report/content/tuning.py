"""The tuning of a node: which layout was chosen and why, the matrix, goodput against rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from b200kit.report.document import (
    Unmeasured,
    integer,
    items,
    mapping,
    milliseconds,
    number,
    read,
    show,
)
from b200kit.report.html.figure import Table

_NAMED = {"replicas", "tensor_parallel", "data_parallel", "expert_parallel",
          "max_num_batched_tokens", "max_num_seqs", "name"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShownCell:
    """One measured (or not) place of the matrix: a layout under a workload at a rate."""

    layout: str
    workload: str
    rate: float | None
    rate_said: str
    status: str
    why: str
    ours: object
    bench: object

    @property
    def measured(self) -> bool:
        """Say whether our client has figures here."""
        return self.status == "done" and bool(mapping(self.ours))

    def figure(self, key: str) -> float | None:
        """Return a figure of our client."""
        return number(read(self.ours, key)) if self.measured else None


@dataclass(frozen=True, slots=True)
class Knee:
    """The highest rate (requests/s) at which a layout still met the objective; None: at none.

    `low` is surely good and `high` surely bad, where something is sure.
    """

    layout: str
    workload: str
    rate: float | None
    goodput: float | None
    low: float | None
    high: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Tuning:
    """A tuning document as read; `why` is set, and nothing else, where there is none."""

    why: str
    goal: str = ""
    chosen: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    evidence: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    cells: tuple[ShownCell, ...] = ()
    knees: tuple[Knee, ...] = ()
    stand_in: bool = False

    def knee(self, layout: str, workload: str) -> Knee | None:
        """Return the knee that was found there."""
        return next((k for k in self.knees if (k.layout, k.workload) == (layout, workload)), None)

    def there(self, layout: str, workload: str) -> list[ShownCell]:
        """Return the cells of a layout under a workload."""
        return [c for c in self.cells if (c.layout, c.workload) == (layout, workload)]

    def best(self, layout: str, workload: str) -> ShownCell | None:
        """Return the cell at the knee, else the measured one with the most goodput."""
        measured = [cell for cell in self.there(layout, workload) if cell.measured]
        knee = self.knee(layout, workload)
        at = [c for c in measured if knee and knee.rate is not None and c.rate == knee.rate]
        return next(iter(at), None) or max(
            measured, key=lambda cell: cell.figure("request_goodput") or 0.0, default=None
        )


def tuning_of(host: object) -> Tuning:
    """Return the tuning of a HostRecord."""
    document = read(host, "tuning")
    if isinstance(document, Unmeasured) or not mapping(document):
        return Tuning(str(document) if isinstance(document, Unmeasured) else "none")
    names = _Names(document)
    entries = items(read(document, "cells"))
    cells = tuple(_cell(entry, names) for entry in entries)
    chosen = read(document, "chosen")
    layout = read(chosen, "layout")
    # Where none says whether its figures are a stand-in's, the smoke test decides.
    said = [read(document, "stand_in")]
    said += [read(entry, "ours", "conditions", "stand_in") for entry in entries]
    known = [answer for answer in said if isinstance(answer, bool)]
    states = Counter(cell.status for cell in cells)
    facts = [
        ("chosen layout", names.of(layout) if mapping(layout) else show(layout)),
        ("why", show(read(chosen, "why"))),
        ("cells", ", ".join(f"{count} {status}" for status, count in states.items()) or "none"),
    ]
    facts += [
        (f"not tried: {show(read(entry, 'name'))}", show(read(entry, "why")))
        for entry in items(read(document, "refused"))
    ]
    return Tuning(
        why="",
        goal=show(read(document, "goal")),
        chosen=names.of(layout) if mapping(layout) else "",
        facts=tuple(facts),
        evidence=tuple(_evidence(entry, names) for entry in items(read(chosen, "evidence"))),
        layouts=tuple(dict.fromkeys(cell.layout for cell in cells)),
        workloads=tuple(dict.fromkeys(cell.workload for cell in cells)),
        cells=cells,
        knees=tuple(_knee(entry, names) for entry in items(read(document, "knees"))),
        stand_in=any(known or [read(host, "smoke", "conditions", "stand_in") is True]),
    )


class _Names:
    """The layouts of a document in short, each with all the names it goes by: ``(configured/B)``.

    A layout is known by its values: a later run may have tried it under another name.
    """

    def __init__(self, document: object) -> None:
        self._found: dict[str, dict[str, None]] = {}
        for entry in items(read(document, "cells")):
            layout = read(entry, "layout")
            named = show(mapping(layout).get("name") or "")
            known = self._found.setdefault(_in_short(layout), {})
            known.update(dict.fromkeys(filter(None, named.split("/"))))

    def of(self, layout: object) -> str:
        """Return ``TP2 x 4, 2048 tokens, 8 seqs (configured/B)``."""
        short = _in_short(layout)
        names = "/".join(self._found.get(short, ()))
        return f"{short} ({names})" if names else short


def _in_short(layout: object) -> str:
    known = mapping(layout)
    if not known:
        return show(layout)
    said = {key: show(known.get(key, "?")) for key in sorted(_NAMED)}
    spread = said["data_parallel"]
    ways = f"TP{said['tensor_parallel']}" + (f"+DP{spread}" if spread not in ("?", "1") else "")
    ways += "+EP" if known.get("expert_parallel") is True else ""
    more = (f"{key} {show(value)}" for key, value in known.items() if key not in _NAMED)
    return ", ".join([
        f"{ways} x {said['replicas']}", f"{said['max_num_batched_tokens']} tokens",
        f"{said['max_num_seqs']} seqs", *more,
    ])  # fmt: skip


def _cell(entry: object, names: _Names) -> ShownCell:
    rate = read(entry, "rate")
    return ShownCell(
        layout=names.of(read(entry, "layout")),
        workload=_words(read(entry, "workload")),
        rate=number(rate),
        rate_said="all at once" if rate == "inf" else show(rate, absent="-"),
        status=show(read(entry, "status")),
        why=show(mapping(entry).get("why") or ""),
        ours=read(entry, "ours"),
        bench=read(entry, "bench"),
    )


def _words(value: object) -> str:
    """Return a name; a workload given as a document stands in one line."""
    named = read(value, "name") if isinstance(value, dict) else value
    return show(value if isinstance(named, Unmeasured) else named)


def _knee(entry: object, names: _Names) -> Knee:
    ends = {key: number(read(entry, key)) for key in ("rate", "goodput", "low", "high")}
    return Knee(names.of(read(entry, "layout")), _words(read(entry, "workload")),
                why=show(read(entry, "why")), **ends)  # fmt: skip


def _evidence(entry: object, names: _Names) -> str:
    """Return a line of evidence; one about a layout begins with it."""
    if not isinstance(entry, dict):
        return show(entry)
    words = show(read(entry, "words"))
    return f"{names.of(entry['layout'])}: {words}" if mapping(entry.get("layout")) else words


_HEAD = ("layout", "workload", "rate", "status", "goodput", "of the rate", "TTFT P50", "TTFT P95",
         "TPOT P50", "TPOT P95", "bench: TTFT P50", "bench: TPOT P50")  # fmt: skip
_TIMES = ("p50_ttft_ms", "p95_ttft_ms", "p50_tpot_ms", "p95_tpot_ms")


def all_cells(tuning: Tuning) -> Table:
    """Return every cell in figures: our client's, then those of ``vllm bench serve``."""
    rows = []
    for cell in tuning.cells:
        knee, good = tuning.knee(cell.layout, cell.workload), cell.figure("request_goodput")
        status = f"{cell.status}: {cell.why}" if cell.why else cell.status
        if knee and knee.rate is not None and knee.rate == cell.rate:
            status = f"{cell.status}, the knee"
        share = "-" if good is None or not cell.rate else f"{100 * good / cell.rate:.0f} %"
        times = [milliseconds(cell.figure(key)) for key in _TIMES]
        # Its versions use either of the names.
        bench = [
            milliseconds(_first(read(cell.bench, f"{p}_{metric}_ms") for p in ("p50", "median")))
            for metric in ("ttft", "tpot")
        ]
        if isinstance(cell.bench, Unmeasured):
            bench = [str(cell.bench), "-"]
        place = (cell.layout, cell.workload, cell.rate_said, status)
        rows.append((*place, _rate(good), share, *times, *bench))
    return Table(_HEAD, tuple(rows), f"{len(rows)} cells in figures (requests/s and ms)")


def _first(values: Iterable[object]) -> float | None:
    return next((found for found in map(number, values) if found is not None), None)


def all_knees(tuning: Tuning) -> Table:
    """Return each knee with what is sure about it."""
    head = ("layout", "workload", "knee", "surely good to", "surely bad from", "goodput", "why")
    rows = [
        (k.layout, k.workload, "none" if k.rate is None else whole(k.rate), _rate(k.low),
         _rate(k.high), _rate(k.goodput), k.why)
        for k in tuning.knees
    ]  # fmt: skip
    return Table(head, tuple(rows), f"{len(rows)} knees in figures (requests/s)")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def whole(value: float) -> str:
    """Return a rate without needless decimals."""
    found = integer(value)
    return f"{value:.3g}" if found is None else str(found)


def line(host: object) -> str:
    """Return the tuning in one line for a terminal, or nothing."""
    if "tuning" not in mapping(host):
        return ""
    found = tuning_of(host)
    facts = dict(found.facts)
    mark = "STAND-IN ENGINE: " if found.stand_in else ""
    return found.why or f"{mark}{facts['chosen layout']}; {facts['why']} ({facts['cells']})"
