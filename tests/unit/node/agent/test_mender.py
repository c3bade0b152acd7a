"""A service is restarted once its replicas are out and idle, as often as the breaker lets it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.agent import mender as mending
from b200kit.node.agent.mender import Mender
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state import event, watchdog
from b200kit.node.state.mend import MendRules
from b200kit.node.state.watch import HealthCheck, NodeFault
from tests.subtests import in_subtests
from tests.unit.node.agent.test_replica import Node, watched
from tests.unit.node.state.test_mend import MANAGER, ON, fault


@dataclass
class Looked(Node):
    """A node in memory whose last look left faults."""

    left: list[NodeFault] = field(default_factory=lambda: [fault(replicas=(0,))])
    looked: float = 100.0
    takes: float = 0.0

    async def renew_manager(self, units: Sequence[str], act: str) -> str | None:
        self.acts.append(f"renew {' '.join(units)}")
        assert act == f"mend-{self.looked:.0f}"
        self.looked += self.takes
        return self.warm

    @property
    def kinds(self) -> list[str]:
        """What the site is told."""
        assert {(e.subject, e.replicas) for e in self.sent} <= {(MANAGER, (0,))}
        assert {e.kind for e in self.sent} <= {*event.KINDS}
        return [e.kind for e in self.sent]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "_EVERY_S", 0.0)


def mender(node: Looked, folder: Path, rules: MendRules = ON) -> Mender:
    """One whose only replica is out of the gateway."""
    one = watched(node, folder)
    known = replace(watchdog.hold(one.standing, "died"), out_of_rotation=True)
    one.memory.keep(0, known)
    one.memory.clock = lambda: Moment("b", node.looked)
    instead: Any = node
    made = Mender([one], instead, ("fabric",), rules, one.memory, clock=one.memory.clock)
    ticked = made.tick

    async def looked() -> None:
        one.memory.look = HealthCheck("then", node.looked, True, tuple(node.left))
        await ticked()

    made.tick = looked  # type: ignore[method-assign]
    return made


def tries(folder: Path) -> list[float]:
    """When something was restarted, as it is on the disk."""
    found: list[float] = json.loads((folder / "agent.json").read_text())["mends"]["times"]
    return found


def test_the_service_is_restarted_once_and_then_given_time(tmp_path: Path) -> None:
    node = Looked()
    one = mender(node, tmp_path)
    asyncio.run(one.tick())
    asyncio.run(one.tick())
    assert node.acts == ["renew vllm@0.service"]
    assert tries(tmp_path) == [100.0]
    assert node.kinds == ["mend.begun", "mend.done"]


@in_subtests("why", ["busy", "in the gateway", "not held", "rolling", "not allowed", "drained"])
def test_it_is_left_alone(why: str, tmp_path: Path) -> None:
    node = Looked(idle=why != "busy", rolling=why == "rolling", drained=why == "drained")
    one = mender(node, tmp_path, MendRules() if why == "not allowed" else ON)
    watched_one = one.replicas[0]
    if why == "in the gateway":
        one.memory.keep(0, replace(watched_one.standing, out_of_rotation=False))
    if why == "not held":
        one.memory.keep(0, replace(watched_one.standing, held=""))
    asyncio.run(one.tick())
    assert (node.acts, node.sent) == ([], [])


def test_a_breaker_that_is_open_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Looked()
    one = mender(node, tmp_path, replace(ON, mend_window_s=3600.0))
    for _ in range(5):
        asyncio.run(one.tick())
        node.looked += 61.0
    assert node.acts == ["renew vllm@0.service"] * 2
    assert capsys.readouterr().err.count("left to a person") == 1
    assert node.kinds.count("mend.refused") == 1


def test_a_restart_that_fails_is_an_event(tmp_path: Path) -> None:
    node = Looked(warm="it did not start")
    asyncio.run(mender(node, tmp_path).tick())
    assert node.kinds == ["mend.begun", "mend.failed"]


def test_what_cannot_be_remembered_is_not_done(tmp_path: Path) -> None:
    node = Looked()
    one = mender(node, tmp_path)
    (tmp_path / "file").write_text("")
    one.memory.path = tmp_path / "file" / "agent.json"
    asyncio.run(one.tick())
    assert node.acts == []
    assert node.kinds == ["mend.refused"]


def test_fabric_manager_waits_for_every_replica(tmp_path: Path) -> None:
    node = Looked()
    one = mender(node, tmp_path)
    other = watched(node, tmp_path)
    other.replica = replace(other.replica, index=1)
    one.replicas = [*one.replicas, other]
    asyncio.run(one.tick())
    assert node.acts == []


def test_a_restart_counts_from_its_end(tmp_path: Path) -> None:
    node = Looked(takes=300.0)
    asyncio.run(mender(node, tmp_path).tick())
    assert tries(tmp_path) == [400.0]
