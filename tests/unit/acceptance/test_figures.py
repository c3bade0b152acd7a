"""Figures of runs: held to floors with their source, made into floors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from b200kit.acceptance import figures
from b200kit.acceptance.peers import centre, compare, floor
from b200kit.catalog import hardware
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.acceptance import table
from b200kit.node.state.acceptance import AcceptancePlan, SegmentLine
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.acceptance import runs
from tests.unit.specs import CATALOGUE, data

OWN = {"value": 742.5, "unit": "GB/s", "source": "our 12 nodes", "date": "2026-12-02"}


def spec(**changes: object) -> NodeSpec:
    """A sound spec."""
    found = parse(data(**changes), CATALOGUE)
    assert isinstance(found, NodeSpec), found
    return found


def lines(node: str = "n01", **scaled: float) -> tuple[AcceptancePlan, list[SegmentLine]]:
    """A run of a node; *scaled*: a metric's figures by another factor."""
    plan = runs.plan(node)
    found = [runs.line(plan, step) for step in plan.steps]
    return plan, [_scaled(line, scaled) for line in found]


def _scaled(line: SegmentLine, scaled: dict[str, float]) -> SegmentLine:
    values = tuple(
        replace(one, value=one.value * scaled.get(one.metric, 1.0)) for one in line.values
    )
    return replace(line, values=values)


def test_floors_are_the_hardware_s_with_source_and_the_site_s_own_instead() -> None:
    found = figures.floors(spec())
    expect = hardware.load("hgx-b200")["expect"]
    peer = found["gpu_to_gpu_gb_per_s"]
    entry = expect["bandwidth.peer_floor"]
    assert (peer.value, peer.source, peer.kind) == (650, entry["source"], entry["kind"])
    assert found["all_reduce_8_gib_gb_per_s"].value == 780
    assert all(one.holds == "at least" and one.unit == "GB/s" for one in found.values())
    known = {metric for test in table.table().tests for metric in test.metrics}
    assert found.keys() <= known

    own = figures.floors(spec(acceptance_floors={"gpu_to_gpu_gb_per_s": OWN}))
    assert own["gpu_to_gpu_gb_per_s"].value == 742.5
    assert own["gpu_to_gpu_gb_per_s"].source == "our 12 nodes"
    assert own.keys() == found.keys()
    assert figures.floors(spec(acceptance_baseline=True)) == {}


def test_keys_of_floors_are_named_where_they_are_wrong() -> None:
    wrong = {"gpu_to_gpu_gb_per_s": {**OWN, "valeu": 1}}
    found = parse(data(acceptance_floors=wrong, accept_level="smok"), CATALOGUE)
    assert isinstance(found, list)
    assert all(isinstance(one, Problem) for one in found)
    assert_message(*map(str, found))


def test_the_slow_gpu_of_a_node_and_the_slow_node_of_a_fleet_are_named() -> None:
    fleet = [lines(f"n{n:02}", gemm_tensor_gflops=0.9 if n == 3 else 1 + n / 1000)
             for n in range(1, 9)]  # fmt: skip
    plan, every = fleet[0]
    slow = [
        replace(line, values=tuple(
            replace(v, value=v.value * (0.93 if v.subject == "GPU 6" else 1 + k / 10_000))
            for k, v in enumerate(line.values)
        ))
        for line in every
    ]  # fmt: skip
    found = list(figures.compare([(plan, slow), *fleet[1:]]))
    bad = {(one.among, one.finding.name) for one in found if one.finding.rating == "bad"}
    assert bad == {("n01", "GPU 6"), ("fleet", "n03")}
    assert {one.finding.rating for one in figures.compare(fleet[:2]) if one.among == "fleet"} == {
        "not compared"
    }


def test_of_each_node_the_newest_run_is_compared() -> None:
    old, new = lines(), lines()
    new = (runs.plan(started_at="2026-12-02T08:00:00Z"), new[1])
    assert figures.newest([new, old]) == [new]


def test_baselines_are_inventory_data_that_is_taken() -> None:
    fleet = [lines(f"n{n:02}", gemm_tensor_gflops=1 + n / 100) for n in range(5)]
    found = {one.metric: one for one in figures.baselines(fleet)}
    peer = found["gpu_to_gpu_gb_per_s"]
    assert (peer.runs, peer.values, peer.median) == (5, 40, runs.PEER)
    assert peer.floor == pytest.approx(runs.PEER * 0.95)
    assert "idle_temperature_c" not in found
    names: dict[str, object] = {}
    exec("\n".join(figures.inventory_lines(found.values(), "2026-12-02")), names)
    taken = figures.floors(spec(acceptance_floors=names["acceptance_floors"]))
    assert taken["gemm_tensor_gflops"].value == pytest.approx(
        found["gemm_tensor_gflops"].floor, rel=1e-3
    )
    assert "40 figures in 5 runs" in taken["gemm_tensor_gflops"].source


# Eight GPUs of a GEMM sweep, TFLOPS.
ALIKE = {f"GPU {i}": 1741.0 + (i % 3) for i in range(8)}


def ratings(values: dict[str, float]) -> dict[str, str]:
    return {each.name: each.rating for each in compare(values) if each.rating != "alike"}


@in_subtests(
    ("values", "expected"),
    [
        (ALIKE, {}),
        (ALIKE | {"GPU 6": 1702.0}, {"GPU 6": "watch"}),
        (ALIKE | {"GPU 6": 1600.0}, {"GPU 6": "bad"}),
        (ALIKE | {"GPU 6": 1900.0}, {}),
        # Most are the same: there is no spread to measure by, only the distance.
        (dict.fromkeys("abcd", 100.0) | {"e": 94.0, "f": 97.0}, {"e": "bad", "f": "watch"}),
        # They are all over the place: 6 per cent is nothing then.
        (
            {"a": 80.0, "b": 90.0, "c": 100.0, "d": 110.0, "e": 94.0},
            {"a": "watch", "b": "watch"},
        ),
        ({"a": 100.0, "b": 50.0}, {"a": "not compared", "b": "not compared"}),
        ({"a": 0.0, "b": 0.0, "c": 1.0}, dict.fromkeys("abc", "not compared")),
        ({}, {}),
    ],
)
def test_the_slow_one_is_named(values: dict[str, float], expected: dict[str, str]) -> None:
    assert ratings(values) == expected


def test_a_finding_says_how_far_from_how_many() -> None:
    slow = compare({"a": 100.0, "b": 102.0, "c": 98.0, "d": 90.0, "e": 100.0})[3]
    assert (slow.peers, slow.median, slow.percent) == (5, 100.0, -10.0)
    assert slow.z == pytest.approx(-10 / (1.4826 * 2))


@in_subtests(
    ("values", "least"), [([100.0] * 5, 95.0), ([80.0, 90.0, 100.0, 110.0, 120.0], 100 - 59.304)]
)
def test_floor_of_a_fleet_lies_beyond_its_spread(values: list[float], least: float) -> None:
    assert floor(*centre(values)) == pytest.approx(least)
