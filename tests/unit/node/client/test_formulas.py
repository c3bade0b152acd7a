"""TTFT, ITL, TPOT, E2E and goodput against values worked out by hand."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import get_type_hints

import pytest

from b200kit.node.client.formulas import (
    FORMULAS,
    METRICS,
    Chunk,
    DelayFigures,
    LatencyFigures,
    OwnError,
    PathFigures,
    RequestRecord,
    Run,
    connect_delay,
    schedule_delay,
    summary,
    timing,
    tokens_per_chunk,
)
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
from b200kit.node.state.serving import Objective
from tests.messages import assert_message
from tests.subtests import in_subtests

# sent at 10.000; role-only at 10.019; output at 10.020, 10.030, 10.045; finish in the last
PLAIN = RequestRecord(
    scheduled=9.998,
    sent=10.0,
    chunks=(
        Chunk(10.019, False),
        Chunk(10.020),
        Chunk(10.030),
        Chunk(10.045),
    ),
    prompt_tokens=20,
    completion_tokens=3,
    finish_reason="length",
    ended=10.050,
)


def test_the_four_latencies_of_one_request() -> None:
    found = timing(PLAIN)
    assert found is not None
    assert found.ttft == pytest.approx(0.020)
    assert found.gaps == pytest.approx((0.010, 0.015))
    assert found.e2el == pytest.approx(0.045)
    assert found.tpot == pytest.approx((0.045 - 0.020) / 2)


def test_a_role_only_chunk_is_not_the_first_token() -> None:
    late = replace(PLAIN, chunks=(Chunk(10.001, False), *PLAIN.chunks[1:]))
    assert timing(late) == timing(PLAIN)


def test_several_tokens_a_chunk_leave_tpot_right() -> None:
    merged = replace(PLAIN, completion_tokens=11, chunks=(Chunk(10.02), Chunk(10.12)))
    found = timing(merged)
    assert found is not None
    assert found.gaps == pytest.approx((0.1,))
    assert found.tpot == pytest.approx(0.01)
    assert tokens_per_chunk(Run((merged,))) == pytest.approx(5.5)


def test_empty_last_chunk_that_comes_late_is_no_token() -> None:
    late = replace(PLAIN, chunks=(*PLAIN.chunks, Chunk(10.445, False)))
    assert timing(late) == timing(PLAIN)


def test_one_token_has_no_tpot() -> None:
    found = timing(replace(PLAIN, completion_tokens=1, chunks=(Chunk(10.02),)))
    assert found is not None
    assert found.tpot is None
    assert found.gaps == ()
    assert found.ttft == found.e2el


@pytest.mark.parametrize("broken", [{"error": "HTTP 503"}, {"chunks": (Chunk(10.1, False),)}])
def test_a_failed_or_empty_answer_has_no_latency(broken: dict[str, object]) -> None:
    record = replace(PLAIN, **broken)  # type: ignore[arg-type]
    assert timing(record) is None
    assert len(Run((record,)).errors) == 1


def shifted(by: float, extra: float = 0.0) -> RequestRecord:
    """PLAIN, sent `by` seconds later, every chunk `extra` seconds slower."""
    chunks = tuple(replace(chunk, at=chunk.at + by + extra) for chunk in PLAIN.chunks)
    return replace(
        PLAIN, scheduled=PLAIN.scheduled + by, sent=10.0 + by, chunks=chunks, ended=10.05 + by
    )


def test_goodput_counts_requests_that_meet_every_objective() -> None:
    run = Run((shifted(0.0), shifted(1.0, extra=0.1), replace(shifted(2.0), error="HTTP 503")))
    result = summary(run, Objective(ttft_ms=100, tpot_ms=100))
    duration = (10.05 + 2.0) - 9.998
    assert result.duration == pytest.approx(duration)
    assert result.num_prompts == 3
    assert (result.completed, result.failed) == (2, 1)
    assert result.request_goodput == pytest.approx(1 / duration)
    assert result.request_throughput == pytest.approx(2 / duration)
    assert result.total_input_tokens == 40
    assert result.total_output_tokens == 6
    assert result.output_throughput == pytest.approx(6 / duration)
    assert result.goodput_share == pytest.approx(1 / 3)


def test_tpot_of_a_one_token_answer_meets_any_objective() -> None:
    one = timing(replace(PLAIN, completion_tokens=1, chunks=(Chunk(10.02),)))
    assert one is not None
    assert Objective(tpot_ms=0.001).met_by(one)
    assert not Objective(e2el_ms=19.0).met_by(one)


def test_percentiles_are_exact_and_p99_is_withheld_from_a_small_sample() -> None:
    run = Run(tuple(shifted(i, extra=i / 1000) for i in range(41)))
    result = summary(run, Objective())
    assert result.ttft.p50_ms == pytest.approx(40.0)
    assert result.ttft.p50_ms == pytest.approx(40.0)
    assert result.ttft.p95_ms == pytest.approx(58.0)
    assert result.ttft.mean_ms == pytest.approx(40.0)
    assert result.ttft.p99_ms is None
    assert "needs 299" in str(result.p99_note)
    assert "needs 59" in str(result.p95_note)
    assert [result.latency(metric).n for metric in METRICS] == [41, 41, 82, 41]


def test_p99_is_given_to_a_sample_that_carries_it() -> None:
    run = Run(tuple(shifted(i, extra=i / 1000) for i in range(301)))
    result = summary(run, Objective())
    assert result.ttft.p99_ms == pytest.approx(20 + 297.0)
    assert result.p99_note is None


def test_nothing_completed_leaves_nulls_not_zeros() -> None:
    result = summary(Run((replace(PLAIN, error="HTTP 503"),)), Objective())
    assert result.ttft.mean_ms is None
    assert result.e2el.p50_ms is None
    assert result.tokens_per_chunk is None
    assert result.completed == 0


def test_no_requests_at_all() -> None:
    assert summary(Run(()), Objective()).duration == 0.0
    assert schedule_delay(()) == DelayFigures()


def test_schedule_delay_is_how_late_the_client_sent() -> None:
    delays = schedule_delay([replace(PLAIN, scheduled=10.0 - late) for late in (0.0, 0.002, 0.004)])
    assert delays.p50 == pytest.approx(2.0)
    assert delays.max == pytest.approx(4.0)


def test_what_is_late_in_the_client_is_in_the_queue_inclusive_latency() -> None:
    late = replace(PLAIN, scheduled=PLAIN.sent - 0.5)
    result = summary(Run((late, replace(late, error="HTTP 503"))), Objective())
    assert result.client_queue_time.p50_ms == pytest.approx(500.0)
    assert result.e2el_including_client_queue.p50_ms == pytest.approx(545.0)
    assert result.e2el.p50_ms == pytest.approx(45.0)


def test_connecting_is_told_of_those_that_connected() -> None:
    made = [replace(PLAIN, connected=PLAIN.sent + s) for s in (0.001, 0.003)]
    assert connect_delay([*made, PLAIN]).max == pytest.approx(3.0)
    assert connect_delay([PLAIN]) == DelayFigures()


def test_every_metric_has_its_formula_in_words() -> None:
    kinds = get_type_hints(PathFigures).items()
    stated = {name for name, kind in kinds if kind is LatencyFigures}
    assert stated == {*METRICS, "client_queue_time", "e2el_including_client_queue"}
    assert stated <= set(FORMULAS)


def test_a_frozen_server_shows_in_every_request_that_was_due_meanwhile() -> None:
    """Open loop: ten requests due while the server is frozen for 2 s all carry their wait."""
    frozen = [
        replace(
            PLAIN,
            scheduled=i * 0.2,
            sent=i * 0.2,
            chunks=(Chunk(2.0 + 0.02), Chunk(2.0 + 0.03)),
            completion_tokens=2,
            ended=2.1,
        )
        for i in range(10)
    ]
    result = summary(Run(tuple(frozen)), Objective())
    assert result.ttft.p50_ms == pytest.approx(2020 - 900)


def test_percentile_is_not_measured_where_the_client_was_later_than_a_tenth_of_it() -> None:
    values = [2.0] * 300
    calm, busy = OwnError(0.05, 0.15, 0.2), OwnError(0.1, 0.3, 2.8)
    assert LatencyFigures.of(values, calm).p99_ms == 2.0
    found = LatencyFigures.of(values, busy)
    assert (found.p50_ms, found.p95_ms, found.p99_ms, found.max_ms) == (2.0, None, None, 2.0)
    assert found.p95_ci95_ms is None
    # The time of a token is of all gaps of an answer.
    assert LatencyFigures.of(values, busy, 63).p99_ms == 2.0
    assert LatencyFigures.of(values, replace(busy, share=10.0)).p99_ms == 2.0


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
