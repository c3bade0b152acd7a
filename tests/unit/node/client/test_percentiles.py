"""Percentiles: numpy's linear method, and what a sample's size can carry."""

from __future__ import annotations

import math
import random

import pytest

from b200kit.node.client.percentiles import (
    carries,
    deviation,
    interval,
    mean,
    needed,
    note,
    percentile,
    rank_interval,
)
from tests.messages import assert_message
from tests.subtests import in_subtests


def reference(values: list[float], percent: float) -> float:
    """Linear interpolation written the textbook way."""
    ordered = sorted(values)
    whole, share = divmod(percent / 100 * (len(ordered) - 1), 1)
    index = int(whole)
    if share == 0:
        return ordered[index]
    return ordered[index] * (1 - share) + ordered[index + 1] * share


# computed with numpy.percentile (default method) 2.x
KNOWN = [
    ([15.0, 20.0, 35.0, 40.0, 50.0], 40, 29.0),
    ([1.0, 2.0, 3.0, 4.0], 50, 2.5),
    ([1.0, 2.0, 3.0, 4.0], 95, 3.85),
    ([1.0, 2.0, 3.0, 4.0], 99, 3.97),
    ([7.0], 99, 7.0),
    ([3.0, 1.0], 25, 1.5),
]


@in_subtests(("values", "percent", "expected"), KNOWN)
def test_known_values(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == pytest.approx(expected, abs=1e-12)


@in_subtests("size", [1, 2, 3, 10, 40, 333])
def test_agrees_with_the_textbook_on_random_samples(size: int) -> None:
    chooser = random.Random(size)
    values = [chooser.expovariate(1) for _ in range(size)]
    for percent in (0, 1, 5, 25, 50, 75, 95, 99, 99.9, 100):
        assert percentile(values, percent) == pytest.approx(reference(values, percent), rel=1e-12)


def test_ends_are_the_extremes_and_order_does_not_matter() -> None:
    assert percentile([5, 1, 9], 0) == 1
    assert percentile([5, 1, 9], 100) == 9


def test_no_values_or_a_percent_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    with pytest.raises(ValueError, match=r"must be 0\.\.100"):
        percentile([1.0], 101)
    with pytest.raises(ValueError, match="no values"):
        mean([])


def test_deviation_is_the_population_one() -> None:
    assert mean([2, 4, 4, 4, 5, 5, 7, 9]) == 5
    assert deviation([2, 4, 4, 4, 5, 5, 7, 9]) == 2


@pytest.mark.parametrize(("percent", "size"), [(50, 5), (95, 59), (99, 299)])
def test_smallest_sample_that_carries_a_percentile(percent: float, size: int) -> None:
    assert needed(percent) == size
    assert carries(size, percent)
    assert not carries(size - 1, percent)
    assert not carries(0, percent)


def test_the_note_says_how_many_are_needed_and_the_risk() -> None:
    assert note(299, 99) is None
    assert_message(note(40, 99))


@pytest.mark.parametrize(
    ("samples", "percent", "low", "high"),
    [(100, 99, 97, None), (1000, 99, 983, 997), (10, 50, 2, 9), (5, 50, None, None)],
)
def test_ranks_that_enclose_a_quantile(
    samples: int, percent: float, low: int | None, high: int | None
) -> None:
    assert rank_interval(samples, percent) == (low, high)


@pytest.mark.parametrize(("samples", "percent"), [(20, 50), (60, 95), (400, 99), (1000, 99)])
def test_the_ranks_hold_the_confidence_they_claim(samples: int, percent: float) -> None:
    low, high = rank_interval(samples, percent)
    share = percent / 100

    def below(count: int) -> float:
        """P(binomial(samples, share) < count), summed term by term."""
        return math.fsum(
            math.comb(samples, k) * share**k * (1 - share) ** (samples - k) for k in range(count)
        )

    under = 1.0 if high is None else below(high)
    over = 0.0 if low is None else below(low)
    assert under - over >= 0.95


def test_interval_gives_values_not_ranks() -> None:
    assert interval([float(i) for i in range(1, 11)], 50) == (2.0, 9.0)
    assert interval([1.0, 2.0], 50) == (None, None)
