"""What happens on a node reaches the site: by a command and over HTTPS, whatever one of them does.

One node, a look every two seconds; the command is logger(1), whose lines are read back from the
journal, and the webhook a server on the node. How long it took stands in the test's output.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, cursor, deploy, on
from tests.unit.gateway.test_refusals import certificate

pytestmark = pytest.mark.long

NODE = "b200-1"
KEY = "correct-horse-battery"
KEPT, DEADLINE_S = 10, 2
RULES = {
    "interval_s": 2,
    "look_s": 2,
    "look_deadline_s": 30,
    "deadline_s": 120,
    "stall_s": 600,
    "mends": ["restart-services"],
}
MANAGER = "nvidia-fabricmanager.service"
HEARD = "/run/webhook.jsonl"
SPOOL = "/var/lib/b200kit/events"
TELLS, HANGS = "exec logger -t notified", "sleep 1000"
KINDS = ["fault.confirmed", "replica.out", "fault.over", "replica.back"]
_SERVER = Path(__file__).parents[1] / "tools" / "webhook.py"
_PUT = (
    "import sys; sys.path.insert(0, '/usr/local/lib/b200kit/node.pyz'); "
    "from b200kit.node.events import spool; from b200kit.node.state.event import Event; "
    "[spool.put(Event('fault.over', f'made {n}')) for n in range(%d)]"
)


def laid_down(path: str, text: str, mode: str = "0644") -> None:
    """A file on the node."""
    on(NODE, f"cat > {path} <<'END'\n{text}\nEND\nchmod {mode} {path}")


def command_does(act: str) -> None:
    """What the site's command does from now on."""
    laid_down("/usr/local/bin/notify", f"#!/bin/sh\n{act}", "0755")


def webhook_listens() -> None:
    """The site's webhook is there from now on."""
    on(NODE, f"systemd-run -q -u webhook python3 /run/webhook.py 9443 /run/hook.pem {HEARD}")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The inventory's keys of this module."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "ca.pem").write_bytes(certificate(folder))
    hook = {
        "url": "https://localhost:9443/b200",
        "ca_file": f"{folder}/crt",
        "key": {"env": "EVENTS_KEY"},
    }
    events = {
        "command": ["/usr/local/bin/notify"],
        "webhook": hook,
        "deadline_s": DEADLINE_S,
        "kept": KEPT,
    }
    rules = ("--data", f"watchdog={json.dumps(RULES)}")
    return (*rules, "--data", f"events={json.dumps(events)}", str(folder / "ca.pem"))


@pytest.fixture(scope="module")
def told(live: Live, data: tuple[str, ...]) -> Iterator[Outcome]:
    """A node that serves and tells the site."""
    live(1)
    laid_down("/run/hook.pem", Path(data[-1]).read_text())
    laid_down("/run/webhook.py", _SERVER.read_text())
    command_does(TELLS)
    webhook_listens()
    outcome = deploy("b200.py", *data[:-1], EVENTS_KEY=KEY)
    assert outcome.code == 0, outcome.said[-3000:]
    yield outcome
    lab.inject(NODE, "healthy")


def posted() -> list[dict[str, Any]]:
    """What the webhook was sent, in order."""
    lines = on(NODE, f"cat {HEARD} 2>/dev/null || true").splitlines()
    assert all(json.loads(line)["authorization"] == f"Bearer {KEY}" for line in lines)
    return [json.loads(line)["event"] for line in lines]


def notified(since: str) -> list[dict[str, Any]]:
    """What the command was given since a cursor, in order.

    With a filter journalctl 252 skips the first line of it.
    """
    said = on(NODE, f"journalctl -o cat --no-pager --after-cursor='{since}'").splitlines()
    return [json.loads(line) for line in said if line.startswith('{"schema": "b200kit/event/')]


def until(there: Callable[[], bool], seconds: float = 120) -> float:
    """Seconds until it is so."""
    began = time.monotonic()
    while not there():
        assert time.monotonic() < began + seconds, on(
            NODE, f"ls -la {SPOOL}; journalctl -u b200-events -u b200-watch -o cat | tail -n 40"
        )
    return time.monotonic() - began


def waiting() -> int:
    """Events in the spool."""
    return int(on(NODE, f"ls {SPOOL} | wc -l"))


def test_a_fault_and_its_end_are_told_to_both_and_then_nothing_waits(told: Outcome) -> None:
    here = cursor(NODE)
    lab.inject(NODE, "row-remap-pending")
    first = until(lambda: "replica.out" in [one["kind"] for one in posted()])
    lab.inject(NODE, "healthy")
    until(lambda: [one["kind"] for one in posted()] == KINDS)
    until(lambda: [one["kind"] for one in notified(here)] == KINDS)
    until(lambda: waiting() == 0)
    assert posted() == notified(here)
    fault, out = posted()[:2]
    assert (fault["subject"], fault["replicas"]) == ("GPU 6", [1])
    assert fault["remediation"]["action"] == "reset-gpu"
    assert (out["subject"], out["node"]) == ("vllm@1.service", NODE)
    until(lambda: on(NODE, "systemctl is-active b200-events || true") == "inactive")
    print(f"replica.out was told {first:.1f} s after the fault began")


def test_the_key_is_in_no_unit_argument_or_journal(told: Outcome) -> None:
    found = on(NODE, f"grep -rl {KEY} /etc /run/systemd /var/lib/b200kit || true").split()
    assert found == ["/etc/b200kit/secrets/events_key"]
    found = on(NODE, "grep -rl localhost:9443 /etc/b200kit /etc/systemd /var/lib/b200kit").split()
    assert found == ["/etc/b200kit/secrets/events_url"]
    assert on(NODE, f"journalctl -b --no-pager | grep -c {KEY} || true") == "0"


def test_a_full_spool_drops_the_oldest_and_one_sink_that_hangs_holds_no_other(
    told: Outcome,
) -> None:
    command_does(HANGS)
    on(NODE, f"systemctl stop webhook; rm -f {HEARD}")
    on(NODE, f'python3 -I -c "{_PUT % (KEPT + 5)}"')
    assert waiting() == KEPT
    assert on(NODE, f"cat {SPOOL}/.dropped") == "5"
    webhook_listens()
    expected = [f"made {number}" for number in range(5, KEPT + 5)]
    got = until(lambda: sorted(one["summary"] for one in posted()) == sorted(expected))
    assert waiting() == KEPT
    here = cursor(NODE)
    command_does(TELLS)
    mended = until(lambda: waiting() == 0)
    assert sorted(one["summary"] for one in notified(here)) == sorted(expected)
    assert len(posted()) == KEPT
    print(f"webhook back: all {KEPT} in {got:.1f} s; command back: all in {mended:.1f} s")


def test_a_dead_fabric_manager_is_restarted_once_all_replicas_are_out(told: Outcome) -> None:
    on(NODE, f"rm -f {HEARD}; systemctl stop {MANAGER}")
    took = until(lambda: [one["kind"] for one in posted()].count("replica.back") == 2, 180)
    kinds = [(one["kind"], tuple(one["replicas"])) for one in posted()]
    assert kinds[0] == ("fault.confirmed", (0, 1))
    assert {("replica.out", (0,)), ("replica.out", (1,)), ("fault.over", (0, 1))} < {*kinds}
    assert [kind for kind in kinds if kind[0].startswith("mend.")] == [
        *(("mend.begun", (0, 1)), ("mend.done", (0, 1)))
    ]
    assert on(NODE, f"systemctl is-active {MANAGER}") == "active"
    done = json.loads(on(NODE, "cat /var/lib/b200kit/watchdog/mends.json"))
    assert len(done["times"]) == 1
    print(f"a dead fabric manager: all replicas back {took:.1f} s after its death")


def test_second_run_changes_nothing(told: Outcome, data: tuple[str, ...]) -> None:
    again = deploy("b200.py", *data[:-1], EVENTS_KEY=KEY)
    assert again.outcome(NODE) == "live", again.described(NODE)
    assert (again.host(NODE)["changes"], again.host(NODE)["commands"]) == (0, 2)


def test_nothing_is_left_where_nobody_is_to_be_told(told: Outcome, data: tuple[str, ...]) -> None:
    gone = deploy("b200.py", *data[:2])
    assert gone.outcome(NODE) == "live", gone.described(NODE)
    assert on(NODE, f"ls -d /etc/b200kit/*events* {SPOOL}/* 2>/dev/null || true") == ""
    assert on(NODE, "systemctl list-unit-files 'b200-events*' --no-legend || true") == ""
