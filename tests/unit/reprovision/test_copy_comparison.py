"""The node's own copy and the controller's files: whatever is cut off one, another one knows of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.inventory.keys.levels import Level
from b200kit.node.lib.documents import unstructure
from b200kit.reprovision import copy_comparison, ledger
from b200kit.reprovision.copy_comparison import CopiedTransaction, NodeCopy
from b200kit.reprovision.escalation import Decision
from b200kit.reprovision.ledger import Ledger
from b200kit.reprovision.ledger_line import DoneLine, IntentLine
from b200kit.reprovision.transaction import Transaction
from b200kit.run import process
from tests.messages import assert_message
from tests.subtests import in_subtests

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
        self.folder, self.reports = folder / "transactions", folder / "reports"
        owner = Ledger(self.folder, "n1", "alice@one pid 1", "first")
        owner.claim()
        owner.begin([], "driver.loaded", "")
        for step, level in (
            *(("quarantine", ""), ("drain", ""), ("evidence", "")),
            *(("action", level) for level in levels),
        ):
            decision = Decision(Level.parse(level), "") if level else None
            out = owner.append(IntentLine(step=step, id=step, decision=decision))
            copied = out.digests[-1] if step == "quarantine" else None
            owner.append(DoneLine(result="done", why="no driver", copied=copied))
            if copied:
                self.copy = copy_of(out)
        self.newest = copy_of(owner.release())

    def path(self, name: str) -> Path:
        """A file of the controller."""
        return self.folder / f"{name}.jsonl"

    def cut(self, name: str, count: int) -> None:
        """Take lines off the end of a file."""
        lines = self.path(name).read_bytes().splitlines(keepends=True)
        self.path(name).write_bytes(b"".join(lines[:-count]))

    def verified(self, copy: object, run: str = "second") -> int:
        """The exit code of `b200 audit verify` after a run that read this copy."""
        report = self.reports / run
        report.mkdir(parents=True, exist_ok=True)
        host = {"state": {"notes": {"reprovision": copy}}}
        (report / "n1.json").write_text(json.dumps(host))
        (report / "summary.json").write_text(json.dumps({"hosts": {"n1": {"file": "n1.json"}}}))
        there = ["--transactions", str(self.folder), "--reports", str(self.reports)]
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
def test_end_cut_off_both_files_of_the_controller_is_known_to_the_node(
    count: int, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path_factory.mktemp("site"))
    site.cut("n1", count)
    site.cut("audit", count)
    assert site.verified(None if count > 5 else site.newest) == 1
    assert "n1: its own copy: it names action" in capsys.readouterr().err


@in_subtests("name", ["n1", "audit"])
def test_end_cut_off_one_file_is_known_to_the_other(
    name: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path_factory.mktemp("site"))
    site.cut(name, 1)
    assert site.verified(site.copy) == 1
    assert capsys.readouterr().err.startswith("b200 audit: n1: 1 of the ")


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
    older = changed(audit=ledger.digests(site.folder, "n1")[0])(site.copy)
    fault = copy_comparison.fault(ledger.lines(site.folder, "n1").entries, older, "second")
    assert "an older one was put back" in fault
    # A run that wrote lines itself may have read the copy before them.
    assert "was changed" in copy_comparison.fault(
        ledger.lines(site.folder, "n1").entries, older, "first"
    )


def test_node_that_was_re_imaged_has_no_copy_and_the_chain_says_why(tmp_path: Path) -> None:
    site = Site(tmp_path, "reimage")
    assert site.verified(None) == 0
    assert site.verified(site.newest) == 0


def test_no_run_has_read_a_copy_yet(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    there = ["--transactions", str(site.folder), "--reports", str(site.reports)]
    assert cli.main(["audit", "verify", *there]) == 0
    assert_message(capsys.readouterr().out.splitlines()[1])
