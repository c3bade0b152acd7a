"""The node's own copy and the store: whatever is cut off one, the other one knows of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.inventory.keys.levels import Level
from b200kit.node.lib.documents import unstructure
from b200kit.reprovision import copy_comparison
from b200kit.reprovision.copy_comparison import CopiedTransaction, NodeCopy
from b200kit.reprovision.escalation import Decision
from b200kit.reprovision.ledger import Ledger
from b200kit.reprovision.ledger_line import DoneLine, IntentLine
from b200kit.reprovision.transaction import Transaction
from b200kit.run import process
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.reprovision.test_fleet_limits import in_folder
from tests.unit.store.test_database import rewrite

Copy = dict[str, Any]


def copy_of(tx: Transaction) -> Copy:
    """As the node has it."""
    found: Copy = unstructure(NodeCopy(CopiedTransaction.of(tx), "", "b", process.this(), 1800.0))
    return found


def changed(**fields: object) -> Callable[[Copy], object]:
    """The copy with other values of its transaction."""
    return lambda copy: {**copy, "transaction": {**copy["transaction"], **fields}}


class Site:
    """A node that was reprovisioned once, its own copy, and the run that read it."""

    def __init__(self, folder: Path, *levels: str) -> None:
        self.transactions, self.reports = in_folder(folder), folder / "reports"
        owner = Ledger(self.transactions, "n1", "alice@one pid 1", "first")
        owner.claim()
        owner.begin([], "driver.loaded", "")
        for step, level in (
            *(("quarantine", ""), ("drain", ""), ("evidence", "")),
            *(("action", level) for level in levels),
        ):
            decision = Decision(Level.parse(level), "") if level else None
            out = owner.append(IntentLine(step=step, id=step, decision=decision))
            copied = out.digest if step == "quarantine" else None
            owner.append(DoneLine(result="done", why="no driver", copied=copied))
            if copied:
                self.copy = copy_of(out)
        self.newest = copy_of(owner.release())

    def cut(self, count: int) -> None:
        """Take lines off the end, and what says that there were more."""
        path, newest = self.transactions.store.path, self.transactions.store.last.number
        rewrite(
            path,
            f"DELETE FROM entry WHERE number > {newest - count}",
            f"DELETE FROM body WHERE number > {newest - count}",
        )
        self.transactions.store.beside("newest").unlink()

    def verified(self, copy: object, run: str = "second") -> int:
        """The exit code of `b200 audit verify` after a run that read this copy."""
        report = self.reports / run
        report.mkdir(parents=True, exist_ok=True)
        host = {"state": {"notes": {"reprovision": copy}}}
        (report / "n1.json").write_text(json.dumps(host))
        (report / "summary.json").write_text(json.dumps({"hosts": {"n1": {"file": "n1.json"}}}))
        there = ["--store", str(self.transactions.store.path), "--reports", str(self.reports)]
        return cli.main(["audit", "verify", *there])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The node, taken out and left there."""
    return Site(tmp_path)


def test_copy_that_the_node_took_is_intact_as_long_as_nothing_is_changed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.verified(site.newest) == 0
    assert_message(capsys.readouterr().out.splitlines()[1], REPORTS=site.reports)
    assert site.verified(site.copy) == 0


@in_subtests("count", [1, 2, 5])
def test_older_copy_of_the_store_is_known_to_the_node(
    count: int, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path_factory.mktemp("site"))
    site.cut(count)
    assert site.verified(None if count > 5 else site.newest) == 1
    assert "n1: its own copy: it names action" in capsys.readouterr().err


def without(key: str) -> Callable[[Copy], object]:
    """The copy without one of its fields."""
    return lambda copy: {name: value for name, value in copy.items() if name != key}


TAMPERED: dict[str, Callable[[Copy], object]] = {
    "removed": lambda copy: None,
    "not read": lambda copy: {"unmeasured": "JSONDecodeError"},
    "another document": lambda copy: [1],
    "an attempt taken away": changed(attempts=[]),
    "an attempt added": changed(attempts=[{"level": "reboot", "at": 1.0}] * 2),
    "another state": changed(state="canary"),
    "an action that nobody knows": changed(audit="0" * 64),
    "no action": without("transaction"),
}


@in_subtests("name", TAMPERED)
def test_copy_that_was_changed_on_the_node_is_named(
    name: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path_factory.mktemp("site"), "reset-gpus")
    assert site.verified(TAMPERED[name](site.newest)) == 1
    assert capsys.readouterr().err.startswith("b200 audit: n1: its own copy: ")


def test_older_copy_that_was_put_back_is_named(site: Site) -> None:
    older = changed(audit=site.transactions.lines("n1")[0].digest)(site.copy)
    fault = copy_comparison.fault(site.transactions.lines("n1"), older, "second")
    assert "an older one was put back" in fault
    # A run that wrote lines itself may have read the copy before them.
    assert "was changed" in copy_comparison.fault(site.transactions.lines("n1"), older, "first")


def test_node_that_was_re_imaged_has_no_copy_and_the_chain_says_why(tmp_path: Path) -> None:
    site = Site(tmp_path, "reimage")
    assert site.verified(None) == 0
    assert site.verified(site.newest) == 0


def test_no_run_has_read_a_copy_yet(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    there = ["--store", str(site.transactions.store.path), "--reports", str(site.reports)]
    assert cli.main(["audit", "verify", *there]) == 0
    assert_message(capsys.readouterr().out.splitlines()[1])
