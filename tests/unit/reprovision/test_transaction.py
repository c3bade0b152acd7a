"""Where a node stands by the lines of its file: each scenario is what happened and where it led."""

from __future__ import annotations

from collections.abc import Sequence

from b200kit.inventory.keys.levels import Level
from b200kit.reprovision import transaction
from b200kit.reprovision.escalation import Decision
from b200kit.reprovision.ledger_line import (
    DoneLine,
    FailedLine,
    IntentLine,
    LedgerLine,
    OpenLine,
)
from b200kit.reprovision.states import RepairState
from b200kit.reprovision.transaction import Transaction
from tests.subtests import in_subtests

AT = "2026-11-21T09:00:0{}Z"
OUT = ["quarantine", "drain", "evidence"]
UP = ["provision", "prove", "share"]
# What happened, step by step ("!": it failed, "?": it failed and is tried again, "...": no line
# closes it), and where the node stands.
SCENARIOS: dict[str, tuple[list[str], RepairState]] = {
    "nothing was done yet": ([], RepairState.SERVING),
    "taken out": (OUT, RepairState.EVIDENCED),
    "the drain ran out of time": (["quarantine", "drain?"], RepairState.QUARANTINED),
    "a level was done": ([*OUT, "action"], RepairState.REPAIRED),
    "a level failed": ([*OUT, "action!"], RepairState.DRAINED),
    "a level was begun": ([*OUT, "action..."], RepairState.EVIDENCED),
    "the mirror was away": ([*OUT, "action", "provision?"], RepairState.REPAIRED),
    "the proof failed": ([*OUT, "action", "provision", "prove!"], RepairState.DRAINED),
    "it has its canary share": ([*OUT, "action", *UP], RepairState.CANARY),
    "it fails among its users": ([*OUT, "action", *UP, "return!"], RepairState.SERVING),
    "it is back": ([*OUT, "action", *UP, "return"], RepairState.SERVING),
    "manual repair is needed": ([*OUT, "hand over"], RepairState.MANUAL),
    "manual repair is done": ([*OUT, "hand over", "release", *UP, "return"], RepairState.SERVING),
    "a person ends it before an act": (["quarantine", "release"], RepairState.REPAIRED),
    "the next level helps": (
        [*OUT, "action", "provision!", "evidence", "action", *UP, "return"],
        RepairState.SERVING,
    ),
}


def lines(happened: Sequence[str]) -> list[LedgerLine]:
    """The lines that tell it."""
    found: list[LedgerLine] = [OpenLine(tx="t", at=AT.format(0))]
    for number, word in enumerate(happened):
        step, at = word.rstrip("!?."), AT.format(number % 10)
        level = Level.REBOOT if step == "action" else Level.REPLACE
        decision = Decision(level, "", parts=("GPU 4",))
        found.append(IntentLine(step=step, id=str(number), at=at, decision=decision))
        if word[-1] in "!?":
            found.append(FailedLine(id=str(number), at=at, back=word[-1] != "?"))
        elif not word.endswith("..."):
            found.append(DoneLine(id=str(number), at=at))
    return found


def described(name: str) -> Transaction:
    return transaction.fold("n1", lines(SCENARIOS[name][0]))


@in_subtests("name", SCENARIOS)
def test_node_stands_where_it_should_when(name: str) -> None:
    tx = described(name)
    assert tx.state is SCENARIOS[name][1]
    assert (tx.pending is not None) is (name == "a level was begun")
    assert tx.is_open is (
        name not in ("it is back", "manual repair is done", "the next level helps")
    )


@in_subtests(
    ("name", "outcomes"),
    [
        ("a level was begun", ["unfinished"]),
        ("a level failed", ["failed"]),
        ("the mirror was away", ["unfinished"]),
        ("the proof failed", ["did not help"]),
        ("it fails among its users", ["did not help"]),
        ("it is back", ["cured"]),
        ("the next level helps", ["did not help", "cured"]),
    ],
)
def test_attempt_is_remembered_by_what_came_of_it(name: str, outcomes: list[str]) -> None:
    assert [attempt.outcome for attempt in described(name).attempts] == outcomes


def test_attempts_of_a_closed_transaction_count_in_the_next_one() -> None:
    happened = lines(SCENARIOS["it is back"][0])
    again = transaction.fold("n1", [*happened, *lines(["quarantine"])])
    assert (len(again.attempts), again.state, again.steps[0].action) == (
        1,
        RepairState.QUARANTINED,
        "quarantine",
    )


def test_report_names_the_parts_only_when_hands_are_needed() -> None:
    assert described("manual repair is needed").report().parts == ("GPU 4",)
    assert described("taken out").report().parts == ()
