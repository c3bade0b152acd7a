"""How long a node is out for a change: measured wherever one was made, however short it was."""

from __future__ import annotations

from b200kit.reprovision import transaction
from b200kit.reprovision.ledger_line import DoneLine, IntentLine, LedgerLine, OpenLine
from b200kit.rollout import explain

AT = "2026-11-21T09:00:{:02}Z"


def taken(*seconds: int) -> float | None:
    """What is known after a change whose quarantine, drain and change took so long."""
    now = 0
    lines: list[LedgerLine] = [OpenLine(tx="t", at=AT.format(0))]
    for step, span in zip(("quarantine", "drain", "change"), seconds, strict=False):
        lines.append(IntentLine(step=step, id=step, at=AT.format(now)))
        now += span
        lines.append(DoneLine(id=step, at=AT.format(now)))
    return explain.last_time_s(transaction.fold("n1", lines))


def test_time_out_is_that_of_the_steps_together() -> None:
    assert taken(1, 20, 3) == 24


def test_change_within_a_second_was_measured_all_the_same() -> None:
    assert taken(0, 0, 0) == 0


def test_node_that_was_never_changed_has_none() -> None:
    assert taken(1) is None
