"""A damaged file in the directory of transactions: it costs its own node only, by name."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit import cli
from b200kit.inventory.keys.reprovision import Reprovision
from b200kit.inventory.keys.rollout import Rollout
from b200kit.reprovision import ledger
from b200kit.reprovision.circuit_breaker import Fleet, floor_reason
from b200kit.reprovision.fleet_limits import Safety
from b200kit.reprovision.ledger import Damaged, Ledger
from b200kit.reprovision.ledger_line import AuditLine, DoneLine, IntentLine, action_of
from b200kit.reprovision.states import State
from b200kit.run import chain, jsonl
from b200kit.run.node import StageFailed
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests

Capture = pytest.CaptureFixture[str]


def begun(folder: Path, node: str) -> Ledger:
    """A node that a transaction took out of service."""
    lines = Ledger(folder, node, "alice@one pid 1", "a")
    lines.claim()
    lines.begin([], "driver.loaded", "")
    lines.append(IntentLine(step="quarantine", id="1"))
    lines.append(DoneLine(result="done", why="no driver"))
    return lines


def signed(content: bytes, **entry: Any) -> bytes:
    """The content with one more line, which follows the last one as it should."""
    lines = chain.parse(dict, content)
    alike = next(line for line in lines.entries if line["kind"] == entry["kind"])
    return content + chain.line({**alike, **entry}, lines.last)[0].encode()


def without(content: bytes, number: int) -> bytes:
    """The content without one of its lines."""
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:number] + lines[number + 1 :])


def written_over(content: bytes, number: int, by: bytes) -> bytes:
    """The content with one of its lines, but for its end, replaced."""
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[:number], by + b"\n", *lines[number + 1 :]])


GONE = "gone"
# The ways in which a file of four lines is damaged.
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a line without its fields": lambda raw: raw + b'{"kind": "open"}\n',
    "a step that nothing began": lambda raw: raw + b'{"kind": "done"}\n',
    "nested too deeply": lambda raw: raw + b"[" * 100_000 + b"\n",
    "the last line in bytes of zero": lambda raw: written_over(raw, 3, b"\0" * 40),
    **{f"line {n} taken away": partial(without, number=n) for n in range(3)},
    **{f"line {n} written over": partial(written_over, number=n, by=b"\xff{") for n in range(4)},
    "one word changed": lambda raw: raw.replace(b'"quarantine"', b'"drain"'),
    "signed, and of no step there is": lambda raw: signed(raw, kind="intent", step="pray", id="2"),
    "signed, and of other types": lambda raw: signed(raw, kind="open", tx=1, at=2, findings=3),
    "all in bytes of zero": lambda raw: b"\0" * len(raw),
    "cut off in its first line": lambda raw: raw[:40],
    "empty": lambda raw: b"",
    GONE: lambda raw: b"",
}


def seen(folder: Path) -> Fleet:
    """A fleet of three nodes as another controller sees it."""
    safety = Safety(folder=folder, inventory=("n1", "n2", "n3"))
    spec = SimpleNamespace(reprovision=Reprovision(), rollout=Rollout())
    return safety.fleet(SimpleNamespace(name="n3", spec=spec))  # type: ignore[arg-type]


@pytest.fixture(params=DAMAGE)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with two nodes out of service; the file of n2 is damaged."""
    begun(tmp_path, "n1")
    path = begun(tmp_path, "n2").path
    path.write_bytes(DAMAGE[request.param](path.read_bytes()))
    if request.param == GONE:
        path.unlink()
    return tmp_path


def test_damaged_file_stops_its_node_and_no_other(damaged: Path) -> None:
    with raises_message(Damaged):
        ledger.read(damaged, "n2")
    two = Ledger(damaged, "n2", "alice@one pid 1", "a")
    before = jsonl.read(two.path), jsonl.read(damaged / ledger.AUDIT)
    with pytest.raises(Damaged, match=r"n2\.jsonl"):
        two.claim()
    assert (jsonl.read(two.path), jsonl.read(damaged / ledger.AUDIT)) == before
    one = Ledger(damaged, "n1", "alice@one pid 1", "a")
    one.claim()
    assert one.append(IntentLine(step="drain", id="2")).pending is not None


def test_node_with_a_damaged_file_counts_as_out_of_service(damaged: Path) -> None:
    fleet = seen(damaged)
    assert fleet.out == {"n1", "n2"}
    message = floor_reason(fleet, "n3", serves=True)
    # The last line says where the node stands; damage before it does not change that.
    assert ("(damaged, see b200 transaction list: n2)" in message) is (fleet.unread == {"n2"})
    assert fleet.unread or ledger.out(damaged, "n2") == "driver.loaded"


def test_commands_name_the_damaged_file_and_show_the_rest(damaged: Path, capsys: Capture) -> None:
    there = ["--transactions", str(damaged)]
    assert cli.main(["audit", "verify", *there]) == 1
    errors = capsys.readouterr().err.splitlines()
    # What became of its lines may show in the log, too.
    assert [line for line in errors if not line.startswith("b200 audit: n2: ")] == []
    is_there = jsonl.path_of(damaged, "n2").exists()
    assert sum(f"{damaged}/n2.jsonl: " in line for line in errors) == int(is_there)
    assert cli.main(["transaction", "list", *there]) == 1
    listed = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in listed] == ["n1", "n2", "1"]
    assert f"n2  DAMAGED: {damaged}/n2.jsonl: " in listed[1]
    assert cli.main(["transaction", "show", "n2", *there]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert cli.main(["transaction", "show", "n1", *there]) == 0


def test_damaged_file_is_set_aside_where_a_person_starts_again(damaged: Path) -> None:
    two = Ledger(damaged, "n2", "bob@two pid 2", "b")
    left = [two.path.read_bytes()] if two.path.exists() else []

    def anew() -> None:
        assert "n2" in seen(damaged).out
        two.begin([], "", "a new board")
        assert "n2" in seen(damaged).out

    tx = two.claim(anew)
    assert (tx.is_open, tx.why, tx.state) == (True, "a new board", State.SERVING)
    assert tx.owner is not None
    assert tx.owner.who == "bob@two pid 2"
    assert two.read() == tx
    assert [path.read_bytes() for path in damaged.glob("n2.damaged-*")] == left


def test_sound_file_is_never_set_aside(tmp_path: Path) -> None:
    before = begun(tmp_path, "n1")
    before.release()
    tx = Ledger(tmp_path, "n1", "bob@two pid 2", "b").claim(pytest.fail)
    assert tx.state is State.QUARANTINED


@pytest.mark.parametrize("content", [b"", None])
def test_controller_that_was_killed_in_its_first_claim_leaves_no_damage(
    content: bytes | None, tmp_path: Path
) -> None:
    first = Ledger(tmp_path, "n1", "alice@one pid 1", "a")
    logged_as = first.claim().digests
    first._free()
    first.path.unlink() if content is None else first.path.write_bytes(content)
    assert ledger.out(tmp_path, "n1") is None
    assert ledger.known(tmp_path) == ([] if content is None else ["n1"])
    tx = Ledger(tmp_path, "n1", "bob@two pid 2", "b").claim()
    assert tx.digests[0] == logged_as[0]


@in_subtests(
    ("action", "out"),
    [
        ({"kind": "claim", "tx": "", "after": "serving"}, False),
        ({"kind": "open", "tx": "t", "after": "serving"}, True),
        ({"kind": "claim", "tx": "t", "after": "drained"}, True),
        ({"kind": "failed", "tx": "t", "after": "serving"}, True),
        ({"kind": "done", "tx": "t", "after": "drained"}, True),
        ({"kind": "done", "tx": "t", "after": "serving"}, False),
        ({"kind": "release", "tx": "", "after": "serving"}, False),
    ],
)
def test_log_tells_whether_an_action_leaves_a_node_out(action: dict[str, str], out: bool) -> None:
    rest = dict.fromkeys(("at", "node", "who", "run", "digest", "previous"), "")
    action = {"schema": AuditLine.schema, **rest, "before": "serving", **action}
    assert action_of(action).leaves_out is out


def test_file_that_cannot_be_read_is_damaged_and_no_traceback(
    tmp_path: Path, capsys: Capture
) -> None:
    begun(tmp_path, "n1")
    (tmp_path / "n2.jsonl").mkdir()
    with raises_message(Damaged):
        ledger.read(tmp_path, "n2")
    assert cli.main(["audit", "verify", "--transactions", str(tmp_path)]) == 1
    assert cli.main(["transaction", "list", "--transactions", str(tmp_path / "n1.jsonl")]) == 64
    assert_message(capsys.readouterr().err)


@in_subtests("at", range(1, 60, 7))
def test_line_that_a_kill_cut_short_is_no_damage_wherever_it_was_cut(at: int) -> None:
    whole = chain.line({"a": 1}, "")[0].encode()
    torn = whole + chain.line({"b": 2}, chain.parse(dict, whole).last)[0].encode()[:at]
    assert chain.parse(dict, torn).damage == ()
    more = torn + b"\n" + chain.line({"c": 3}, chain.parse(dict, torn).last)[0].encode()
    assert (len(chain.parse(dict, more).entries), chain.parse(dict, more).damage) == (2, ())
    assert len(chain.parse(dict, more).torn) == 1


@in_subtests("line", [b"\0" * 64, b"{}", b'{"digest": "x"}', b"[3]", b"\xff"])
def test_damaged_line_of_the_log_stops_nobody_and_is_told(
    line: bytes, tmp_path_factory: pytest.TempPathFactory, capsys: Capture
) -> None:
    folder = tmp_path_factory.mktemp("transactions")
    begun(folder, "n1")
    log = folder / ledger.AUDIT
    log.write_bytes(written_over(log.read_bytes(), 1, line))
    assert begun(folder, "n2").read().is_open
    assert ledger.read(folder, "n1").is_open
    assert cli.main(["audit", "verify", "--transactions", str(folder)]) == 1
    assert "line 2 is no entry" in capsys.readouterr().err


def test_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ledger.AUDIT).mkdir()
    with raises_message(StageFailed):
        begun(tmp_path, "n1")


def test_claim_is_on_the_disk_before_the_log_has_a_line_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut between log and file leaves one action in the log; the mark says to look."""
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}").rpartition("/")[2])
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    Ledger(tmp_path, "n1", "alice@one pid 1", "a").claim()
    assert synced[:3] == [".n1.jsonl.lock", tmp_path.name, ledger.AUDIT]


def test_claim_that_finds_no_space_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, content: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    lines = Ledger(tmp_path, "n1", "alice@one pid 1", "a")
    with pytest.raises(StageFailed, match=f"^{tmp_path}: No space left on device$"):
        lines.claim()
    assert not ledger.is_held(tmp_path, "n1")
