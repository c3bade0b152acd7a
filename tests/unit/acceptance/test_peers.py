"""Who is slow among its like: the slow one by name, nobody for being fast."""

from __future__ import annotations

import pytest

from b200kit.acceptance.peers import centre, compare, floor
from tests.subtests import in_subtests

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
