"""Fifty times planned work on a node that is watched: reboots, restarts, upgrades, and no alarm.

Run by hand (about a quarter of an hour):

    .venv/bin/pytest -s tests/e2e/site/planned_work.py

A watch that cries wolf is switched off: 214 of 288 nodes were once reported with NVLink down, and
each of them was being rebooted (NVSentinel #1701). Looks come every two seconds here, so that some
fall into every part of a shutdown and of a boot.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import deploy, on, wait_for_boot
from tests.e2e.tools.watching import PROGRAM, SERVING, Watched

NODE = Watched("b200-1")
RULES = {
    "interval_s": 2,
    "health_check_s": 2,
    "health_check_deadline_s": 30,
    "deadline_s": 60,
    "stall_s": 600,
}
EVENTS = {"command": ["/usr/bin/logger", "-t", "notified"]}
KEYS = {"watchdog": RULES, "proof": {"issue": "on"}, "events": EVENTS}
DATA = tuple(
    word for key, value in KEYS.items() for word in ("--data", f"{key}={json.dumps(value)}")
)
UNITS = ("vllm@0.service", "vllm@1.service")
DRIVERS = ("580.159.03", "580.126.20")
ALARMS = {"fault.confirmed", "replica.out", "proof.expired", "proof.expiring"}
TIMES = 50


@pytest.fixture(scope="module")
def serving(live: Live) -> None:
    """A node that serves."""
    live(1)
    done = deploy("b200.py", *DATA)
    assert done.code == 0, done.said[-3000:]


def serves() -> bool:
    """Whether all of it does."""
    try:
        return NODE.out() == set()
    except (lab.LabError, OSError):
        return False


def reboot(number: int) -> None:
    """A person reboots it, without a word to anybody."""
    del number
    before = on(NODE.name, "cat /proc/sys/kernel/random/boot_id")
    on(NODE.name, "systemctl reboot --no-block")
    wait_for_boot(NODE.name, before)


def restart_engines(number: int) -> None:
    """A person restarts a replica."""
    on(NODE.name, f"systemctl restart {UNITS[number % 2]}")


def rolling_restart(number: int) -> None:
    """One after the other, by the kit."""
    del number
    on(NODE.name, f"python3 -I {PROGRAM} rolling-restart --config {SERVING}")


def restart_daemons(number: int) -> None:
    """A person restarts the fabric manager."""
    del number
    on(NODE.name, "systemctl restart nvidia-fabricmanager.service")


def upgrade(number: int) -> None:
    """Another driver, by the kit: drained, rebooted, proven, back."""
    done = deploy("b200.py", *DATA, "--data", f"driver={DRIVERS[number // 5 % 2]}")
    assert done.code == 0, done.said[-4000:]


WORK: tuple[Callable[[int], None], ...] = (
    reboot, reboot, restart_engines, rolling_restart, restart_daemons,
)  # fmt: skip


def test_planned_work_raises_no_alarm(serving: None) -> None:
    done: dict[str, int] = {}
    for number in range(TIMES):
        work = upgrade if number % 10 == 9 else WORK[number % len(WORK)]
        work(number)
        NODE.until(serves, 300)
        NODE.wait_for_looks(2)
        done[work.__name__] = done.get(work.__name__, 0) + 1
        assert alarm_lines() == [], (work.__name__, number)
        assert not {*events()} & ALARMS, (work.__name__, number, events())
    counts = {kind: events().count(kind) for kind in events()}
    print(f"{TIMES} times planned work: {done}; no alarm, no ejection; events: {counts}")


def events() -> list[str]:
    """The kinds of all events that the site was sent."""
    lines = on(NODE.name, "journalctl -o cat --no-pager -t notified").splitlines()
    return [str(json.loads(line)["kind"]) for line in lines if line.startswith("{")]


def alarm_lines() -> list[str]:
    """What the watch or the watchdog found fault with, in all boots."""
    lines = on(NODE.name, "journalctl -o cat --no-pager -u b200-agent")
    words = ("confirmed: ", "out of the gateway", "marked")
    return [line for line in lines.splitlines() if any(word in line for word in words)]
