"""The table of tests: what a level has of it on a machine."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

from b200kit.node.acceptance import readers, segment, table
from b200kit.node.acceptance.table import Facts
from b200kit.node.state.acceptance import Fold, Level
from tests.subtests import in_subtests

NODE = Facts(8, tuple(f"nvme{i}n1" for i in range(10)), 18, 5)
LEVELS: tuple[Level, ...] = get_args(Level)


@in_subtests(("level", "minutes"), [("smoke", 5), ("standard", 30), ("acceptance", 480)])
def test_level_ends_within_what_it_promises_whatever_hangs(level: Level, minutes: int) -> None:
    assert sum(step.timeout_s for step in table.steps(level, NODE)) <= 60 * minutes


def test_every_word_of_the_table_is_known() -> None:
    names = {test.name for test in table.table().tests}
    for test in table.table().tests:
        assert test.reader[0] in readers.READERS.keys() | segment.OWN.keys()
        assert set(test.metrics.values()) <= set(get_args(Fold))
        assert test.metrics == {metric: table.table().fold(metric) for metric in test.metrics}
        assert test.levels.keys() <= set(LEVELS)
        assert test.tool in {"", *table.table().tools}
        assert {test.near, test.same_as} <= {"", *names}


@in_subtests("level", LEVELS)
def test_bandwidth_comes_first_and_again_after_what_loads_the_gpus(level: Level) -> None:
    order = [step.test for step in table.steps(level, NODE)]
    assert (order[0], order[-1]) == ("facts", "facts-after")
    loads = [at for at, name in enumerate(order) if name.startswith(("dcgm", "gemm", "soak"))]
    assert order.index("all-reduce") < loads[0]
    if level != "smoke":
        assert loads[-1] < order.index("cool-down") < order.index("gpu-to-gpu-again")


def test_soaks_of_changing_kind_take_turns() -> None:
    soaks = [s for s in table.steps("soak", NODE) if s.test.startswith("soak-")]
    assert all(one.test != next_one.test for one, next_one in pairwise(soaks))
    assert [step.segment for step in soaks] == sorted(step.segment for step in soaks)


def test_steps_are_numbered_and_each_disk_has_its_own() -> None:
    steps = table.steps("standard", NODE)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    disks = [step for step in steps if step.test == "disks"]
    assert [step.segment for step in disks] == list(range(1, 11))
    assert {f"--filename=/dev/{name}" for name in NODE.disks} == {step.argv[2] for step in disks}


def test_no_disk_is_written_to_nor_read_through_a_cache() -> None:
    for step in table.steps("soak", NODE):
        if step.argv[:1] == ("fio",):
            assert {"--readonly", "--rw=randread", "--direct=1"} <= set(step.argv)


def test_what_a_machine_has_not_is_no_step_and_says_why() -> None:
    bare = Facts(1, ())
    left_out = table.not_applicable("standard", bare)
    assert left_out.keys() == {
        "gpu-to-gpu", "all-reduce", "disks", "gpu-to-gpu-again", "all-reduce-again",
    }  # fmt: skip
    assert not left_out.keys() & {step.test for step in table.steps("standard", bare)}


@in_subtests(
    ("device", "subsystem", "name"),
    [
        ("2901", "20da", "B200 DevId 20da"),
        ("2901", "ffff", "B200"),
        ("2909", "22eb", "HGX B200 168GB"),
        ("2909", "ffff", None),
        ("2330", "1999", None),
    ],
)
def test_dcgm_holds_a_gpu_to_the_entry_of_its_subsystem(
    device: str, subsystem: str, name: str | None
) -> None:
    found = table.table().dcgm_entry(device, subsystem)
    assert (found.name if found else None) == name
