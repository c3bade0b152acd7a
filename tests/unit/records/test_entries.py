"""The record: what is in it stays whole, what is not is named, and who is compared with whom."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.records import comparison, entries
from b200kit.records.comparison import MedianAtTp, acceptable, against, by_tensor_parallel, latest
from b200kit.records.conditions import Role
from b200kit.records.entries import Acceptance, Record, RecordError, counts
from b200kit.records.store import Records
from b200kit.store.database import SITE, Damaged
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit.records import runs

NEW = "580.159.03"


def sample(
    before: int, after: int, shift: float = 0.0, accepted: bool = True, **changed: object
) -> Record:
    """Runs, their acceptance, and newer ones with a shift and changed run conditions."""
    old = [runs.run(n, day) for n, day in enumerate(runs.days(1, before, 0.01))]
    new = [runs.run(before + n, day, **changed)
           for n, day in enumerate(runs.days(2, after, 0.01, shift))]  # fmt: skip
    known = runs.kept(old)
    act = [runs.accepted(known.runs)]
    return runs.kept([*old, *(act if accepted else []), *new])


def test_what_is_written_is_read_again_and_has_an_id() -> None:
    records = Records()
    assert all(records.append("n01", runs.run(number)) for number in range(3))
    known = records.read("n01")
    assert [run.run for run in known.runs] == ["run-0", "run-1", "run-2"]
    assert entries.medians(known.runs[0]) == runs.BASE
    assert {len(run.id) for run in known.runs} == {10}
    assert known.run(known.runs[1].id[:7]) == known.runs[1]
    assert records.names() == ["n01"]
    assert (records.read("n02").entries, Records("golden").names()) == ((), [])


def test_same_measurement_is_entered_once() -> None:
    records = Records()
    assert records.append("n01", runs.run(1))
    assert not records.append("n01", runs.run(1))
    assert records.append("n01", runs.run(9))
    assert len(records.read("n01").runs) == 2


@in_subtests("text", ["{half", "[]", "{}", '{"kind": []}', '{"kind": "run"}', '{"schema": "x/1"}'])
def test_line_that_is_no_entry_is_damage_of_its_record(text: str) -> None:
    records = Records()
    SITE.append(records.log, text, text)
    with pytest.raises(Damaged, match="about "):
        records.read(text)


@pytest.mark.parametrize(
    "figures",
    [{"verdict": "invalid"},
     {"main__failed": 2},
     {f"main__{m}__p50_ms": None for m in runs.BASE}],
)  # fmt: skip
def test_figures_that_flatter_count_nowhere(figures: dict[str, Any]) -> None:
    run = runs.figured(runs.run(1), **figures)
    assert_message(counts(run))
    assert latest(runs.kept([runs.run(0), run])) == list(runs.kept([runs.run(0)]).runs)


def test_missed_objective_counts_its_times_are_true() -> None:
    assert counts(runs.figured(runs.run(1), verdict="fail")) == ""


def test_same_node_is_the_same() -> None:
    found = against(sample(10, 10))
    assert found.outcome == "same"
    assert found.baseline
    assert found.baseline.by == "ops"
    assert (found.accepted.count, found.newer.count) == (10, 10)


def test_regression_names_what_changed_between_the_conditions() -> None:
    found = against(sample(10, 10, 0.07, versions__driver=NEW))
    assert found.outcome == "different"
    assert set(found.slower) == set(runs.BASE)
    assert found.changed == (f"driver 580.105.08 -> {NEW}",)


def test_regression_without_a_change_names_none() -> None:
    found = against(sample(10, 10, 0.07))
    assert (found.outcome, found.changed) == ("different", ())


def test_runs_of_another_system_are_not_mixed_into_the_newer_ones() -> None:
    found = against(sample(10, 6, 0.07, versions__driver=NEW))
    assert found.newer.count == 6


def test_nothing_is_the_same_without_a_baseline() -> None:
    found = against(sample(10, 10, accepted=False))
    assert found.outcome == "unclear"
    assert_message(found.why)


def test_accepted_runs_are_not_compared_with_themselves() -> None:
    found = against(sample(10, 0))
    assert found.outcome == "unclear"
    assert_message(found.why)


def test_too_few_newer_runs_are_unclear_and_the_last_one_gives_a_hint() -> None:
    found = against(sample(10, 1, 0.3))
    assert found.outcome == "unclear"
    assert not any(hint.inside for hint in found.hint.values())


def test_another_load_is_never_compared() -> None:
    found = against(sample(10, 10, load__isl=512))
    assert found.outcome == "unclear"
    assert_message(found.why)


def test_stand_in_is_never_compared_with_a_real_engine() -> None:
    found = against(sample(10, 10, load__stand_in=False))
    assert found.outcome == "unclear"


def test_newest_acceptance_counts() -> None:
    old = sample(10, 10, 0.07)
    act = runs.accepted(old.runs[10:], "new driver", "2026-12-01T00:00:00Z")
    more = [runs.run(40 + n, d) for n, d in enumerate(runs.days(5, 8, 0.01, 0.07))]
    found = against(runs.kept([*old.entries, act, *more]))
    assert (found.outcome, found.baseline and found.baseline.why) == ("same", "new driver")


def test_empty_record_is_unclear() -> None:
    assert against(Record()).outcome == "unclear"


def test_node_is_compared_with_another() -> None:
    found = against(sample(0, 8, 0.07), other=sample(10, 0))
    assert (found.outcome, found.baseline) == ("different", None)


def test_baseline_takes_the_newest_runs_of_one_system() -> None:
    known = sample(10, 6, versions__driver=NEW)
    assert [run.run for run in acceptable(known)] == [f"run-{n}" for n in range(10, 16)]
    chosen = [run.id for run in known.runs[:5]]
    assert [run.id for run in acceptable(known, chosen)] == chosen


def test_baseline_is_refused_in_one_line() -> None:
    with raises_message(RecordError):
        acceptable(sample(0, 4))
    known = sample(10, 6, load__isl=512)
    mixed = [known.runs[0].id, *(run.id for run in known.runs[10:])]
    with raises_message(RecordError, FIRST=mixed[0][:10], OTHER=mixed[1][:10]):
        acceptable(known, mixed)
    with raises_message(RecordError):
        acceptable(known, ["nonsense"])
    known = runs.kept([runs.figured(runs.run(3), verdict="invalid")])
    with raises_message(RecordError, RUN=known.runs[0].id[:10]):
        acceptable(known, [known.runs[0].id])


@pytest.mark.parametrize(("by", "why"), [("", "x"), ("x", " ")])
def test_acceptance_without_a_name_or_a_reason_is_none(by: str, why: str) -> None:
    with raises_message(RecordError):
        Acceptance("n01", "2026-11-01T00:00:00Z", by, why, ())


def test_tpot_at_each_tensor_parallelism() -> None:
    small = [runs.run(n, {**runs.BASE, "tpot": 10.1}) for n in range(3)]
    large = [runs.run(9 + n, {**runs.BASE, "tpot": 9.9}, serving__tp=8) for n in range(2)]
    known = runs.kept([*small, *large])
    found = by_tensor_parallel(known.runs, known.runs[-1])
    assert found == (MedianAtTp(2, 10.1, 3), MedianAtTp(8, 9.9, 2))
    # A node that is at the smaller one already has nothing to go back from.
    assert len(by_tensor_parallel(known.runs, known.runs[0])) == 1


def test_groups_are_of_one_load() -> None:
    known = runs.kept([runs.run(0), runs.run(1, load__osl=8), runs.run(2)])
    assert len(comparison.alike(known.runs, known.runs[0], Role.LOAD)) == 2


def test_tails_are_compared_where_the_requests_of_a_run_carry_them() -> None:
    entry = runs.run(1)
    figures = entries.measured(entry).figures
    assert {"ttft", "p95_ttft", "missed"} <= set(figures)
    assert not any(name.startswith("p99") for name in figures)
    shares = {"main__goodput_share": 0.9, "main__late_share": 0.25}
    entry = runs.figured(entry, main__completed=58, main__ttft__max_ms=9.0, **shares)
    figures = entries.measured(entry).figures
    assert not any(name.startswith("p95") for name in figures)
    assert figures["missed"] == pytest.approx(0.1)
    assert figures["late"] == 0.25
    assert entries.measured(entry).day == "2026-10-02"
