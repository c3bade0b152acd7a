"""How a run begins with a node: by what is true of it at that moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node.state.verdict import Action, Finding, Status, Verdict
from b200kit.reprovision import provision, run
from b200kit.reprovision.fleet_limits import Safety
from b200kit.reprovision.ledger import Transactions
from b200kit.reprovision.run import Repair
from b200kit.reprovision.transaction import Transaction
from b200kit.run.remote import Remote, RemoteError
from b200kit.store.database import Store
from tests.unit import nodes

SILENT = Finding(
    "the node does not answer SSH", Status.FAIL, action=Action.POWER_CYCLE, check="node.reachable"
)
SOUND = Verdict((Finding("all is well", Status.PASS),))


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repair:
    """A node that did not answer when the run looked at it."""
    node, _ = nodes.bare(tmp_path)
    node.unreachable = "no answer"
    repair = Repair(node)
    repair.findings = (SILENT,)
    limits = Safety(Transactions(Store(tmp_path / "b200.db")), (node.name,))
    monkeypatch.setattr(run, "SAFETY", limits)
    monkeypatch.setattr(provision, "judged", lambda node, fresh: SOUND)
    return repair


def test_node_that_was_only_booting_is_left_alone(
    silent: Repair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Remote, "connect_fresh", lambda remote: None)
    assert not silent._may_begin(Transaction(silent.node.name))
    assert (silent.node.record.outcome, silent.node.unreachable) == ("fit", None)


def test_node_that_still_does_not_answer_is_taken_out(
    silent: Repair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(remote: Remote) -> None:
        raise RemoteError("no answer")

    monkeypatch.setattr(Remote, "connect_fresh", refuse)
    assert silent._may_begin(Transaction(silent.node.name))
    assert [finding.check for finding in silent.findings] == ["node.reachable"]
