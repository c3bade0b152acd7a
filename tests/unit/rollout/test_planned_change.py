"""What a change made, and what is the machine's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from b200kit.node.lib.documents import structure, unstructure
from b200kit.node.state.verdict import Finding, Status
from b200kit.reprovision.planned_change import BY_CHANGE, UNREACHABLE, PlannedChange, Work

CHANGE = PlannedChange("driver 1 -> 2", "t")
SKEW = Finding("skew", Status.FAIL, check="driver.version")
LINKS = Finding("links", Status.FAIL, subject="GPU 2", check="nvlink.links")
OTHER = Finding("links", Status.FAIL, subject="GPU 3", check="nvlink.links")
UNREAD = Finding("no value", Status.UNMEASURED, check="bandwidth.peer")
STAGE = Finding("it ended", Status.FAIL, check=BY_CHANGE)
GONE = Finding("gone", Status.FAIL, check=UNREACHABLE)


def test_bad_change_is_rolled_back_and_was_the_change() -> None:
    change = CHANGE
    assert change.work is Work.CHANGE
    change = change.failing("skew", [SKEW])
    assert (change.work, change.is_bad) == (Work.ROLL_BACK, True)
    assert (change.ended().outcome, change.ended().is_bad) == ("rolled back", True)


def test_what_was_there_before_is_the_machines_own() -> None:
    change = replace(CHANGE, already=(LINKS,)).failing("links", [SKEW, LINKS])
    assert (change.work, change.own, change.is_bad) == (Work.REPAIR, True, False)


def test_same_fault_of_another_part_is_not_the_one_before() -> None:
    change = replace(CHANGE, already=(OTHER,)).failing("links", [LINKS])
    assert (change.work, change.own) == (Work.ROLL_BACK, False)


def test_what_stays_without_the_change_is_the_machines_own() -> None:
    change = CHANGE.failing("links", [LINKS]).failing("same", [LINKS])
    assert (change.work, change.own) == (Work.REPAIR, True)


@pytest.mark.parametrize(
    ("found", "own"),
    [
        ([LINKS], True),
        ([UNREAD, LINKS], True),
        ([UNREAD], False),
        ([GONE], False),
        ([STAGE], False),
    ],
)
def test_fault_that_only_a_measurement_found_is_the_machines_own(
    found: list[Finding], own: bool
) -> None:
    change = replace(CHANGE, measures=True).failing("slow", found)
    assert (change.own, change.is_bad) == (own, not own)
    assert change.work is (Work.REPAIR if own else Work.ROLL_BACK)
    assert structure(PlannedChange, unstructure(change)).measures


def test_node_that_does_not_answer_says_nothing_of_whose_fault_it_is() -> None:
    change = CHANGE.failing("gone", [GONE]).failing("gone", [GONE])
    assert (change.work, change.own, change.is_bad) == (Work.REPAIR, False, True)


def test_good_change_ends_done() -> None:
    assert CHANGE.ended().outcome == "done"
