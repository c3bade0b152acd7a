"""What runs measured, by metric: held to floors, compared with peers, made into floors. Pure.

Segments come to one figure as the table of tests declares. What folds to its lowest is better the
more it is: that is compared, and made into floors.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from b200kit.acceptance import peers
from b200kit.acceptance.peers import PeerFinding
from b200kit.catalog import hardware
from b200kit.inventory.spec import NodeSpec
from b200kit.node.acceptance.table import table
from b200kit.node.acceptance.verdict import folded
from b200kit.node.state.acceptance import AcceptancePlan, Floor, SegmentLine

_HARDWARE = {
    "bandwidth.peer_floor": ("gpu_to_gpu_gb_per_s",),
    "bandwidth.host_floor": ("host_to_gpu_gb_per_s", "gpu_to_host_gb_per_s"),
    "bandwidth.all_reduce_256m_floor": ("all_reduce_256_mib_gb_per_s",),
    "bandwidth.all_reduce_8g_usual": ("all_reduce_8_gib_gb_per_s",),
}
"""Figures of the hardware's file that metrics are held to. The last is more than a node needs to
serve: one that has lost NVLS may serve, and is not what was bought."""
_DIGITS = 4
Run = tuple[AcceptancePlan, Sequence[SegmentLine]]


def floors(spec: NodeSpec) -> dict[str, Floor]:
    """What a node is held to, by metric: by its hardware's file, or by the site's own."""
    if spec.acceptance_baseline:
        return {}
    expect = hardware.load(spec.hardware)["expect"]
    of_hardware = {
        metric: Floor(
            float(entry["value"]), "GB/s", "at least", entry["source"], entry["date"], entry["kind"]
        )
        for key, metrics in _HARDWARE.items()
        for metric in metrics
        if (entry := expect.get(key))
    }
    own = {metric: Floor(**one.model_dump()) for metric, one in spec.acceptance_floors}
    return {**of_hardware, **own}


@dataclass(frozen=True)
class MeasuredMetric:
    """A metric of a run: its unit, and the figure of each subject."""

    metric: str
    unit: str
    by_subject: Mapping[str, float]

    @property
    def is_compared(self) -> bool:
        """Whether more of it is better, and less of it slower."""
        return table().fold(self.metric) == "min"


def measured(lines: Iterable[SegmentLine]) -> list[MeasuredMetric]:
    """What a run measured, in the order of its tests, by segments that ended as they should."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for (metric, subject), (value, unit) in folded(lines).items():
        found[metric, unit][subject] = value
    return [MeasuredMetric(metric, unit, by) for (metric, unit), by in found.items()]


@dataclass(frozen=True)
class PeerComparison:
    """A figure beside its peers': of which metric, among what ("n01", or "fleet")."""

    metric: str
    unit: str
    among: str
    finding: PeerFinding


def compare(runs: Sequence[Run]) -> Iterator[PeerComparison]:
    """Every GPU and link with the others of its node, and every node's median with the fleet's."""
    fleet: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for plan, lines in runs:
        for one in measured(lines):
            if one.is_compared:
                yield from _among(one, plan.node)
                fleet[one.metric, one.unit][plan.node] = median(one.by_subject.values())
    for (metric, unit), by_node in fleet.items():
        yield from _among(MeasuredMetric(metric, unit, by_node), "fleet")


def _among(one: MeasuredMetric, among: str) -> Iterator[PeerComparison]:
    for finding in peers.compare(one.by_subject):
        yield PeerComparison(one.metric, one.unit, among, finding)


def newest(runs: Iterable[Run]) -> list[Run]:
    """Of each node the run that began last."""
    in_order = sorted(runs, key=lambda run: run[0].started_at)
    return list({plan.node: (plan, lines) for plan, lines in in_order}.values())


@dataclass(frozen=True)
class MetricBaseline:
    """What a metric is in a fleet, of how many runs, and the floor that follows from it."""

    metric: str
    unit: str
    runs: int
    values: int
    median: float
    mad: float
    floor: float

    @property
    def source(self) -> str:
        """Where the floor is from, as its inventory says it."""
        middle, mad = (f"{value:.{_DIGITS}g}" for value in (self.median, self.mad))
        return f"median {middle}, MAD {mad} of {self.values} figures in {self.runs} runs"


def baselines(runs: Sequence[Run]) -> list[MetricBaseline]:
    """A floor for each rate, of all figures of all runs."""
    every: dict[tuple[str, str], list[MeasuredMetric]] = defaultdict(list)
    for _, lines in runs:
        for one in measured(lines):
            if one.is_compared:
                every[one.metric, one.unit].append(one)
    found = []
    for (metric, unit), of_runs in every.items():
        values = [value for one in of_runs for value in one.by_subject.values()]
        middle, mad = peers.centre(values)
        least = peers.floor(middle, mad)
        found.append(MetricBaseline(metric, unit, len(of_runs), len(values), middle, mad, least))
    return found


def inventory_lines(found: Iterable[MetricBaseline], today: str) -> list[str]:
    """The key of an inventory's group data that holds nodes to these floors."""
    rows = []
    for one in found:
        value = float(f"{one.floor:.{_DIGITS}g}")
        floor = {"value": value, "unit": one.unit, "source": one.source, "date": today}
        rows.append(f"    {json.dumps(one.metric)}: {json.dumps(floor)},")
    return ["acceptance_floors = {", *rows, "}"]
