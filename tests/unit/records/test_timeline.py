"""The runs of a record in a row: comparable ones only, with what changed between them."""

from __future__ import annotations

from b200kit.records.comparison import RunTimeline, timeline
from b200kit.records.entries import MeasuredRun, Record
from tests.messages import assert_message
from tests.unit.records import runs


def accepted(count: int, *later: MeasuredRun) -> Record:
    """A record of so many accepted runs and later ones."""
    first = [runs.run(i) for i in range(count)]
    known = runs.kept(first)
    entry = runs.accepted(known.runs, at="2026-10-20T09:00:00Z")
    return runs.kept([*first, entry, *later])


def test_runs_stand_in_their_order_with_the_baseline_marked() -> None:
    found = timeline(accepted(5, runs.run(6), runs.run(7)))
    assert [run.baseline for run in found.runs] == [True] * 5 + [False] * 2
    assert [run.at for run in found.runs] == sorted(run.at for run in found.runs)
    assert found.runs[0].medians == runs.BASE
    assert all(run.not_counted == "" for run in found.runs)
    assert (found.omitted, found.other_load) == (0, 0)


def test_change_of_the_system_is_told_at_the_run_that_has_it_and_nowhere_else() -> None:
    later = [runs.run(number, versions__driver="580.159.03") for number in (7, 8)]
    found = timeline(accepted(5, runs.run(6), *later)).runs
    assert [bool(run.changes) for run in found] == [False] * 6 + [True, False]
    (change,) = found[6].changes
    assert change.startswith("driver ")
    assert change.endswith("-> 580.159.03")


def test_another_load_is_counted_and_not_shown() -> None:
    found = timeline(runs.kept([runs.run(0), runs.run(1, load__rate=9.0), runs.run(2)]))
    assert len(found.runs) == 2
    assert found.other_load == 1


def test_old_runs_are_left_out_and_accepted_ones_never() -> None:
    found = timeline(accepted(5, *(runs.run(i) for i in range(6, 16))), most=3)
    assert [run.baseline for run in found.runs] == [True] * 5 + [False] * 3
    assert found.omitted == 7


def test_run_that_counts_nowhere_says_why() -> None:
    starved = runs.figured(runs.run(1), verdict="invalid")
    found = timeline(runs.kept([runs.run(0), starved]))
    assert_message(*[run.not_counted for run in found.runs])


def test_empty_record_has_none() -> None:
    assert timeline(Record()) == RunTimeline()
