"""When nodes may be taken out: alike, at once, and down to which floor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from b200kit.inventory.keys.rollout import Rollout
from b200kit.node.state.verdict import Finding, Status
from b200kit.reprovision import circuit_breaker
from b200kit.reprovision.circuit_breaker import FleetState
from tests.messages import assert_message
from tests.subtests import in_subtests

ROLLOUT = Rollout(max_out=2)
FLEET = FleetState(nodes=12, out=(), failing={}, least=ROLLOUT.least(12), max_same_cause=3)


def failing(count: int, cause: str = "driver.version: 580.82") -> dict[str, str]:
    return {f"n{number:02d}": cause for number in range(count)}


@pytest.mark.parametrize(("count", "is_open"), [(0, False), (3, False), (4, True), (50, True)])
def test_breaker_opens_above_as_many_alike_as_are_allowed(count: int, is_open: bool) -> None:
    message = circuit_breaker.open_reason(replace(FLEET, nodes=50, failing=failing(count)))
    assert bool(message) is is_open


def test_breaker_names_the_nodes_and_what_is_alike() -> None:
    message = circuit_breaker.open_reason(replace(FLEET, failing=failing(5)))
    assert_message(message)
    assert "\n" not in message


def test_line_of_fifty_nodes_stays_a_line() -> None:
    message = circuit_breaker.open_reason(replace(FLEET, nodes=50, failing=failing(50)))
    assert "n05 and 44 more" in message
    assert len(message) < 400


def test_as_many_nodes_that_fail_each_by_something_else_are_mended() -> None:
    causes = {f"n{number}": f"check.{number}: broken" for number in range(10)}
    assert circuit_breaker.open_reason(replace(FLEET, failing=causes)) == ""


@pytest.mark.parametrize(
    "read",
    [
        "GPU-6c7b4a2e-0000-4000-8000-000000000001 lost",
        "PCI 0000:1b:00.0 lost",
        "serial 1654322004371",
    ],
)
def test_names_of_single_parts_do_not_make_two_faults_of_one(read: str) -> None:
    other = read.replace("1b", "2c").replace("6c7b4a2e", "0a0b0c0d").replace("165", "177")
    first, second = (
        circuit_breaker.cause([Finding("GPU is lost", Status.FAIL, read=text, check="xid.79")])
        for text in (read, other)
    )
    assert first == second


def test_other_reading_of_the_same_check_is_another_cause() -> None:
    reads = ("17 of 18 links up", "0 of 18 links up")
    causes = {
        circuit_breaker.cause([Finding("x", Status.FAIL, read=r, check="nvlink.links")])
        for r in reads
    }
    assert len(causes) == 2


@in_subtests(
    ("out", "floor", "serves", "allowed"),
    [
        ((), None, True, True),
        (("n01",), None, True, True),
        (("n01", "n02"), None, True, False),
        (("n01", "n02"), 9, True, True),
        (("n01", "n02"), None, False, True),
        ((), 12, True, False),
        (("n00",), None, True, True),
    ],
)
def test_floor_of_serving_nodes_is_kept(
    out: tuple[str, ...], floor: int | None, serves: bool, allowed: bool
) -> None:
    least = ROLLOUT.replace(floor=floor).least(12)
    message = circuit_breaker.floor_reason(replace(FLEET, out=out, least=least), "n00", serves)
    assert (message == "") is allowed


def test_floor_says_who_is_out_already_and_what_to_do() -> None:
    message = circuit_breaker.floor_reason(replace(FLEET, out=("n01", "n02")), "n00", True)
    assert_message(message)
