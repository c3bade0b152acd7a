"""The tests of an acceptance run as data, and the steps that a level takes of them. Pure.

tests.yaml has them: `tools`, `tests` in their order, of which one that is `as` an earlier one says
only what is another, and DCGM's own entries of a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from b200kit.node.lib import documents, tables
from b200kit.node.state.acceptance import Fold, Level, Step


@dataclass(frozen=True)
class AcceptanceTool:
    """A program that tests need, and what to do where it is not there.

    `brings`: the line that brings it. `places`: where it may lie besides PATH. `version`: the word
    by which it tells its own. `after_hang`: what frees the hardware after it was killed.
    """

    brings: str
    version: str = ""
    places: tuple[str, ...] = ()
    after_hang: tuple[str, ...] = ()


@dataclass(frozen=True)
class AcceptanceTest:
    """One test.

    `stage`: those of one stage take turns, segment by segment. `tool`: none where b200kit does it.
    `argv`: its words, with {placeholders}. `reader`: a function of readers.py or own.py, and its
    words. `each`: "disk", where it is one segment a disk. `loads`: whose load it is; the GPUs are
    watched during theirs. `levels`: segments and seconds of each, "6 x 900". `grace_s`: seconds
    more until it is killed. `near`, `same_as`: the test whose figures its own must be close, or
    equal, to. `metrics`: what a floor may be set for, and how segments fold.
    """

    name: str
    stage: str
    reader: tuple[str, ...]
    levels: Mapping[str, str]
    metrics: Mapping[str, Fold]
    tool: str = ""
    argv: str = ""
    run_level: str = ""
    each: str = ""
    loads: str = ""
    least_gpus: str = "1"
    grace_s: str = "0"
    near: str = ""
    same_as: str = ""

    def segments(self, level: Level) -> tuple[int, int]:
        """How many segments of how many seconds a level has of it; none: 0, 0."""
        count, _, seconds = self.levels.get(level, "0 x 0").partition(" x ")
        return int(count), int(seconds)


@dataclass(frozen=True)
class DcgmEntry:
    """What DCGM asks of one kind of GPU: PCI device, subsystem, and its floors."""

    device: str
    subsystem: str
    name: str
    target_power_w: str
    stress_gflops: str
    memory_mb_per_s: str


@dataclass(frozen=True)
class AcceptanceTable:
    """All of tests.yaml."""

    tools: Mapping[str, AcceptanceTool]
    tests: tuple[AcceptanceTest, ...]
    dcgm_entries: tuple[DcgmEntry, ...]

    def test(self, name: str) -> AcceptanceTest:
        """A test by its name. Raises KeyError."""
        return {test.name: test for test in self.tests}[name]

    def fold(self, metric: str) -> Fold:
        """How a metric's segments fold; the greatest, where no test declares it."""
        return next((t.metrics[metric] for t in self.tests if metric in t.metrics), "max")

    def dcgm_entry(self, device: str, subsystem: str) -> DcgmEntry | None:
        """The entry that holds for a GPU; None where DCGM has none of it."""
        own = (entry for entry in self.dcgm_entries if entry.device == device)
        return next((entry for entry in own if entry.subsystem in (subsystem, "")), None)


@cache
def table() -> AcceptanceTable:
    """The table, read once."""
    found = tables.load(__package__, "tests")
    rows: dict[str, dict[str, object]] = {}
    for row in found["tests"]:
        rows[row["name"]] = {**rows.get(row.pop("as", ""), {}), **row}
    return documents.structure(AcceptanceTable, {**found, "tests": [*rows.values()]})


@dataclass(frozen=True)
class Facts:
    """What the steps of a run depend on besides its level.

    `nvlinks` and `pcie_generation`: what DCGM is to ask for; 0 and 1 ask for nothing.
    """

    gpus: int
    disks: tuple[str, ...]
    nvlinks: int = 0
    pcie_generation: int = 1
    programs: Mapping[str, str] = field(default_factory=dict)


MEMORY_PERCENT = 85
"""Of the free memory that is loaded (OpenStack Ironic's burn-in)."""


def not_applicable(level: Level, facts: Facts) -> dict[str, str]:
    """Tests of a level that this machine has nothing for, each with why."""
    reasons = {}
    for test in table().tests:
        if test.segments(level)[0] and facts.gpus < int(test.least_gpus):
            reasons[test.name] = f"it needs {test.least_gpus} GPUs, and {facts.gpus} is there"
        elif test.segments(level)[0] and test.each and not facts.disks:
            reasons[test.name] = "the node has no NVMe or SCSI disk"
    return reasons


def steps(level: Level, facts: Facts) -> tuple[Step, ...]:
    """The segments of a level on a machine, numbered in the order they are run.

    A tool that was not found stands in its command line by its bare name.
    """
    left_out = not_applicable(level, facts)
    found: list[tuple[int, int, int, Step]] = []
    for place, test in enumerate(table().tests):
        count, seconds = test.segments(level)
        if test.name in left_out:
            continue
        each = facts.disks * count if test.each else ("",) * count
        for segment, disk in enumerate(each, 1):
            argv = _argv(test, facts, disk, seconds)
            step = Step(0, test.name, segment, argv, seconds + float(test.grace_s))
            found.append((int(test.stage), segment, place, step))
    return tuple(replace(step, number=n) for n, (_, _, _, step) in enumerate(sorted(found), 1))


def _argv(test: AcceptanceTest, facts: Facts, disk: str, seconds: int) -> tuple[str, ...]:
    words = test.argv.format(
        gpus=facts.gpus, disk=disk, seconds=seconds, memory_percent=MEMORY_PERCENT,
        nvlinks=facts.nvlinks, pcie_generation=facts.pcie_generation, run_level=test.run_level,
    ).split()  # fmt: skip
    return (facts.programs.get(test.tool, test.tool), *words) if test.tool else ()
