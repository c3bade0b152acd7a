"""The watchdog on a node: a fault of the hardware, and a replica that hangs while clients stream,
again and again, and its mark.

The stand-in engine hangs at run time as a deadlocked vLLM does: /health stays 200, no token comes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

import tests.lab as lab
from b200kit.node.state.watchdog import LastStep, ReplicaState
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, cursor, deploy, on
from tests.e2e.tools import agent_file

NODE = "b200-1"
UNIT = "b200-agent.service"
RULES = (
    "--data",
    'watchdog={"interval_s": 1, "deadline_s": 1, "strikes": 2, "ejections": 3, "stall_s": 60}',
    "--data",
    'events={"command": ["/usr/bin/logger", "-t", "notified"]}',
)
BACK = "vllm0: it answers: back in the gateway"
# Streams through the gateway, one after another in each of four places, until it is stopped.
LOAD = """
import asyncio, json, os, sys, time
sys.path.insert(0, "/usr/local/lib/b200kit/node.pyz")
from b200kit.node.client.chat import ChatRequest, chat
from b200kit.node.client.http import HttpDeadlines
from pathlib import Path
from b200kit.node.client.serving_config import load
serving = load(Path("/etc/b200kit/serving.json"))
done = []
async def place(number):
    count = 0
    while not os.path.exists("/run/load-stop"):
        count += 1
        request = ChatRequest(serving.model, f"{number} {count}", 40, salt="load")
        sent = time.time()
        answer = await chat(serving.endpoint(serving.gateway), request, HttpDeadlines(5, 120, 240))
        done.append({"sent": sent, "ended": time.time(), "error": answer.record().error})
        Path("/run/load-count").write_text(str(len(done)))
async def main():
    await asyncio.gather(*(place(number) for number in range(4)))
asyncio.run(main())
Path("/run/load.json").write_text(json.dumps(done))
"""


@dataclass(frozen=True)
class Line:
    """One line of the watchdog's journal: when, in seconds since the epoch, and what."""

    at: float
    said: str


PASSPORT = "/var/lib/b200kit/passport.json"


@pytest.fixture(scope="module")
def watched(live: Live) -> Outcome:
    """A node with two replicas behind the gateway, watched every second."""
    live(1)
    outcome = deploy("b200.py", *RULES)
    assert outcome.code == 0, outcome.said[-3000:]
    return outcome


def journal(since: str) -> list[Line]:
    """What the watchdog said after a cursor."""
    message = on(NODE, f"journalctl -o json --no-pager -u {UNIT} --after-cursor='{since}'")
    entries = [json.loads(line) for line in message.splitlines()]
    return [
        Line(int(entry["__REALTIME_TIMESTAMP"]) / 1e6, entry["MESSAGE"])
        for entry in entries
        if isinstance(entry["MESSAGE"], str)
    ]


def wait_until(script: str, seconds: int = 600) -> None:
    """Return when a shell condition holds on the node."""
    loop = f"until {script}; do sleep 0.1; done"
    done = lab.run(NODE, ["timeout", str(seconds), "sh", "-c", loop], seconds + 30)
    assert done.returncode == 0, f"never came true: {script}\n" + on(
        NODE, f"journalctl -u {UNIT} -o cat --no-pager | tail -n 40"
    )


def said_since(since: str, words: str) -> str:
    """The shell condition that the watchdog said some words after a cursor."""
    log = f"journalctl -u {UNIT} -o cat --no-pager --after-cursor='{since}'"
    return f"{log} | grep -qF '{words}'"


def hang(replica: int) -> None:
    """Let the engine of a replica make no token any more."""
    on(NODE, f"systemctl kill --signal=SIGUSR2 vllm@{replica}.service")


def standing(replica: int) -> ReplicaState:
    """What the agent remembers of a replica."""
    return agent_file.known(NODE).watchdog[str(replica)]


def in_gateway() -> dict[str, str]:
    """Server to its status, as HAProxy has it."""
    script = (
        "import sys; sys.path.insert(0, '/usr/local/lib/b200kit/node.pyz'); "
        "from b200kit.node.serving.gateway import haproxy; "
        "print('\\n'.join(f'{s.name} {s.status}' for s in haproxy.servers()))"
    )
    message = lab.run(NODE, ["python3", "-I", "-c", script]).stdout
    return dict(line.split(" ", 1) for line in message.splitlines())


@pytest.fixture(scope="module")
def second(watched: Outcome) -> Outcome:
    """The same run again."""
    return deploy("b200.py", *RULES)


def test_second_run_changes_nothing(second: Outcome) -> None:
    assert second.outcome(NODE) == "live", second.described(NODE)
    assert second.host(NODE)["changes"] == 0
    assert second.host(NODE)["commands"] == 2


def test_the_watchdog_runs_and_systemd_watches_it(second: Outcome) -> None:
    shown = on(NODE, f"systemctl show -p ActiveState,WatchdogUSec,Type,NotifyAccess {UNIT}")
    assert "ActiveState=active" in shown
    assert "WatchdogUSec=1min" in shown
    for replica in (0, 1):
        assert (standing(replica).last or LastStep("")).what == "answered"


def test_the_watchdog_is_hardened(second: Outcome) -> None:
    message = on(NODE, f"systemd-analyze security --no-pager {UNIT} | tail -n 1")
    assert float(message.split(":")[1].split()[0]) <= 4.3, message


def test_no_key_is_in_its_command_line_or_environment(second: Outcome) -> None:
    key = on(NODE, "cat /etc/b200kit/secrets/api_key")
    pid = on(NODE, f"systemctl show -p MainPID --value {UNIT}")
    assert key
    assert key not in on(NODE, f"cat /proc/{pid}/cmdline /proc/{pid}/environ | tr '\\0' ' '")


def look() -> None:
    """As often as a fault is confirmed by, and over; the lab's own agent looks every 300 s."""
    agent_file.look(NODE, 3)


def test_exactly_the_replica_that_a_fault_of_the_hardware_touches_is_out_until_it_is_over(
    second: Outcome,
) -> None:
    here = cursor(NODE)
    lab.inject(NODE, "row-remap-pending")
    try:
        look()
        wait_until(agent_file.has_done(NODE, 1, "held"))
        assert in_gateway()["vllm0"].startswith("UP")
        assert in_gateway()["vllm1"].startswith("DRAIN")
    finally:
        lab.inject(NODE, "healthy")
        look()
    wait_until(agent_file.has_done(NODE, 1, "answered"))
    assert {status.split()[0] for status in in_gateway().values()} == {"UP"}
    assert standing(1).ejections == ()
    # With a filter journalctl 252 skips the first line of it.
    message = on(NODE, f"journalctl -o cat --no-pager --after-cursor='{here}'")
    assert "confirmed: GPU 6 " in message
    assert "vllm1: it answers: back in the gateway" in message
    assert "vllm0: " not in message


def test_the_site_heard_of_the_fault_and_of_its_end_and_nothing_waits(second: Outcome) -> None:
    told = "journalctl -o cat --no-pager -t notified"
    wait_until(f'{told} | grep -q \'"kind": "replica.back"\'')
    events = [json.loads(line) for line in on(NODE, told).splitlines() if line[:1] == "{"]
    kinds = ["fault.confirmed", "replica.out", "fault.over", "replica.back"]
    assert [event["kind"] for event in events] == kinds
    assert (events[0]["subject"], events[0]["replicas"]) == ("GPU 6", [1])
    wait_until('[ -z "$(ls /var/lib/b200kit/events)" ]')


@dataclass(frozen=True)
class Hang:
    """What one hang under load left: the watchdog's lines, and every request of the clients."""

    lines: list[Line]
    requests: list[dict[str, Any]]
    evidence: str

    def at(self, words: str) -> float:
        """When the watchdog said something, the first time."""
        return next(line.at for line in self.lines if words in line.said)


@pytest.fixture(scope="module")
def hung(second: Outcome) -> Hang:
    """Replica 0 hangs while four clients stream; ended when it is back in the gateway."""
    here = cursor(NODE)
    lab.run(NODE, ["sh", "-c", "cat > /run/load.py <<'END'\n" + LOAD + "\nEND"])
    on(NODE, "systemd-run --quiet --unit=load python3 -I /run/load.py")
    wait_until("[ -e /run/load-count ] && [ $(cat /run/load-count) -ge 8 ]")
    hang(0)
    wait_until(said_since(here, BACK))
    count = int(on(NODE, "cat /run/load-count"))
    wait_until(f"[ $(cat /run/load-count) -ge {count + 40} ]")
    on(NODE, "touch /run/load-stop")
    wait_until("[ -e /run/load.json ]")
    lines = journal(here)
    seen = "evidence is in "
    evidence = next(line.said.partition(seen)[2] for line in lines if seen in line.said)
    return Hang(lines, json.loads(on(NODE, "cat /run/load.json")), evidence)


def test_ejected_first_then_looked_at_then_restarted_then_back(hung: Hang) -> None:
    steps = (
        "vllm0: out of the gateway",
        "vllm0: evidence is in",
        "vllm0: restarting vllm@0.service",
        "vllm0: vllm@0.service is warm",
        BACK,
    )
    times = [hung.at(step) for step in steps]
    assert times == sorted(times), hung.lines
    assert not any(line.said.startswith("vllm1") for line in hung.lines)


def test_clients_fail_only_with_streams_that_were_open_on_the_hung_replica(hung: Hang) -> None:
    out = hung.at("vllm0: out of the gateway")
    failed = [request for request in hung.requests if request["error"]]
    assert len(hung.requests) > 50
    assert len(failed) <= 4
    assert all(request["sent"] < out for request in failed), failed
    assert sum(request["sent"] > out for request in hung.requests) > 40


def test_it_is_back_in_rotation_and_warm(hung: Hang) -> None:
    assert {name: status.split()[0] for name, status in in_gateway().items()} == {
        "vllm0": "UP",
        "vllm1": "UP",
    }
    record = json.loads(on(NODE, "cat /var/lib/b200kit/warm-0.json"))
    assert record["warm"] is True
    assert all(item["jit"] == 0 for item in record["rounds"])


def test_what_hung_was_looked_at_before_the_restart(hung: Hang) -> None:
    files = on(NODE, f"ls {hung.evidence}").split()
    assert {"threads.txt", "metrics.txt", "journal.txt", "unit.txt", "gpus.txt"} <= set(files)
    threads = on(NODE, f"cat {hung.evidence}/threads.txt")
    assert "State: S (sleeping)" in threads
    assert "wchan: " in threads
    assert "vllm:num_requests_running" in on(NODE, f"cat {hung.evidence}/metrics.txt")
    assert "ActiveState=active" in on(NODE, f"cat {hung.evidence}/unit.txt")
    assert on(NODE, f"stat -c %a {hung.evidence}") == "700"


def test_python_told_its_stacks_with_its_last_breath(hung: Hang) -> None:
    message = on(NODE, f"cat {hung.evidence}/after-abort.txt")
    assert "Fatal Python error: Aborted" in message
    assert "most recent call first" in message
    assert 'File "' in message


def test_a_replica_that_is_stopped_on_purpose_is_left_alone(hung: Hang) -> None:
    on(NODE, "systemctl stop vllm@1.service")
    wait_until(agent_file.has_done(NODE, 1, "left alone"))
    last = standing(1).last
    assert last
    assert "its unit is inactive" in last.detail
    assert standing(1).ejections == ()
    on(NODE, "systemctl start vllm@1.service")
    wait_until(agent_file.has_done(NODE, 1, "answered"))
    assert not standing(1).out


@pytest.fixture(scope="module")
def killed(hung: Hang) -> str:
    """Replica 0 hangs again, and the watchdog is killed while it restarts it; its new PID."""
    here = cursor(NODE)
    before = on(NODE, f"systemctl show -p MainPID --value {UNIT}")
    hang(0)
    wait_until(said_since(here, "vllm0: restarting vllm@0.service"))
    on(NODE, f"kill -9 {before}")
    wait_until(said_since(here, BACK))
    after = on(NODE, f"systemctl show -p MainPID --value {UNIT}")
    assert after not in ("0", before)
    return after


def test_a_watchdog_that_is_killed_while_it_mends_finishes_it(killed: str) -> None:
    kept = standing(0)
    assert (kept.out, len(kept.ejections)) == (False, 2)


@pytest.fixture(scope="module")
def marked(killed: str) -> dict[str, Any]:
    """The third hang: not restarted any more."""
    here = cursor(NODE)
    hang(0)
    wait_until(said_since(here, "the node is marked"))
    wait_until(agent_file.has_done(NODE, 0, "given up"))
    assert not any("restarting" in line.said for line in journal(here))
    document: dict[str, Any] = json.loads(on(NODE, "cat /var/lib/b200kit/watchdog-mark.json"))
    return document


def test_after_three_the_replica_stays_out_and_the_node_is_marked(marked: dict[str, Any]) -> None:
    assert (marked["who"], marked["action"]) == ("b200-agent", "reset-gpu")
    assert "replica 0 was ejected 3 times within 3600 s" in marked["why"]
    assert on(NODE, f"ls {marked['evidence']}")
    assert in_gateway()["vllm0"].startswith("DRAIN")
    assert in_gateway()["vllm1"].startswith("UP")


def test_check_says_so_and_how_to_end_it(marked: dict[str, Any]) -> None:
    found = deploy("check.py", *RULES)
    assert found.code == 1
    assert found.outcome(NODE) == "unfit"
    message = {
        f["check"]: f for f in found.host(NODE)["verdict"]["findings"] if f["status"] == "fail"
    }
    assert set(message) == {"watchdog.mark", "watchdog.replicas"}
    assert "rm /var/lib/b200kit/watchdog-mark.json" in message["watchdog.mark"]["summary"]
    assert message["watchdog.mark"]["action"] == "reset-gpu"


def test_a_deploy_leaves_the_other_replica_serving_and_is_not_live(marked: dict[str, Any]) -> None:
    again = deploy("b200.py", *RULES)
    assert again.code == 1
    assert again.host(NODE)["stage"] == "watchdog", again.described(NODE)
    assert "the last time as" in again.described(NODE)
    assert on(NODE, "systemctl is-active vllm@1.service haproxy.service").split() == ["active"] * 2


def test_once_the_mark_is_removed_it_is_mended_and_the_node_is_fit(marked: dict[str, Any]) -> None:
    here = cursor(NODE)
    on(NODE, "rm /var/lib/b200kit/watchdog-mark.json")
    wait_until(said_since(here, BACK))
    wait_until(agent_file.has_done(NODE, 0, "answered"))
    found = deploy("check.py", *RULES)
    assert found.outcome(NODE) == "fit", found.described(NODE)


def test_check_sees_a_watchdog_that_does_not_run(marked: dict[str, Any]) -> None:
    on(NODE, f"systemctl stop {UNIT}")
    found = deploy("check.py", *RULES)
    on(NODE, f"systemctl start {UNIT}")
    assert found.outcome(NODE) == "unfit"
    assert f"{UNIT} is inactive: no replica is watched" in found.described(NODE)


def test_withdrawing_a_node_stops_its_watchdog_first(marked: dict[str, Any]) -> None:
    # As if another GPU sat there since the node was accepted.
    on(NODE, f"sed -i 's/GPU-b2000002/GPU-b2000009/' {PASSPORT}")
    red = deploy("b200.py", *RULES)
    assert red.outcome(NODE) == "red", red.described(NODE)
    stopped = [c for stage in red.host(NODE)["stages"] for c in stage["changes"] if "stop" in c]
    assert stopped[:2] == [f"stop {UNIT}", "stop haproxy.service"]
    assert on(NODE, f"systemctl is-active {UNIT} || true") == "inactive"
