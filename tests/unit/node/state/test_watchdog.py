"""When a replica is ejected, let back, given up: the rules alone, and that none can be skipped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from b200kit.node.lib import documents
from b200kit.node.state import watchdog
from b200kit.node.state.watchdog import (
    ProbeOutcome,
    ReplicaState,
    ReplicaStep,
    ReplicaUnit,
    WatchdogRules,
)
from tests.messages import assert_message
from tests.subtests import in_subtests

RULES = WatchdogRules(strikes=2, ejections=3, window_s=3600)
ACTIVE = ReplicaUnit("active", "one")
OUT = ReplicaState(out=True, hung="one", ejections=(0.0,), why="no data")


def after(
    standing: ReplicaState, found: ProbeOutcome, now: float = 0.0
) -> tuple[ReplicaState, ReplicaStep]:
    """What a probe of a running replica leads to."""
    return watchdog.after(standing, ACTIVE, found, "no data", RULES, now)


def test_a_running_replica_is_probed() -> None:
    assert watchdog.before(ReplicaState(), ACTIVE, RULES, 0.0) == (
        ReplicaState(),
        ReplicaStep.PROBE,
    )


@in_subtests("state", ["inactive", "activating", "deactivating", "failed", "nonsense"])
def test_a_replica_that_is_stopped_or_starting_is_no_failure(state: str) -> None:
    standing = ReplicaState(strikes=1)
    assert watchdog.before(standing, ReplicaUnit(state, "one"), RULES, 0.0) == (
        standing,
        ReplicaStep.LEAVE,
    )


def test_the_first_failure_is_a_strike_and_the_second_in_a_row_ejects() -> None:
    standing, step = after(ReplicaState(), ProbeOutcome.NO_ANSWER)
    assert (standing.strikes, standing.out, step) == (1, False, ReplicaStep.LEAVE)
    standing, step = after(standing, ProbeOutcome.NO_ANSWER, now=15.0)
    assert step is ReplicaStep.REPAIR
    assert (standing.out, standing.hung, standing.ejections) == (True, "one", (15.0,))
    assert standing.why == "no data"


@in_subtests("field", ["out", "given_up", "out_of_rotation", "marked"])
def test_what_is_remembered_counts_only_as_it_was_written(field: str) -> None:
    document = documents.unstructure(ReplicaState())
    assert documents.understood(ReplicaState, {**document, field: "false"}) is None
    found = documents.structure(ReplicaState, {**document, field: True})
    assert getattr(found, field) is True


@pytest.mark.parametrize("between", [ProbeOutcome.ANSWERED, ProbeOutcome.BUSY])
def test_a_sign_of_life_between_two_failures_clears_the_first(between: ProbeOutcome) -> None:
    standing, _ = after(ReplicaState(), ProbeOutcome.NO_ANSWER)
    standing, _ = after(standing, between)
    assert after(standing, ProbeOutcome.NO_ANSWER)[1] is ReplicaStep.LEAVE


def test_an_engine_that_stands_still_with_requests_waiting_needs_no_second_look() -> None:
    assert after(ReplicaState(), ProbeOutcome.STALLED)[1] is ReplicaStep.REPAIR


def test_a_busy_replica_or_a_refused_probe_never_ejects() -> None:
    standing = ReplicaState()
    for _ in range(20):
        standing, step = after(standing, ProbeOutcome.BUSY)
        assert step is ReplicaStep.LEAVE
        standing, step = after(standing, ProbeOutcome.REFUSED)
        assert step is ReplicaStep.LEAVE
    assert not standing.out


def test_it_is_let_back_by_an_answer_of_another_invocation_only() -> None:
    assert watchdog.before(OUT, ACTIVE, RULES, 1.0) == (OUT, ReplicaStep.REPAIR)
    assert watchdog.before(OUT, ReplicaUnit("active", "two"), RULES, 1.0) == (
        OUT,
        ReplicaStep.PROBE,
    )
    standing, step = watchdog.after(
        OUT, ReplicaUnit("active", "two"), ProbeOutcome.ANSWERED, "", RULES, 1.0
    )
    assert step is ReplicaStep.ADMIT
    assert watchdog.admitted(standing) == ReplicaState(ejections=(0.0,))


def test_a_restart_that_failed_counts_and_is_tried_again() -> None:
    standing, step = watchdog.before(OUT, ReplicaUnit("failed", "two"), RULES, 1.0)
    assert (step, standing.ejections) == (ReplicaStep.REPAIR, (0.0, 1.0))
    standing, step = watchdog.before(standing, ReplicaUnit("failed", "three"), RULES, 2.0)
    assert (step, standing.given_up) == (ReplicaStep.GIVE_UP, True)


ABANDONED = ReplicaUnit("failed", "nine", "start-limit-hit", 1)


def test_one_that_systemd_does_not_start_any_more_is_repaired_and_counted() -> None:
    standing, step = watchdog.before(ReplicaState(), ABANDONED, RULES, 5.0)
    assert (step, standing.out, standing.ejections) == (ReplicaStep.REPAIR, True, (5.0,))
    tired = replace(standing, out=False, ejections=(3.0, 4.0))
    assert watchdog.before(tired, ABANDONED, RULES, 5.0)[1] is ReplicaStep.GIVE_UP


def test_one_that_dies_at_every_start_gets_one_more_and_no_mark_and_comes_back_by_itself() -> None:
    standing, _ = watchdog.before(ReplicaState(), ABANDONED, RULES, 5.0)
    for seen in (
        ReplicaUnit("activating", "ten", "exit-code", 1),
        replace(ABANDONED, invocation="ten"),
    ):
        assert watchdog.before(standing, seen, RULES, 6.0) == (standing, ReplicaStep.LEAVE)
    assert_message(ABANDONED.reason)
    repaired = ReplicaUnit("active", "eleven", "success")
    assert watchdog.before(standing, repaired, RULES, 7.0) == (standing, ReplicaStep.PROBE)
    assert (
        watchdog.after(standing, repaired, ProbeOutcome.ANSWERED, "", RULES, 7.0)[1]
        is ReplicaStep.ADMIT
    )


# What systemd 252 shows of a unit with Restart=always and RestartPreventExitStatus=78.
STOPPED = {
    "systemctl stop": ReplicaUnit("inactive", "", "success", 0),
    "systemctl stop of one that had to be killed": ReplicaUnit("failed", "one", "timeout", 9),
    "systemctl stop that left a process on a GPU": ReplicaUnit("failed", "one", "exit-code", 0),
    "a start that its gate refused": ReplicaUnit("inactive", "", "success", 0),
    "a launcher that refuses its environment": ReplicaUnit("failed", "one", "exit-code", 78),
    "a sandbox that lacks something": ReplicaUnit("failed", "one", "exit-code", 79),
    "its next start is due": ReplicaUnit("activating", "one", "signal", 9),
}


@in_subtests("how", list(STOPPED))
def test_what_somebody_asked_for_is_left_alone_and_told(how: str) -> None:
    assert watchdog.before(ReplicaState(), STOPPED[how], RULES, 5.0) == (
        ReplicaState(),
        ReplicaStep.LEAVE,
    )
    assert_message(STOPPED[how].reason)


def test_one_that_was_stopped_by_hand_while_out_is_left_alone() -> None:
    assert watchdog.before(OUT, ReplicaUnit("inactive", ""), RULES, 1.0) == (OUT, ReplicaStep.LEAVE)


def test_too_many_ejections_within_the_window_give_up() -> None:
    tired = ReplicaState(strikes=1, ejections=(0.0, 100.0))
    standing, step = after(tired, ProbeOutcome.NO_ANSWER, now=200.0)
    assert (step, standing.given_up, standing.out) == (ReplicaStep.GIVE_UP, True, True)
    assert (
        watchdog.before(standing, ReplicaUnit("active", "nine"), RULES, 300.0)[1]
        is ReplicaStep.LEAVE
    )


def test_ejections_of_long_ago_do_not_count() -> None:
    tired = ReplicaState(strikes=1, ejections=(0.0, 100.0))
    standing, step = after(tired, ProbeOutcome.NO_ANSWER, now=3650.0)
    assert (step, standing.ejections) == (ReplicaStep.REPAIR, (100.0, 3650.0))


def test_wrong_answers_eject_at_once_and_doubt_changes_nothing() -> None:
    # The prober counts them: probes in between that nobody read do not start it over.
    standing, step = after(ReplicaState(), ProbeOutcome.WRONG)
    assert (step, standing.out) == (ReplicaStep.REPAIR, True)
    for before in (ReplicaState(strikes=1), replace(OUT, strikes=1)):
        assert after(before, ProbeOutcome.IN_DOUBT) == (before, ReplicaStep.LEAVE)


def test_what_a_person_forgave_is_mended_as_if_for_the_first_time() -> None:
    given_up = ReplicaState(
        out=True, hung="one", ejections=(1.0, 2.0, 3.0), given_up=True, marked=True
    )
    standing = watchdog.forgiven(given_up)
    assert (standing.out, standing.hung, standing.ejections) == (True, "one", ())
    assert watchdog.before(standing, ACTIVE, RULES, 4.0)[1] is ReplicaStep.REPAIR


def test_a_standing_survives_being_written_down() -> None:
    standing = replace(
        OUT, strikes=1, given_up=True, marked=True, out_of_rotation=True, evidence="/x"
    )
    assert documents.decode(ReplicaState, documents.to_bytes(standing)) == standing


def test_a_mark_is_told_with_its_evidence_and_its_end() -> None:
    text = str(watchdog.WatchdogMark("b200-agent", "then", "it hung", "/e"))
    assert_message(text)
    assert "somebody" in str(watchdog.mark_of("not a document"))
