"""What happens on a node reaches the site's command, whatever that does.

One node, a look every two seconds; the command is logger(1), whose lines are read back from the
journal. How long it took stands in the test's output.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, cursor, deploy, on
from tests.e2e.tools import agent_file

pytestmark = pytest.mark.long

NODE = "b200-1"
DEADLINE_S = 2
RULES = {
    "interval_s": 2,
    "health_check_s": 2,
    "health_check_deadline_s": 30,
    "deadline_s": 120,
    "stall_s": 600,
    "mends": ["restart-services"],
}
MANAGER = "nvidia-fabricmanager.service"
HOOK = "b200-hook.service"
TELLS, HANGS = "exec logger -t notified", "sleep 1000 & setsid sleep 1000 & sleep 1000"
KINDS = ["fault.confirmed", "replica.out", "fault.over", "replica.back"]
EVENTS = {"command": ["/usr/local/bin/notify"], "deadline_s": DEADLINE_S}
DATA = ("--data", f"watchdog={json.dumps(RULES)}", "--data", f"events={json.dumps(EVENTS)}")


def command_does(act: str) -> None:
    """What the site's command does from now on."""
    path = "/usr/local/bin/notify"
    on(NODE, f"cat > {path} <<'END'\n#!/bin/sh\n{act}\nEND\nchmod 755 {path}")


@pytest.fixture(scope="module")
def told(live: Live) -> Iterator[Outcome]:
    """A node that serves and tells the site."""
    live(1)
    command_does(TELLS)
    outcome = deploy("b200.py", *DATA)
    assert outcome.code == 0, outcome.said[-3000:]
    yield outcome
    lab.inject(NODE, "healthy")


def notified(since: str) -> list[dict[str, Any]]:
    """What the command was given since a cursor, in order.

    With a filter journalctl 252 skips the first line of it.
    """
    said = on(NODE, f"journalctl -o cat --no-pager --after-cursor='{since}'").splitlines()
    heard = [json.loads(line) for line in said if line.startswith('{"schema": "b200kit/event/')]
    return [one for one in heard if not one["kind"].startswith("proof.")]


def kinds(since: str) -> list[str]:
    """Their kinds."""
    return [one["kind"] for one in notified(since)]


def until(there: Callable[[], bool], seconds: float = 120) -> float:
    """Seconds until it is so."""
    began = time.monotonic()
    while not there():
        assert time.monotonic() < began + seconds, on(
            NODE, f"journalctl -u {HOOK} -u {agent_file.UNIT} -o cat | tail -n 40"
        )
        time.sleep(0.2)
    return time.monotonic() - began


def test_a_fault_and_its_end_are_told(told: Outcome) -> None:
    here = cursor(NODE)
    lab.inject(NODE, "row-remap-pending")
    first = until(lambda: "replica.out" in kinds(here))
    lab.inject(NODE, "healthy")
    until(lambda: kinds(here) == KINDS)
    fault, out = notified(here)[:2]
    assert (fault["subject"], fault["replicas"]) == ("GPU 6", [1])
    assert fault["remediation"]["action"] == "reset-gpu"
    assert (out["subject"], out["node"]) == ("vllm@1.service", NODE)
    print(f"replica.out was told {first:.1f} s after the fault began")


def test_a_command_that_hangs_holds_nobody_up_and_nothing_it_started_is_left(
    told: Outcome,
) -> None:
    command_does(HANGS)
    here = cursor(NODE)
    try:
        lab.inject(NODE, "row-remap-pending")
        # Out all the same, while it is told in vain.
        until(lambda: agent_file.known(NODE).watchdog["1"].held != "")
        until(lambda: "was killed; again in" in on(NODE, f"journalctl -u {HOOK} -o cat"))
        group = f"/sys/fs/cgroup/system.slice/{HOOK}/cgroup.procs"
        assert int(on(NODE, f"sort -u {group} | wc -l")) <= 4
    finally:
        command_does(TELLS)
        lab.inject(NODE, "healthy")
    until(lambda: kinds(here) == KINDS)


def test_second_run_changes_nothing(told: Outcome) -> None:
    again = deploy("b200.py", *DATA)
    assert again.outcome(NODE) == "live", again.described(NODE)
    assert (again.host(NODE)["changes"], again.host(NODE)["commands"]) == (0, 2), again.described(
        NODE
    )


def test_a_dead_fabric_manager_is_restarted_once_all_replicas_are_out(told: Outcome) -> None:
    here = cursor(NODE)
    on(NODE, f"systemctl stop {MANAGER}")
    took = until(lambda: kinds(here).count("replica.back") == 2, 180)
    known = [(one["kind"], tuple(one["replicas"])) for one in notified(here)]
    assert known[0] == ("fault.confirmed", (0, 1))
    assert {("replica.out", (0,)), ("replica.out", (1,)), ("fault.over", (0, 1))} < {*known}
    assert [kind for kind in known if kind[0].startswith("mend.")] == [
        *(("mend.begun", (0, 1)), ("mend.done", (0, 1)))
    ]
    assert on(NODE, f"systemctl is-active {MANAGER}") == "active"
    mends = agent_file.known(NODE).mends
    assert mends
    assert len(mends.times) == 1
    print(f"a dead fabric manager: all replicas back {took:.1f} s after its death")


def test_nothing_is_left_where_nobody_is_to_be_told(told: Outcome) -> None:
    gone = deploy("b200.py", *DATA[:2])
    assert gone.outcome(NODE) == "live", gone.described(NODE)
    assert on(NODE, "ls -d /etc/b200kit/hook* 2>/dev/null || true") == ""
    assert on(NODE, f"systemctl list-unit-files '{HOOK}' --no-legend || true") == ""
