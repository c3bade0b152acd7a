"""A node is out, and its store is not what it was: no second one may go, and one line says why."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from b200kit import cli
from b200kit.inventory.keys.reprovision import Reprovision
from b200kit.inventory.keys.rollout import Rollout
from b200kit.node.lib import documents
from b200kit.reprovision import ledger
from b200kit.reprovision.circuit_breaker import FleetState, floor_reason
from b200kit.reprovision.fleet_limits import Deferred, Safety
from b200kit.reprovision.ledger import LOG, Ledger, Transactions
from b200kit.reprovision.ledger_line import DoneLine, FailedLine, IntentLine, LedgerLine, line_of
from b200kit.reprovision.states import RepairState
from b200kit.run.node import StageFailed
from b200kit.store.database import Damaged, Store, StoreError
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit.reprovision.test_fleet_limits import NAMES, in_folder, node
from tests.unit.store.test_database import LOST, rewrite

Capture = pytest.CaptureFixture[str]


def taken_out(folder: Path, name: str = "n1", ends: str = "released") -> Ledger:
    """A node, which its owner has drained: at work, dead, or done for now; or of two owners."""
    for run in ("first", "second")[: 2 if ends == "two owners" else 1]:
        owner = Ledger(in_folder(folder), name, "alice@one pid 1", run)
        if not owner.claim().is_open:
            owner.begin([], "nvlink.links", "")
        for step in ("quarantine", "drain") if run == "first" else ("evidence",):
            owner.append(IntentLine(step=step, id=step))
            owner.append(DoneLine(id=step, result="done", why="no driver"))
        if ends != "at work":
            owner.release() if ends == "released" else owner._free()
    return owner


def standing(folder: Path) -> str:
    """Where n1 is by its lines, or that they are damaged."""
    try:
        return "out" if in_folder(folder).read("n1").is_open else "serves"
    except StoreError as error:
        return "damaged" if str(error).startswith(f"{folder}/b200.db: ") else str(error)


@pytest.mark.parametrize("ends", ["at work", "dead", "released", "two owners"])
@in_subtests("name", LOST)
def test_second_node_stays_whatever_became_of_the_store(
    name: str, ends: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("site")
    first = taken_out(folder, ends=ends)
    # So many lines of another site that each damage has what it is made of.
    filler = first.transactions.store
    with filler.writing():
        for number in range(filler.last.number, 60):
            filler.append("log", f"n{number % 3}", f'"{"x" * 300}"')
    LOST[name](folder / "b200.db")
    for _ in range(2):
        with pytest.raises(StageFailed):
            Safety(in_folder(folder), NAMES).take_out(node("n2"), True, pytest.fail)
        assert standing(folder) in ("out", "damaged")
    first._free()


def test_store_of_a_day_before_frees_nobody(tmp_path: Path) -> None:
    """A copy from a backup: whole, and no node out."""
    owner = Ledger(in_folder(tmp_path), "n1", "alice@one pid 1", "first")
    owner.claim()
    owner.release()
    path = owner.transactions.store.path
    copy = path.read_bytes()
    taken_out(tmp_path)
    path.write_bytes(copy)
    with pytest.raises(Damaged, match="an older file was put back"):
        in_folder(tmp_path).read("n1")
    with pytest.raises(StageFailed, match=r"b200\.db"):
        Safety(in_folder(tmp_path), NAMES).take_out(node("n2"), True, pytest.fail)
    fleet = Safety(in_folder(tmp_path), NAMES).fleet(node("n2"))
    assert (fleet.out, fleet.unread) == (set(NAMES), set(NAMES))


def rewritten(folder: Path, text: Callable[[dict[str, object]], object]) -> None:
    """One more line about n2, chained as it should be, that is the last one changed by *text*."""
    store = in_folder(folder).store
    newest = store.newest(LOG, "n2")
    assert newest
    store.append(LOG, "n2", json.dumps(text(documents.parse(newest.text))))


# Lines about n2 that make no transaction, or that rotted.
DAMAGE: dict[str, Callable[[Path], object]] = {
    "no JSON": lambda folder: in_folder(folder).store.append(LOG, "n2", "{half"),
    "another kind": lambda folder: rewritten(folder, lambda line: {**line, "kind": "pray"}),
    "no field": lambda folder: rewritten(folder, lambda line: {"kind": "open"}),
    "other types": lambda folder: rewritten(folder, lambda line: {**line, "at": 2}),
    "a step that nothing began": lambda folder: rewritten(
        folder, lambda line: {**line, "kind": "done"}
    ),
    "nested too deeply": lambda folder: in_folder(folder).store.append(LOG, "n2", "[" * 100_000),
    "a text changed": lambda folder: rewrite(
        folder / "b200.db",
        "UPDATE body SET text = replace(text, '\"drain\"', '\"prove\"')",
        "UPDATE body SET text = '{}' WHERE number = (SELECT max(number) FROM body)",
    ),
}


@pytest.fixture(params=DAMAGE)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A site with two nodes out of service; what its store has of n2 is damaged."""
    taken_out(tmp_path, "n2")
    DAMAGE[request.param](tmp_path)
    taken_out(tmp_path, "n1")
    return tmp_path


def test_damaged_lines_stop_their_node_and_no_other(damaged: Path, capsys: Capture) -> None:
    with raises_message(Damaged, SITE=damaged):
        in_folder(damaged).read("n2")
    two = Ledger(in_folder(damaged), "n2", "alice@one pid 1", "a")
    before = two.transactions.store.last
    with pytest.raises(Damaged):
        two.claim()
    one = Ledger(in_folder(damaged), "n1", "alice@one pid 1", "a")
    assert one.transactions.store.last == before
    one.claim()
    assert one.append(IntentLine(step="evidence", id="2")).pending is not None
    one.release()
    fleet = seen(in_folder(damaged))
    assert fleet.out == {"n1", "n2"}
    message = floor_reason(fleet, "n3", serves=True)
    # The last line says where the node stands; damage before it does not change that.
    assert ("(damaged, see b200 transaction list: n2)" in message) is (fleet.unread == {"n2"})

    there = ["--store", str(damaged / "b200.db")]
    assert cli.main(["audit", "verify", *there, "--reports", str(damaged / "none")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert 0 < len(errors) < 4
    assert all(line.startswith(f"b200 audit: {damaged}/b200.db: ") for line in errors)
    assert cli.main(["transaction", "list", *there]) == 1
    listed = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in listed] == ["n1", "n2", "1"]
    assert f"n2  DAMAGED: {damaged}/b200.db: " in listed[1]
    assert cli.main(["transaction", "show", "n2", *there]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert cli.main(["transaction", "show", "n1", *there]) == 0


def seen(transactions: Transactions) -> FleetState:
    """A fleet of three nodes as another controller sees it."""
    spec = SimpleNamespace(reprovision=Reprovision(), rollout=Rollout())
    safety = Safety(transactions, ("n1", "n2", "n3"))
    return safety.fleet(SimpleNamespace(name="n3", spec=spec))  # type: ignore[arg-type]


def test_damaged_store_is_one_line_with_each_command(tmp_path: Path, capsys: Capture) -> None:
    taken_out(tmp_path)
    path = tmp_path / "b200.db"
    path.write_bytes(bytes(9000))
    for words in (["audit", "verify"], ["audit", "show"], ["transaction", "list"]):
        assert cli.main([*words, "--store", str(path)]) == 1, words
        assert capsys.readouterr().err.count("\n") == 1
    assert cli.main(["transaction", "show", "n1", "--store", str(path)]) == 1


def test_audit_shows_each_action_and_verifies_them(tmp_path: Path, capsys: Capture) -> None:
    there = ["--store", str(tmp_path / "b200.db")]
    assert cli.main(["audit", "show", *there]) == 2
    assert cli.main(["audit", "verify", *there]) == 2
    taken_out(tmp_path, "rack 1/n1")
    taken_out(tmp_path, "n2", "dead")
    assert cli.main(["audit", "verify", *there, "--reports", str(tmp_path / "none")]) == 0
    assert "13 actions on 2 nodes: intact" in capsys.readouterr().out
    assert cli.main(["audit", "show", "rack 1/n1", *there]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[3].split()[0] for line in shown] == [
        "claim", "open", "intent", "done", "intent", "done", "release",
    ]  # fmt: skip
    assert shown[3].endswith("done quarantine  serving -> quarantined: done")
    assert cli.main(["transaction", "list", *there]) == 0
    said = capsys.readouterr().out
    assert "rack 1/n1  drained" in said
    assert "whose process is gone" in said


def test_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "b200.db").mkdir()
    with raises_message(StageFailed, SITE=tmp_path):
        taken_out(tmp_path)


def test_claim_that_could_not_be_written_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Ledger(in_folder(tmp_path), "n1", "alice@one pid 1", "a")

    def full(store: Store, *words: str) -> None:
        raise StoreError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", full)
        with pytest.raises(StoreError):
            owner.claim()
    assert owner._claim is None
    assert Ledger(in_folder(tmp_path), "n1", "bob@two pid 2", "b").claim().owner


def test_look_at_a_fleet_reads_each_node_s_newest_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = in_folder(tmp_path)
    owners = [Ledger(transactions, f"n{number}", "ops", "r") for number in range(12)]
    with transactions.store.writing():
        for owner in owners:
            owner.claim()
            owner.begin([], "c", "")
            for number in range(10):
                owner.append(IntentLine(step="quarantine", id=str(number)))
                owner.append(FailedLine(back=False))
    read: list[object] = []

    def counted(value: dict[str, object]) -> LedgerLine:
        read.append(value)
        return line_of(value)

    monkeypatch.setattr(ledger, "line_of", counted)
    safety = Safety(in_folder(tmp_path), tuple(owner.node for owner in owners))
    looks = [safety.fleet(node("n1")) for _ in range(3)]
    assert [len(look.out) for look in looks] == [12] * 3
    assert len(read) == 12
    owners[0].append(IntentLine(step="quarantine", id="x"))
    read.clear()
    safety.fleet(node("n1"))
    assert len(read) == 1


def test_sound_transaction_goes_on_with_the_next_owner(tmp_path: Path) -> None:
    taken_out(tmp_path, ends="dead")
    tx = Ledger(in_folder(tmp_path), "n1", "bob@two pid 2", "b").claim()
    assert (tx.state, tx.owner and tx.owner.previous_owner) == (
        RepairState.DRAINED,
        "alice@one pid 1",
    )
    with pytest.raises(Deferred, match="n1"):
        Safety(in_folder(tmp_path), NAMES).take_out(node("n2"), True, pytest.fail)


def test_lines_of_the_store_and_of_its_nodes_are_one(tmp_path: Path) -> None:
    taken_out(tmp_path)
    connection = sqlite3.connect(tmp_path / "b200.db")
    [(count,)] = connection.execute("SELECT count(*) FROM entry")
    assert in_folder(tmp_path).count("n1") == count
    assert_message(*[each.split("  ")[3] for each in map(str, in_folder(tmp_path).actions())])
