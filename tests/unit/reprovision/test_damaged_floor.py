"""A node is out, three of four must serve: whatever became of its file, no second one may go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.node.lib.durable_files import replace
from b200kit.reprovision import ledger, logged
from b200kit.reprovision.fleet_limits import Deferred, Safety
from b200kit.reprovision.ledger import Damaged, Ledger
from b200kit.reprovision.ledger_line import DoneLine, IntentLine
from b200kit.run.node import StageFailed
from tests.subtests import in_subtests
from tests.unit.reprovision.test_fleet_limits import NAMES, node

Damage = Callable[[bytes], bytes | None]


def cut(lines: int) -> Damage:
    """The file without so many lines of its end."""
    return lambda raw: b"".join(raw.splitlines(keepends=True)[:-lines])


DAMAGE: dict[str, Damage] = {
    "whole": lambda raw: raw,
    "zeros": lambda raw: bytes(len(raw)),
    "zeros to the block": lambda raw: bytes(4096),
    "empty": lambda raw: b"",
    "garbage": lambda raw: b"\x91x{" * 100,
    "gone": lambda raw: None,
    **{f"cut at {at}": lambda raw, at=at: raw[:at] for at in range(40, 2000, 280)},  # type: ignore[misc]
    **{f"{count} lines cut off": cut(count) for count in range(1, 9)},
}


def taken_out(folder: Path, ends: str) -> Ledger:
    """n1, which its owner has drained: at work, dead, or done for now; or of two owners."""
    for run in ("first", "second")[: 2 if ends == "two owners" else 1]:
        owner = Ledger(folder, "n1", "alice@one pid 1", run)
        if not owner.claim().is_open:
            owner.begin([], "nvlink.links", "")
        for step in ("quarantine", "drain") if run == "first" else ("evidence",):
            owner.append(IntentLine(step=step, id=step))
            owner.append(DoneLine(id=step, result="done"))
        if ends != "at work":
            owner.release() if ends == "released" else owner._free()
    return owner


def standing(folder: Path) -> str:
    """Where n1 is by its file, or which file is damaged and what to do."""
    try:
        return "out" if ledger.read(folder, "n1").is_open else "serves"
    except Damaged as damaged:
        file, advice = str(damaged).partition(": ")[::2]
        return f"{file}: {'--data reason=' * ('--data reason=' in advice)}"


@pytest.mark.parametrize("ends", ["at work", "dead", "released", "two owners"])
@in_subtests("damage", DAMAGE)
def test_second_node_stays_and_the_first_is_named(
    damage: str, ends: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("transactions")
    first = taken_out(folder, ends)
    left = DAMAGE[damage](first.path.read_bytes())
    first.path.unlink() if left is None else first.path.write_bytes(left)
    for look in range(2):
        limits = Safety(folder=folder, inventory=NAMES)
        with pytest.raises(Deferred, match="n1"):
            limits.take_out(node("n2"), True, pytest.fail)
        logged._POSITIONS.clear()
        said = standing(folder)
        assert said in ("out", f"{folder}/n1.jsonl: --data reason="), look
    first._free()


def test_file_of_a_day_before_is_damaged_and_frees_nobody(tmp_path: Path) -> None:
    """A copy of it from a backup: an earlier transaction, whole, and closed."""
    owner = Ledger(tmp_path, "n1", "alice@one pid 1", "first")
    owner.claim()
    owner.release()
    copy = owner.path.read_bytes()
    taken_out(tmp_path, "released")
    replace(owner.path, copy)
    with pytest.raises(Damaged, match="later actions"):
        ledger.read(tmp_path, "n1")
    with pytest.raises(Deferred, match="n1"):
        Safety(folder=tmp_path, inventory=NAMES).take_out(node("n2"), True, pytest.fail)


def test_owner_who_has_told_the_log_alone_holds_the_node_while_he_lives(tmp_path: Path) -> None:
    owner = Ledger(tmp_path, "n1", "alice@one pid 1", "first")
    owner.claim()
    before = owner.path.read_bytes()
    owner.begin([], "nvlink.links", "")
    owner.path.write_bytes(before)
    assert ledger.out(tmp_path, "n1") == ""
    # He died before he had done anything to it: the next one takes the action up.
    owner._free()
    assert ledger.out(tmp_path, "n1") is None
    tx = Ledger(tmp_path, "n1", "bob@two pid 2", "second").claim()
    assert not tx.is_open
    assert len(ledger.lines(tmp_path, "n1").entries[-1].recovered) == 1


def test_file_that_could_not_be_written_is_taken_up_by_the_next_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = taken_out(tmp_path, "at work")
    append = ledger.append

    def full(path: Path, make: Callable[[Path], str]) -> None:
        if path == owner.path:
            raise StageFailed("no space")
        append(path, make)

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "append", full)
        with pytest.raises(StageFailed):
            owner.append(IntentLine(step="evidence", id="evidence"))
        owner.release()
    assert Ledger(tmp_path, "n1", "bob@two pid 2", "second").claim().is_open


@in_subtests("name", ["n" * 61, "gpu 1/rack 2", ".hidden", "n" * 60])
def test_node_of_any_name_is_the_same_by_its_file(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("transactions")
    owner = Ledger(folder, name, "alice@one pid 1", "first")
    owner.claim()
    owner.begin([], "nvlink.links", "")
    owner.release()
    assert ledger.read(folder, ledger.known(folder)[0]).is_open
    owner.path.write_bytes(cut(2)(owner.path.read_bytes()) or b"")
    with pytest.raises(Damaged, match="later actions"):
        ledger.out(folder, name)
