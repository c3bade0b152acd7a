"""The loop of the agent: looks by a process that may hang, probes, and the end of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.node.agent import loop, mender
from b200kit.node.agent.effects import Edges
from b200kit.node.agent.looker import FAILED, SUCCESS, TIMEOUT, HealthChecker, HealthCheckFailed
from b200kit.node.agent.memory import AgentMemory
from b200kit.node.client.serving_config import load
from b200kit.node.state.watch import HealthCheck
from tests.unit import serving_document
from tests.unit.node.client.server_thread import running

LOOKS = """
import json, os, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    how = open({how!r}).read()
    if how == "hang": time.sleep(3600)
    if how == "die": os._exit(1)
    said = {{"schema": "b200kit/watch/1", "taken_at": str(os.getpid()), "boot_s": 5.0,
             "in_service": True, "faults": []}}
    if how == "nonsense": said = [1]
    if asked["before"]: said["took_s"] = 7.0
    print(json.dumps(said), flush=True)
"""


@pytest.fixture
def how(tmp_path: Path) -> Path:
    """How whoever looks behaves."""
    path = tmp_path / "how"
    path.write_text("well")
    return path


def looker(how: Path, deadline_s: float = 60.0) -> HealthChecker:
    """Its process."""
    return HealthChecker([sys.executable, "-c", LOOKS.format(how=str(how))], deadline_s)


async def result(one: HealthChecker, before: HealthCheck | None = None) -> str:
    """How one look ends, and by which process."""
    try:
        return (await one.look(before)).taken_at
    except HealthCheckFailed as error:
        return error.result


def test_one_process_looks_again_and_again_and_the_first_time_hears_what_was_before(
    how: Path,
) -> None:
    async def scenario() -> None:
        one, before = looker(how), HealthCheck("then", 1.0, True, ())
        looks = [await one.look(before) for _ in range(3)]
        assert len({look.taken_at for look in looks}) == 1
        assert [look.took_s for look in looks] == [7.0, 0.0, 0.0]
        await one.end()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("behaves", "ends"), [("hang", TIMEOUT), ("die", FAILED), ("nonsense", FAILED)]
)
def test_one_that_does_not_answer_is_replaced_and_has_seen_nothing(
    how: Path, behaves: str, ends: str
) -> None:
    async def scenario() -> None:
        one = looker(how)
        first = await result(one)
        how.write_text(behaves)
        one.deadline_s = 0.3 if behaves == "hang" else 60.0
        assert await result(one) == ends
        how.write_text("well")
        one.deadline_s = 60.0
        again = await result(one)
        assert again.isdigit()
        assert again != first
        assert not Path("/proc", first).exists()
        await one.end()

    asyncio.run(scenario())


def test_one_that_was_stopped_is_replaced(how: Path) -> None:
    async def scenario() -> None:
        one = looker(how)
        first = await result(one)
        os.kill(int(first), signal.SIGSTOP)
        one.deadline_s = 0.3
        assert await result(one) == TIMEOUT
        assert not Path("/proc", first).exists()
        await one.end()

    asyncio.run(scenario())


def served(tmp_path: Path, url: str) -> Path:
    """serving.json of two replicas behind one server."""
    path = tmp_path / "serving.json"
    rules = {"interval_s": 0.05, "deadline_s": 300}
    found = serving_document.document(url, [(), ()], watchdog={"rules": rules})
    path.write_text(json.dumps(found))
    return path


def agent(config: Path, how: Path) -> loop.Agent:
    """The one of a node in a folder."""
    folder, serving = config.parent, load(config)
    memory = AgentMemory(
        "n01", serving.replicas, config, path=folder / "agent.json", directory=folder
    )  # fmt: skip
    edges = Edges(folder / "agent", folder / "mark", folder / "lock", folder / "drained")
    replicas = loop.watched(serving, edges, memory)
    made = mender.Mender(replicas, edges, (), serving.watchdog.mend_rules, memory)
    files = [config]
    return loop.Agent(memory, looker(how), replicas, made, 3600.0, files, folder / "texts")


async def until(done: Callable[[], bool]) -> None:
    """Wait for it."""
    while not done():
        await asyncio.sleep(0.01)


SYSTEMCTL = """#!/bin/sh
printf '%s\\n' ActiveState=active InvocationID=abc ControlGroup=/system.slice/x MainPID=7
"""


def test_replicas_and_node_are_watched_until_the_configuration_is_replaced(
    how: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    (tmp_path / "texts").mkdir()
    monkeypatch.setenv("PATH", f"{systemctl.parent}:{os.environ['PATH']}")
    said: list[str] = []
    monkeypatch.setattr(loop, "notify", said.append)
    monkeypatch.setattr(loop, "_EVERY_S", 0.01)
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")

    async def scenario(url: str) -> None:
        config = served(tmp_path, url)
        one = agent(config, how)
        job = asyncio.ensure_future(one.run())
        await until(lambda: len(one.memory.standings) == 2 and one.memory.look is not None)
        # Asked for one at once.
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: one.memory.health_checks[SUCCESS] == 2)
        # Not while a replica is being repaired.
        one.replicas[0].busy = True
        new = tmp_path / "new"
        new.write_text(config.read_text())
        new.replace(config)
        await asyncio.sleep(0.05)
        assert not job.done()
        one.replicas[0].busy = False
        await asyncio.wait_for(job, 300)

    with running() as url:
        asyncio.run(scenario(url))
    assert {"READY=1", "WATCHDOG=1"} <= {*said}
    state = json.loads((tmp_path / "agent.json").read_text())
    assert [state["watchdog"][n]["last"]["what"] for n in "01"] == ["answered"] * 2
    assert state["health_checks"] == {SUCCESS: 2}
    assert "b200_health_checks_total" in (tmp_path / "texts" / "b200kit.prom").read_text()


def test_looks_that_fail_are_counted_and_leave_what_was_seen_to_grow_old(
    how: Path, tmp_path: Path
) -> None:
    async def scenario() -> None:
        one = agent(served(tmp_path, "http://127.0.0.1:1"), how)
        await one.look()
        how.write_text("die")
        await one.look()
        assert one.memory.health_checks == {SUCCESS: 1, FAILED: 1}
        assert one.memory.look
        assert one.memory.look.boot_s == 5.0
        await one.looker.end()

    asyncio.run(scenario())


@pytest.mark.parametrize("words", [[], ["--proof", "none"]])
def test_a_bad_configuration_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    serving = served(tmp_path, "http://127.0.0.1:1") if words else tmp_path / "none.json"
    asked = ["--node", "n01", "--expect", "x", "--serving", str(serving), *words]
    assert loop.main(asked) == 2
    assert capsys.readouterr().err.count("\n") == 1
