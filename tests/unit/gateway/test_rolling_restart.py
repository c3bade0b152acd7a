"""A rolling restart's decisions: over a gateway in memory and a stand-in engine that answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client import engine_metrics
from b200kit.node.client.serving_config import ServingConfig, load
from b200kit.node.serving.gateway import rolling_restart, rolling_steps
from b200kit.node.serving.gateway.haproxy import GatewayServer
from b200kit.node.serving.gateway.rolling_restart import interrupted_first, left_behind
from b200kit.node.serving.gateway.rolling_steps import GatewayControl, Halt, RollingRestart
from b200kit.node.state.serving import RollingRestartPlan, ServedReplica
from b200kit.run.places import PACKAGE
from tests.messages import assert_message, raises_message
from tests.unit import serving_document
from tests.unit.node.client import server_thread


@dataclass
class Memory(GatewayControl):
    """A gateway in memory that records its commands."""

    status: dict[str, str]
    sessions: dict[str, list[int]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def servers(self) -> list[GatewayServer]:
        """Sessions are those of a list, the last one for ever."""
        found = []
        for name, status in self.status.items():
            left = self.sessions.get(name, [0])
            found.append(GatewayServer(name, status, left.pop(0) if len(left) > 1 else left[0]))
        return found

    def drained(self, name: str) -> bool:
        """Whether it was set so."""
        return self.status[name] == "DRAIN"

    def set_state(self, name: str, state: str) -> None:
        """At once."""
        self.log.append(f"{name} {state}")
        self.status[name] = {"ready": "UP"}.get(state, state.upper())

    def show(self, key: str | None) -> None:
        """Kept nowhere."""

    def point(self, name: str, host: str, port: int) -> None:
        """Kept nowhere."""


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """A stand-in engine that stands for every replica."""
    with server_thread.running() as url:
        yield url


@pytest.fixture
def serving(engine: str, tmp_path: Path) -> ServingConfig:
    """Two replicas, of which one must stay."""
    rolling = {"min_available": 1, "restart_drain_s": 0.5}
    path = serving_document.written(tmp_path, engine, [(), ()], rolling_restart=rolling)
    return load(path)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long."""
    monkeypatch.setattr(rolling_steps, "EVERY_S", 0.01)


def restarter(
    serving: ServingConfig, gateway: Memory, fails: str = "", **changes: Any
) -> RollingRestart:
    """One whose units start at once; *fails* names one that does not."""

    def start(unit: str, within_s: float) -> str | None:
        del within_s
        gateway.log.append(f"restart {unit}")
        return "out of memory" if unit == fails else None

    return RollingRestart(serving, gateway, start, **changes)


def rolled(made: RollingRestart, asked: list[int], folder: Path) -> list[dict[str, object]]:
    """What a rolling restart did."""
    return asyncio.run(rolling_restart.restart(made, asked, folder / "note"))


BOTH_UP = {"vllm0": "UP", "vllm1": "UP"}


def test_replicas_go_one_after_another_each_back_before_the_next(
    serving: ServingConfig, tmp_path: Path
) -> None:
    gateway = Memory(dict(BOTH_UP))
    done = rolled(restarter(serving, gateway), [0, 1], tmp_path)
    assert gateway.log == [
        "vllm0 drain", "restart vllm@0.service", "vllm0 ready",
        "vllm1 drain", "restart vllm@1.service", "vllm1 ready",
    ]  # fmt: skip
    assert [entry["replica"] for entry in done] == [0, 1]
    assert left_behind(tmp_path / "note") is None


def test_restart_waits_until_the_last_request_has_ended(
    serving: ServingConfig, tmp_path: Path
) -> None:
    sessions = {"vllm0": [3, 2, 1, 0, 1, 0, 0, 0]}
    gateway = Memory(dict(BOTH_UP), sessions)
    rolled(restarter(serving, gateway), [0], tmp_path)
    assert gateway.log == ["vllm0 drain", "restart vllm@0.service", "vllm0 ready"]
    assert sessions == {"vllm0": [0]}


def test_request_that_does_not_end_is_not_cut_off(serving: ServingConfig, tmp_path: Path) -> None:
    gateway = Memory(dict(BOTH_UP), {"vllm0": [1]})
    with raises_message(Halt):
        rolled(restarter(serving, gateway), [0, 1], tmp_path)
    assert gateway.log == ["vllm0 drain", "vllm0 ready"]
    assert left_behind(tmp_path / "note") is None


def test_request_that_does_not_end_is_cut_off_when_asked(
    serving: ServingConfig, tmp_path: Path
) -> None:
    gateway = Memory(dict(BOTH_UP), {"vllm0": [1]})
    rolled(restarter(serving, gateway, cut=True), [0], tmp_path)
    assert gateway.log == ["vllm0 drain", "restart vllm@0.service", "vllm0 ready"]


def test_requests_that_only_the_engine_knows_of_are_waited_for(
    serving: ServingConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway's process before a reload has them, and the new one counts them not."""

    async def scrape(endpoint: object) -> dict[str, float]:
        del endpoint
        return {"vllm:num_requests_running": 2.0, "vllm:num_requests_waiting": 1.0}

    monkeypatch.setattr(engine_metrics, "scrape", scrape)
    gateway = Memory(dict(BOTH_UP))
    with pytest.raises(Halt, match="vllm0: 3 requests still open"):
        rolled(restarter(serving, gateway), [0], tmp_path)


@pytest.mark.parametrize("other", ["DOWN", "DOWN 1/2", "MAINT", "DRAIN"])
def test_floor_holds_when_the_other_replica_is_missing(
    serving: ServingConfig, tmp_path: Path, other: str
) -> None:
    gateway = Memory({"vllm0": "UP", "vllm1": other})
    with pytest.raises(Halt, match=rf"0 replicas would .* 1 must.*vllm1 is {other}"):
        rolled(restarter(serving, gateway), [0], tmp_path)
    assert gateway.log == []


def test_replica_that_serves_nobody_may_always_be_restarted(
    serving: ServingConfig, tmp_path: Path
) -> None:
    gateway = Memory({"vllm0": "DOWN", "vllm1": "DOWN"})
    rolled(restarter(serving, gateway), [0, 1], tmp_path)
    assert "vllm1 ready" in gateway.log


def test_single_replica_has_no_floor_to_hold(serving: ServingConfig, tmp_path: Path) -> None:
    alone = replace(
        serving, replicas=serving.replicas[:1], rolling_restart=RollingRestartPlan(min_available=0)
    )
    gateway = Memory({"vllm0": "UP"})
    rolled(restarter(alone, gateway), [0], tmp_path)
    assert gateway.log[-1] == "vllm0 ready"


def test_replica_that_the_gateway_is_yet_to_learn_of_is_only_started(
    serving: ServingConfig, tmp_path: Path
) -> None:
    gateway = Memory({"vllm0": "UP"})
    rolled(restarter(serving, gateway), [1], tmp_path)
    assert gateway.log == ["restart vllm@1.service"]
    with raises_message(Halt):
        rolled(restarter(serving, gateway, fails="vllm@1.service"), [1], tmp_path)


def test_replica_that_does_not_come_back_stays_drained_and_ends_the_rolling_restart(
    serving: ServingConfig, tmp_path: Path
) -> None:
    gateway = Memory(dict(BOTH_UP))
    with raises_message(Halt):
        rolled(restarter(serving, gateway, fails="vllm@0.service"), [0, 1], tmp_path)
    assert gateway.log == ["vllm0 drain", "restart vllm@0.service"]
    assert gateway.status == {"vllm0": "DRAIN", "vllm1": "UP"}
    # The next one sees to it, whatever it is asked for, and brings it back.
    rolled(restarter(serving, gateway), [], tmp_path)
    assert gateway.status == BOTH_UP


def test_replica_that_answers_wrong_stays_drained(serving: ServingConfig, tmp_path: Path) -> None:
    gateway = Memory(dict(BOTH_UP))
    with raises_message(Halt):
        rolled(restarter(replace(serving, model="other"), gateway), [0, 1], tmp_path)
    assert gateway.status == {"vllm0": "DRAIN", "vllm1": "UP"}


def test_replica_that_somebody_drained_is_restarted_and_stays_drained(
    serving: ServingConfig, tmp_path: Path
) -> None:
    gateway = Memory({"vllm0": "DRAIN", "vllm1": "UP"})
    rolled(restarter(serving, gateway), [0], tmp_path)
    assert gateway.log == ["vllm0 drain", "restart vllm@0.service"]
    assert gateway.status["vllm0"] == "DRAIN"


@dataclass
class Killed(Memory):
    """The process dies when the replica is to come back."""

    def set_state(self, name: str, state: str) -> None:
        """Up to there as usual."""
        if state == "ready":
            raise KeyboardInterrupt
        super().set_state(name, state)


def test_killed_roll_is_finished_by_the_next_one(serving: ServingConfig, tmp_path: Path) -> None:
    gateway = Killed(dict(BOTH_UP))
    with pytest.raises(KeyboardInterrupt):
        rolled(restarter(serving, gateway), [1, 0], tmp_path)
    assert left_behind(tmp_path / "note") == 1
    assert interrupted_first([0], tmp_path / "note") == [1, 0]
    later = Memory(gateway.status)
    done = rolled(restarter(serving, later), [0], tmp_path)
    assert [entry["replica"] for entry in done] == [1, 0]
    assert later.status == BOTH_UP


def test_restart_is_pending_until_the_replica_is_back(
    serving: ServingConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling_restart, "pending_marker", lambda name: str(tmp_path / name))
    pending = tmp_path / "restart:vllm@0.service"
    pending.touch()
    gateway = Memory(dict(BOTH_UP))
    with pytest.raises(Halt):
        rolled(restarter(serving, gateway, fails="vllm@0.service"), [0], tmp_path)
    assert pending.exists()
    rolled(restarter(serving, gateway), [0], tmp_path)
    assert not pending.exists()


def test_two_rolls_are_never_at_work_together(tmp_path: Path) -> None:
    lock = tmp_path / "rolling-restart.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c",
         "import sys, pathlib; from b200kit.node.serving.gateway import rolling_restart as roll;"
         "roll.hold(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()",
         str(lock)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PACKAGE.parent,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with raises_message(Halt, PID=holder.pid):
        rolling_restart.hold(lock)
    holder.communicate()
    os.close(rolling_restart.hold(lock))


@pytest.mark.parametrize("replicas", ["0,x", "7"])
def test_wrong_replicas_are_one_line(
    serving: ServingConfig,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    replicas: str,
) -> None:
    assert serving.replicas[0] == ServedReplica(0, serving.gateway, "vllm@0.service", ())
    config = str(tmp_path / "serving.json")
    assert rolling_restart.main(["--config", config, "--replicas", replicas]) == 2
    assert_message(capsys.readouterr().err)
