"""Which nodes count as serving, and who may go when, by what a run saw and the ledger says."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.inventory.keys.reprovision import Reprovision
from b200kit.inventory.keys.rollout import Rollout
from b200kit.node.lib import timestamp
from b200kit.reprovision import fleet_limits
from b200kit.reprovision.fleet_limits import Deferred, Safety
from b200kit.reprovision.ledger import Ledger, NodeHeld, Transactions
from b200kit.run.node import Node
from b200kit.run.session import Session
from b200kit.store.database import Store
from tests.subtests import in_subtests

NAMES = ("n1", "n2", "n3", "n4")


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch) -> Session:
    """A run without nodes."""
    here = Session("reprovision.py")
    monkeypatch.setattr(fleet_limits, "RUN", here)
    monkeypatch.setattr(fleet_limits, "_YIELD_S", 0.0)
    return here


def in_folder(folder: Path) -> Transactions:
    """What another controller knows of a folder."""
    return Transactions(Store(folder / "b200.db"))


def safety(folder: Path, *down: str) -> Safety:
    """Four nodes, of which some were seen not to serve."""
    found = Safety(in_folder(folder), NAMES)
    for name in down:
        found.mark_observed(node(name), serves=False)
    return found


def node(name: str, **limits: Any) -> Any:
    """A node with the default floor: all but one."""
    spec = SimpleNamespace(reprovision=Reprovision(), rollout=Rollout(**limits))
    return SimpleNamespace(name=name, spec=spec)


def out(folder: Path, name: str) -> None:
    """A node that another run took out, and left to a person."""
    owner = Ledger(in_folder(folder), name, "alice@one pid 1", "hers")
    owner.claim()
    owner.begin([], f"{name}: broken", "")
    owner.release()


def may_go(limits: Safety, name: str, serves: bool) -> bool:
    """Whether it is taken out."""
    try:
        limits.enter(node(name), serves)
        limits.take_out(node(name), serves, lambda: None)
    except Deferred:
        return False
    finally:
        limits.leave(name, serves)
    return True


@in_subtests(
    ("waiting", "down", "serves", "allowed"),
    [
        ((), (), True, True),
        ((), ("n2",), True, False),
        (("n2",), (), True, False),
        # What does not serve may always be repaired, however many others do not.
        ((), ("n1",), False, True),
        (("n2",), ("n1",), False, True),
        (("n2", "n3"), ("n1", "n4"), False, True),
        # Its own fault is not counted against it.
        ((), ("n1",), True, True),
        # A node of another inventory that shares the directory.
        (("other",), (), True, True),
    ],
)
def test_floor_counts_nodes_that_serve(
    waiting: tuple[str, ...],
    down: tuple[str, ...],
    serves: bool,
    allowed: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("transactions")
    for name in waiting:
        out(folder, name)
    assert may_go(safety(folder, *down), "n1", serves) is allowed


def test_node_that_left_the_run_before_it_was_seen_does_not_count_as_serving(
    tmp_path: Path, run: Session
) -> None:
    run.nodes["n2"] = Node("n2", None, {})  # type: ignore[arg-type]
    assert may_go(safety(tmp_path), "n1", serves=True)
    run.nodes["n2"].record.outcome = "unreachable"
    assert not may_go(safety(tmp_path), "n1", serves=True)


def test_node_that_came_back_counts_again(tmp_path: Path) -> None:
    limits = safety(tmp_path, "n2")
    limits.enter(node("n2"), serves=False)
    limits.leave("n2", serves=True)
    assert may_go(limits, "n1", serves=True)


def test_node_that_serves_waits_for_one_that_may_come_back(tmp_path: Path) -> None:
    limits = safety(tmp_path, "n2")
    limits.enter(node("n2", max_out=2, floor=3), serves=False)
    out(tmp_path, "n3")
    out(tmp_path, "other")
    serving = node("n1", max_out=2, floor=2)
    thread = threading.Thread(target=limits.enter, args=(serving, True))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    limits.leave("n2", serves=True)
    thread.join()
    assert limits.inside == {"n1"}
    limits.leave("n1", serves=True)


def test_room_that_another_controller_took_meanwhile_is_seen_when_it_counts(
    tmp_path: Path,
) -> None:
    limits = safety(tmp_path)
    limits.enter(node("n1"), serves=True)
    out(tmp_path, "n2")
    began: list[str] = []
    with pytest.raises(Deferred, match="n2"):
        limits.take_out(node("n1"), True, lambda: began.append("n1"))
    assert began == []


def test_dead_controller_frees_the_fleet_at_once(tmp_path: Path) -> None:
    pipe = os.pipe()
    child = os.fork()
    if child == 0:
        with in_folder(tmp_path).store.writing():
            os.write(pipe[1], b"!")
            signal.pause()
    os.read(pipe[0], 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert may_go(safety(tmp_path), "n1", serves=True)


@pytest.mark.parametrize("step_s", [-3600 * 24 * 365, -3600, 3600, 3600 * 24 * 365])
def test_step_of_the_clock_frees_no_node_and_holds_none(
    step_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = Ledger(in_folder(tmp_path), "n1", "alice@one pid 1", "a")
    alice.claim()
    alice.begin([], "cause", "")
    now, clock = timestamp.now, time.time
    monkeypatch.setattr(timestamp, "now", lambda later_s=0.0: now(later_s + step_s))
    monkeypatch.setattr(time, "time", lambda: clock() + step_s)
    bob = Ledger(in_folder(tmp_path), "n1", "bob@two pid 2", "b")
    with pytest.raises(NodeHeld):
        bob.claim()
    assert safety(tmp_path).fleet(node("n2")).out == {"n1"}
    alice.release()
    assert bob.claim().is_open
