"""When a replica counts as slower than the others of its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from b200kit.node.state.pace import Pace, Reading

EVERY_S, GAPS = 15, 1000


def told(
    itl_ms: Mapping[str, Sequence[float]], made: Mapping[str, int] | None = None
) -> tuple[Pace, float]:
    """Replicas that took so long for a token between one reading and the next; and when it is.

    made: tokens from one reading to the next, GAPS where it says nothing.
    """
    pace = Pace(window_s=60.0)
    now = 0.0
    for name, values in itl_ms.items():
        gaps = (made or {}).get(name, GAPS)
        now, seconds, count = 0.0, 0.0, 0
        pace.note(name, Reading(now, seconds, count))
        for value in values:
            now, seconds, count = now + EVERY_S, seconds + value / 1000 * gaps, count + gaps
            pace.note(name, Reading(now, seconds, count))
    return pace, now


def test_one_of_several_that_takes_several_times_as_long_is_behind() -> None:
    pace, now = told({"a": [10] * 8, "b": [11] * 8, "c": [10] * 4 + [90] * 4})
    assert "8.6 times as long" in pace.behind("c", now)
    assert [pace.behind(name, now) for name in ("a", "b")] == ["", ""]


def test_less_than_the_factor_or_a_moment_of_it_is_not() -> None:
    pace, now = told({"a": [10] * 8, "b": [10] * 8, "c": [29] * 8})
    assert pace.behind("c", now) == ""
    pace, now = told({"a": [10] * 8, "b": [10] * 8, "c": [10] * 7 + [80]})
    assert pace.behind("c", now) == ""


def test_nobody_is_behind_beside_fewer_than_two_that_are_alike() -> None:
    # One whose tokens come in bursts makes a sound one look slow.
    beside: list[dict[str, list[float]]] = [{}, {"b": [0.5] * 8}, {"b": [0.5] * 8, "c": [10] * 8}]
    for others in beside:
        pace, now = told({"a": [90] * 8, **others})
        assert pace.behind("a", now) == "", others


def test_too_few_tokens_judge_nobody() -> None:
    others: dict[str, list[float]] = {"b": [10] * 8, "c": [10] * 8}
    for few in ("a", "b"):
        pace, now = told({"a": [90] * 8, **others}, {few: 10})
        assert pace.behind("a", now) == "", few


def test_one_that_was_not_read_for_long_says_nothing_of_the_others() -> None:
    pace, now = told({"b": [10] * 8, "c": [10] * 8, "a": [90] * 20})
    assert pace.behind("a", now) == ""
    assert pace.behind("a", EVERY_S * 8) != ""


def test_process_that_began_again_is_judged_by_its_own_tokens() -> None:
    pace, now = told({"a": [10] * 8, "c": [10] * 8, "b": [90] * 8})
    assert pace.behind("b", now)
    pace.note("b", Reading(now, 0.0, 0.0))
    assert pace.behind("b", now) == ""
