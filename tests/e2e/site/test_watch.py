"""Faults of a node while it serves: who is taken out of the gateway, after how long, and is back.

Two replicas behind the gateway, clients that stream, and a look every two seconds. Of each fault
stands in the test's output how long it took.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, cursor, deploy, on
from tests.e2e.tools.harm import FULL_VAR, ROOM_IN_VAR, on_every_cpu, on_its_cpus
from tests.e2e.tools.watching import Watched

pytestmark = pytest.mark.long

NODE = "b200-1"
SEEN = Watched(NODE)
EVERY_S = 2
RULES = {
    "interval_s": 2,
    "health_check_s": EVERY_S,
    "health_check_deadline_s": 30,
    "deadline_s": 120,
    "stall_s": 600,
}
DATA = ("--data", f"watchdog={json.dumps(RULES)}")
MANAGER = "nvidia-fabricmanager.service"
_STREAMS = Path(__file__).parents[1] / "tools" / "streams.py"


@dataclass(frozen=True)
class Fault:
    """A fault to make and to end, the GPU that it affects (None: all), and its summary.

    It is a scenario of the hardware, or what is done on the node and undone.
    """

    name: str
    gpu: int | None
    says: str
    scenario: str = ""
    act: str = ""
    undo: str = ""

    def begin(self) -> None:
        """Do it."""
        lab.inject(NODE, self.scenario) if self.scenario else on(NODE, self.act)

    def end(self) -> None:
        """Undo it."""
        lab.inject(NODE, "healthy") if self.scenario else on(NODE, self.undo)


FAULTS = [
    Fault("17 of 18 links", 3, "GPU 3 has 17 of 18 NVLinks up", "seventeen-links"),
    Fault("no NVLink at all", 2, "GPU 2 has no NVLink", "gpu2-no-nvlink"),
    Fault("row remap pending", 6, "GPU 6", "row-remap-pending"),
    Fault("thermal slowdown", 4, "GPU 4", "thermal-slowdown"),
    Fault(
        "placement lost", 0, "vllm@0.service: ",
        act=on_every_cpu("vllm@0.service"), undo=on_its_cpus("vllm@0.service"),
    ),
]  # fmt: skip
WHOLE = Fault("fabric manager dead", None, MANAGER, act=f"systemctl stop {MANAGER}",
              undo=f"systemctl start {MANAGER}")  # fmt: skip
FULL = Fault("/var is full", -1, "/var has 0 MiB free", act=FULL_VAR, undo=ROOM_IN_VAR)


@pytest.fixture(scope="module")
def serving(live: Live) -> Iterator[Outcome]:
    """A node that serves, looked at every two seconds, and streams through its gateway."""
    live(1)
    outcome = deploy("b200.py", *DATA)
    assert outcome.code == 0, outcome.said[-3000:]
    lab.run(NODE, ["sh", "-c", f"cat > /run/streams.py <<'END'\n{_STREAMS.read_text()}\nEND"])
    files = "/usr/local/lib/b200kit/node.pyz /etc/b200kit/serving.json"
    on(NODE, f"systemd-run -q -u load python3 /run/streams.py {files} 4 40 /run/load.json")
    yield outcome
    on(NODE, "touch /run/load.stop; systemctl stop load")


def journal(since: str) -> str:
    """What was said after a cursor. With a filter journalctl 252 skips the first line of it."""
    return on(NODE, f"journalctl -o cat --no-pager --after-cursor='{since}'")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_exactly_the_replicas_that_a_fault_touches_are_out_until_it_is_over(
    serving: Outcome, fault: Fault
) -> None:
    assert len(SEEN.concerned(fault.gpu)) == 1
    comes_and_goes(fault)


def comes_and_goes(fault: Fault) -> None:
    """A fault, until all that it touches are out, and then none."""
    expected, here = SEEN.concerned(fault.gpu), cursor(NODE)
    fault.begin()
    try:
        found = SEEN.until(lambda: SEEN.out() == expected)
    finally:
        fault.end()
    back = SEEN.until(lambda: SEEN.out() == set())
    said = journal(here)
    assert f"confirmed: {fault.says}" in said, said
    assert "over: " in said
    print(f"{fault.name}: out {sorted(expected)} after {found:.1f} s, back {back:.1f} s after")


@pytest.mark.parametrize("scenario", ["one-pair-no-p2p", "nvml-hangs", "mixed-vbios"])
def test_nobody_is_out_for_what_touches_no_replica_or_was_not_seen(
    serving: Outcome, scenario: str
) -> None:
    lab.inject(NODE, scenario)
    try:
        for _ in range(3):
            before = SEEN.last_look()
            SEEN.until(lambda before=before: SEEN.last_look() != before)  # type: ignore[misc]
        assert SEEN.out() == set()
    finally:
        lab.inject(NODE, "healthy")


def test_nobody_is_out_for_a_full_disk_which_is_said(serving: Outcome) -> None:
    here = cursor(NODE)
    FULL.begin()
    try:
        found = SEEN.until(lambda: f"confirmed: {FULL.says}" in journal(here))
        assert SEEN.out() == set()
    finally:
        FULL.end()
    over = SEEN.until(lambda: "over: " in journal(here))
    print(f"{FULL.name}: confirmed after {found:.1f} s, over {over:.1f} s after its end")


def test_no_stream_was_lost(serving: Outcome) -> None:
    on(NODE, "touch /run/load.stop")
    SEEN.until(lambda: bool(on(NODE, "ls /run/load.json || true")))
    streams = json.loads(on(NODE, "cat /run/load.json"))
    lost = [stream for stream in streams if stream["error"]]
    print(f"{len(lost)} of {len(streams)} streams lost")
    assert lost == []


def test_a_fault_of_the_whole_node_takes_all_of_it_out(serving: Outcome) -> None:
    comes_and_goes(WHOLE)


def test_second_run_changes_nothing(serving: Outcome) -> None:
    again = deploy("b200.py", *DATA)
    assert again.outcome(NODE) == "live", again.described(NODE)
    assert (again.host(NODE)["changes"], again.host(NODE)["commands"]) == (0, 2)


def test_a_node_that_is_not_looked_at_is_not_fit(serving: Outcome) -> None:
    on(NODE, "systemctl stop b200-agent")
    time.sleep(3 * EVERY_S + RULES["health_check_deadline_s"] + 2)
    check = deploy("check.py", *DATA)
    assert check.code == 1
    findings = check.host(NODE)["verdict"]["findings"]
    failed = {finding["check"] for finding in findings if finding["status"] == "fail"}
    assert failed >= {"watchdog.service", "watchdog.health"}
    on(NODE, "systemctl start b200-agent")
