"""What a tuning of one node is to try, and what of it is done: from inventory, data and lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from b200kit.catalog import shipped
from b200kit.inventory import shape
from b200kit.inventory.spec import NodeSpec
from b200kit.node.client.dataset import dataset
from b200kit.node.client.dataset.dataset import Dataset
from b200kit.node.lib.documents import unstructure
from b200kit.records import provenance
from b200kit.records.conditions import build
from b200kit.run.node import Node, StageFailed
from b200kit.tuning import candidates as tuning_layouts
from b200kit.tuning import cells as tuning
from b200kit.tuning import choice, store
from b200kit.tuning.candidates import Candidate, Parse, RefusedLayout
from b200kit.tuning.cells import Cell, Layout, Load, Workload
from b200kit.tuning.duration import Pace, total
from b200kit.tuning.goodput_knee import Sweep, next_rate

_DATA = Path(__file__).resolve().parent / "matrix.yaml"


@cache
def matrix() -> dict[str, Any]:
    """The benchmark matrix and its loads."""
    return dict(shipped.read(_DATA))


@dataclass
class Plan:
    """One node's tuning. points of this run count beside what the file has from earlier ones."""

    node: str
    goal: str
    configured: NodeSpec
    candidates: list[Candidate]
    workloads: list[Workload]
    refused: list[RefusedLayout]
    sweep: Sweep
    load: Load
    bench: bool
    system: str
    folder: Path
    lines: list[store.Line] = field(default_factory=list)
    fresh: list[store.Line] = field(default_factory=list)
    given_up: set[tuple[Any, ...]] = field(default_factory=set)

    def key(self, layout: Layout, workload: Workload) -> str:
        """The name of a sweep's cells in the file."""
        return tuning.key(layout.values, workload, self.load, self.system)

    def cells(self, layout: Layout, workload: Workload) -> list[Cell]:
        """What a sweep has: cells done by any run, and this run's that failed."""
        identity = self.key(layout, workload)
        done = [ln for ln in self.lines if ln["kind"] == "cell" and ln["cell"]["status"] == "done"]
        mine = [line for line in [*done, *self.fresh] if line.get("key") == identity]
        return [{**line["cell"], "layout": unstructure(layout)} for line in mine]

    def next_rate(self, layout: Layout, workload: Workload) -> float | None:
        """The rate to measure next on a layout, None when its sweep is over."""
        cells = [cell for cell in self.cells(layout, workload) if cell["rate"] is not None]
        return next_rate([tuning.point(cell) for cell in cells], self.sweep)

    def open(self, layout: Layout) -> bool:
        """Whether a layout is to be measured still."""
        if tuple(layout.values.values()) in self.given_up:
            return False
        return any(self.next_rate(layout, load) is not None for load in self.workloads)

    def add(self, line: store.Line) -> None:
        """Keep a line, on the disk when it returns. Raises OSError; this run knows it even so."""
        self.fresh.append(line)
        store.append(self.folder, self.node, line)

    def every(self) -> list[Cell]:
        """All cells, layout by layout; those that were not tried are there as skipped."""
        found = []
        for candidate in self.candidates:
            for workload in self.workloads:
                cells = self.cells(candidate.layout, workload)
                found += cells or [_skipped(candidate.layout, workload)]
        return found

    def document(self) -> dict[str, Any]:
        """The tuning so far, schema b200kit/tuning/1."""
        cells = self.every()
        measured = [cell for cell in cells if cell["rate"] is not None]
        chosen = choice.choose(self.goal, self.workloads[0].name, measured, self.sweep)
        found = tuning.document(self.node, self.goal, cells, self.sweep, chosen)
        return {**found, "refused": [asdict(one) for one in self.refused]}

    def pace(self) -> Pace:
        """By what this load took so far, on whatever layout."""
        keys = {self.key(c.layout, load) for c in self.candidates for load in self.workloads}
        lines = [ln for ln in [*self.lines, *self.fresh] if ln.get("key", "") in {*keys, ""}]
        return Pace.observed(lines, self.load, self.sweep, self.bench)

    def left_s(self, now: Layout | None = None) -> float:
        """Seconds until the end, at most; the current layout needs no change any more."""
        pace = self.pace()
        return sum(self.layout_s(c.layout, pace, c.layout == now) for c in self.candidates)

    def layout_s(self, layout: Layout, pace: Pace, here: bool = False) -> float:
        """Seconds that a layout takes still, at most."""
        if not self.open(layout):
            return 0.0
        sweeps = [
            pace.sweep(self.load, self.sweep, self.bench, len(self.cells(layout, workload)))
            for workload in self.workloads
            if self.next_rate(layout, workload) is not None
        ]
        return sum(sweeps) + (0.0 if here else pace.switch_s)

    def describe(self, layout: Layout) -> str:
        """What is to be done with a layout, for a person."""
        pace = self.pace()
        done = sum(len(self.cells(layout, workload)) for workload in self.workloads)
        most = self.sweep.cells * len(self.workloads)
        loads = ", ".join(f"{w.name} {w.input_tokens}/{w.output_tokens}" for w in self.workloads)
        progress = f"{done} cells done, " if done else ""
        clients = "each by both clients, " if self.bench else ""
        return (
            f"tune {layout}: {progress}up to {most} cells of {loads} from {self.sweep.first:g}/s, "
            f"{clients}{self.load.count(self.sweep.first)} requests or more: "
            f"at most about {total([self.layout_s(layout, pace)])}"
        )


def _skipped(layout: Layout, workload: Workload) -> Cell:
    return {
        "layout": unstructure(layout),
        "workload": workload.name,
        "rate": None,
        "status": "skipped",
        "why": "not measured",
        "ours": {"unmeasured": "not measured"},
        "bench": {"unmeasured": "not measured"},
    }


def for_node(node: Node, parse: Parse) -> Plan:
    """The tuning of a node that was observed, by its inventory. Raises StageFailed."""
    spec, known = node.spec, shape.catalogue_for(node.spec)
    if spec.group is not None:
        raise StageFailed("it serves as one of a group: only nodes that serve alone are tuned")
    keys, goal = spec.tune, spec.goal or "latency"
    found, refused = tuning_layouts.candidates(
        spec, known, goal, matrix()["layouts"], parse, keys.layouts
    )
    loads, strange = tuning_layouts.workloads(spec, matrix()["workloads"], keys.workloads)
    if not found or not loads:
        reasons = "; ".join(map(str, [*refused, *strange])) or "no layout is requested"
        raise StageFailed(f"there is nothing to tune: {reasons}")
    folder = store.directory(spec.records)
    return Plan(
        node=node.name,
        goal=goal,
        configured=spec,
        candidates=found,
        workloads=loads,
        refused=[*refused, *strange],
        sweep=_sweep(spec),
        load=Load(keys.requests, keys.seconds, spec.smoke.ttft_ms, spec.smoke.tpot_ms),
        bench=keys.bench,
        system=system(node),
        folder=folder,
        lines=_read(folder, node.name),
    )


def _sweep(spec: NodeSpec) -> Sweep:
    keys = spec.tune
    least = min(keys.initial_rate / 16, keys.max_rate)
    return Sweep(keys.initial_rate, least, keys.max_rate, keys.resolution, keys.cells)


def _read(folder: Path, name: str) -> list[store.Line]:
    try:
        return store.read(folder, name)
    except OSError as error:
        raise StageFailed(f"the cells so far cannot be read: {error}") from None


def system(node: Node) -> str:
    """Digest of what must not change while cells belong together."""
    requested = provenance.requested(node, node.replicas)
    sources = {"node": node.name, "requested": requested, "state": node.record.state}
    return tuning.system(build(sources), _serving(node.spec))


def _serving(spec: NodeSpec) -> Mapping[str, Any]:
    """What the inventory says of the serving besides the layout."""
    asked = ("goal", "kv_cache_dtype", "max_model_len", "numa_policy", "replica_cpus")
    names = (*asked, "replica_flags", "features_off")
    values = {name: getattr(spec, name) for name in names}
    engine = {k: v for k, v in spec.engine.model_dump().items() if k not in ("requirements",)}
    sent = {"dataset": _dataset(spec)} if spec.tune.prompts == "smoke" else {}
    return {**values, "engine": engine, "gateway": spec.gateway.model_dump(), **sent}


def _dataset(spec: NodeSpec) -> str:
    smoke = spec.smoke
    source = dataset.source(smoke.prompts)
    return str(Dataset(source, smoke.prefix_share, smoke.prefix_requests, smoke.turns))
