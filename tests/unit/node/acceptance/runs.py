"""A plan and lines of an acceptance run, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from b200kit.node.acceptance import table
from b200kit.node.acceptance.table import Facts
from b200kit.node.state.acceptance import (
    AcceptancePlan,
    AcceptedMachine,
    Floor,
    Level,
    MetricValue,
    Outcome,
    SegmentLine,
    Step,
    Tool,
)

GPUS = 8
MACHINE = AcceptedMachine(
    "HGX B200", "S1", tuple(f"GPU-{i}" for i in range(GPUS)), ("1",) * GPUS, "580.105.08", "6.1.0"
)
TOOL = Tool("/usr/bin/tool", "0" * 64, "1.0")
COUNTERS = {
    **{
        f"{name}/GPU {i}": 0
        for name in ("ecc_volatile_uncorrected", "remap_pending", "remap_failed", "xids")
        for i in range(GPUS)
    },
    "edac_ue/mc0": 0,
    "edac_ce/mc0": 2,
}
AT_MOST_SLOWED = "hardware_thermal_slowdown"


def plan(
    level: Level = "smoke",
    tests: Sequence[str] = (),
    floors: Mapping[str, Floor] | None = None,
    gpus: int = GPUS,
    **changes: object,
) -> AcceptancePlan:
    """The plan of a level, of some tests of it only."""
    facts = Facts(gpus, ("nvme0n1", "nvme1n1"), 18, 5)
    steps = table.steps(level, facts)
    made = AcceptancePlan(
        id="20261201T000000Z-smoke", node="n01", level=level, started_at="2026-12-01T00:00:00Z",
        machine=replace(MACHINE, gpus=MACHINE.gpus[:gpus]),
        tools=dict.fromkeys(table.table().tools, TOOL), missing={},
        not_applicable=table.not_applicable(level, facts), floors=floors or {},
        steps=tuple(step for step in steps if not tests or step.test in tests),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def figures(step: Step, scale: float = 1.0, gpus: int = GPUS) -> tuple[MetricValue, ...]:
    """Figures as a good machine has them."""
    test = table.table().test(step.test)
    made = []
    for metric in test.metrics:
        for subject in ["node"] if "all_reduce" in metric else [f"GPU {i}" for i in range(gpus)]:
            unit = "GB/s" if metric.endswith("gb_per_s") else ""
            made.append(MetricValue(metric, subject, 800.0 * scale, unit))
    if test.loads == "gpu":
        made += [MetricValue(AT_MOST_SLOWED, f"GPU {i}", 0.0, "") for i in range(gpus)]
    return tuple(made)


def line(step: Step, outcome: Outcome = "done", attempt: int = 1, **changes: object) -> SegmentLine:
    """What came of a step."""
    made = SegmentLine(
        step.number, step.test, step.segment, attempt, outcome,
        "" if outcome == "done" else "it said so", figures(step) if outcome == "done" else (),
        COUNTERS, COUNTERS, {}, "boot-1", "2026-12-01T00:00:00Z", 1.0,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def lines(run: AcceptancePlan) -> list[SegmentLine]:
    """A line for each step, all well."""
    return [line(step) for step in run.steps]


def floor(value: float, unit: str = "GB/s", holds: str = "at least") -> Floor:
    """A limit with a source."""
    return Floor(value, unit, holds, "ours", "2026-12-01", "measured")  # type: ignore[arg-type]
