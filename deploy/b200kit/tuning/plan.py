"""What a tuning of one node is to try, and what of it is done: from inventory, data and lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from b200kit.catalog import shipped
from b200kit.inventory import shape
from b200kit.inventory.spec import NodeSpec
from b200kit.node.client import prompts
from b200kit.records import provenance, store, tuning
from b200kit.records.conditions import build
from b200kit.records.goodput_knee import Sweep, next_rate
from b200kit.records.tuning import (
    AnyLine,
    CellLine,
    Layout,
    LayoutLine,
    Load,
    RefusedLayout,
    TuningCell,
    TuningResult,
    Workload,
)
from b200kit.run.node import Node, StageFailed, span
from b200kit.tuning import candidates as tuning_layouts
from b200kit.tuning import choice
from b200kit.tuning.candidates import Candidate, Parse

_DATA = Path(__file__).resolve().parent / "matrix.yaml"


@cache
def matrix() -> dict[str, Any]:
    """The benchmark matrix and its loads."""
    return dict(shipped.read(_DATA))


@dataclass
class TuningPlan:
    """One node's tuning. points of this run count beside what the file has from earlier ones."""

    node: str
    goal: str
    configured: NodeSpec
    candidates: list[Candidate]
    workloads: list[Workload]
    refused: list[RefusedLayout]
    sweep: Sweep
    load: Load
    system: str
    lines: list[AnyLine] = field(default_factory=list)
    fresh: list[AnyLine] = field(default_factory=list)
    given_up: set[tuple[Any, ...]] = field(default_factory=set)

    def key(self, layout: Layout, workload: Workload) -> str:
        """The name of a sweep's cells in the file."""
        return tuning.key(layout, workload, self.load, self.system)

    def cells(self, layout: Layout, workload: Workload) -> list[TuningCell]:
        """What a sweep has: cells done by any run, and this run's that failed."""
        identity = self.key(layout, workload)
        kept = [one for one in self.lines if isinstance(one, LayoutLine) or one.cell.is_done]
        own = [one for one in [*kept, *self.fresh] if isinstance(one, CellLine)]
        return [replace(one.cell, layout=layout) for one in own if one.key == identity]

    def next_rate(self, layout: Layout, workload: Workload) -> float | None:
        """The rate to measure next on a layout, None when its sweep is over."""
        cells = [cell for cell in self.cells(layout, workload) if cell.rate is not None]
        return next_rate([cell.point for cell in cells], self.sweep)

    def open(self, layout: Layout) -> bool:
        """Whether a layout is to be measured still."""
        if tuple(layout.values.values()) in self.given_up:
            return False
        return any(self.next_rate(layout, load) is not None for load in self.workloads)

    def add(self, line: AnyLine) -> None:
        """Keep a line, on the disk when it returns. Raises OSError; this run knows it even so."""
        self.fresh.append(line)
        store.add_to_tuning(self.node, line)

    def every(self) -> list[TuningCell]:
        """All cells, layout by layout; those that were not tried are there as skipped."""
        found = []
        for layout in (one.layout for one in self.candidates):
            for load in self.workloads:
                skipped = TuningCell(layout, load.name, None, "skipped", "not measured")
                found += self.cells(layout, load) or [skipped]
        return found

    def result(self) -> TuningResult:
        """The tuning so far."""
        cells = self.every()
        tried = [cell for cell in cells if cell.rate is not None]
        return TuningResult(
            self.node,
            self.goal,
            self.sweep.share,
            tuple(cells),
            tuning.knees(cells, self.sweep),
            choice.choose(self.goal, self.workloads[0].name, tried, self.sweep),
            tuple(self.refused),
        )

    def left_s(self, now: Layout | None = None) -> float:
        """Seconds until the end, at most; the current layout needs no change any more."""
        return sum(self.layout_s(c.layout, c.layout == now) for c in self.candidates)

    def layout_s(self, layout: Layout, here: bool = False) -> float:
        """Seconds that a layout takes still, at most: each cell as long as one at its first rate.

        Rates below the first, which only a layout that is too slow gets, take longer.
        """
        if not self.open(layout):
            return 0.0
        cell_s = CELL_S + self.load.count(self.sweep.first) / self.sweep.first
        cells = sum(
            max(0, self.sweep.cells - len(self.cells(layout, workload)))
            for workload in self.workloads
            if self.next_rate(layout, workload) is not None
        )
        return cells * cell_s + (0.0 if here else SWITCH_S)

    def describe(self, layout: Layout) -> str:
        """What is to be done with a layout, for a person."""
        done = sum(len(self.cells(layout, workload)) for workload in self.workloads)
        most = self.sweep.cells * len(self.workloads)
        loads = ", ".join(f"{w.name} {w.input_tokens}/{w.output_tokens}" for w in self.workloads)
        progress = f"{done} cells done, " if done else ""
        return (
            f"tune {layout}: {progress}up to {most} cells of {loads} from {self.sweep.first:g}/s, "
            f"{self.load.count(self.sweep.first)} requests or more: "
            f"at most about {span(self.layout_s(layout))}"
        )


def for_node(node: Node, parse: Parse) -> TuningPlan:
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
    return TuningPlan(
        node=node.name,
        goal=goal,
        configured=spec,
        candidates=found,
        workloads=loads,
        refused=[*refused, *strange],
        sweep=_sweep(spec),
        load=Load(keys.requests, keys.seconds, spec.smoke.ttft_ms, spec.smoke.tpot_ms),
        system=system(node),
        lines=store.tuning_of(node.name),
    )


def _sweep(spec: NodeSpec) -> Sweep:
    keys = spec.tune
    least = min(keys.initial_rate / 16, keys.max_rate)
    return Sweep(keys.initial_rate, least, keys.max_rate, keys.resolution, keys.cells)


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
    sent = {"prompts": prompts.source(spec.smoke.prompts).name}
    sent = sent if spec.tune.prompts == "smoke" else {}
    return {**values, "engine": engine, "gateway": spec.gateway.model_dump(), **sent}


# Inferred: what a cell takes besides its load (correctness, uncounted and direct requests,
# commands), and how long a layout takes to be warm where its kernels are compiled already.
CELL_S, SWITCH_S = 8.0, 240.0
