"""contrib/slurm.py, and the node's own check, on a real slurmctld and two slurmd of Debian 12.

What it reads of a node in each state is recorded in tests/data/slurm-22.05.yaml, for its unit
tests. The nodes share their machine's uptime, so a reboot is said by slurmd's own -b.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic import CommandTraffic
from b200kit.run.node import Node
from tests.e2e.driving import on
from tests.lab import slurm
from tests.unit.contrib.conftest import CONTRIB
from tests.unit.nodes import spec

pytestmark = pytest.mark.long

SLURM = CommandTraffic((str(CONTRIB / "slurm.py"),))
CONTROLLER, NODE = "b200-1", "b200-2"
OUT = "IDLE+DRAIN"
CHECK = "/usr/local/lib/b200kit/slurm-check"
VERDICT = "stat -c %y /var/lib/b200kit/verdict.json"


@pytest.fixture(scope="module")
def programs(
    live: Callable[[int], dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Two provisioned nodes with Slurm, and its programs on this machine's PATH."""
    live(2)
    slurm.install([CONTROLLER, NODE])
    folder = tmp_path_factory.mktemp("slurm")
    slurm.clients(CONTROLLER, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")
        put_back()
        yield


@pytest.fixture
def node(programs: None, tmp_path: Path) -> Iterator[Node]:
    """The second node, without jobs, in service; so it is afterwards."""
    yield Node(NODE, spec(tmp_path))
    wait(has_no_jobs)
    put_back()


def has_no_jobs() -> bool:
    """Cancel all jobs. One whose launch has just failed is held again after it was cancelled."""
    call("scancel", "--user=root")
    return not call("squeue", "--noheader", "--all")


def put_back() -> None:
    """Have both nodes in service. One that is resumed answers when it is pinged, or registers."""
    for name in (CONTROLLER, NODE):
        wait(lambda name=name: shown(name)[0] not in ("none", "UNKNOWN"))  # type: ignore[misc]
        if shown(name)[0] != "IDLE":
            call("scontrol", "update", f"NodeName={name}", "State=RESUME")
        wait(lambda name=name: registered(name) == ("IDLE", ""))  # type: ignore[misc]


def registered(name: str) -> tuple[str, str]:
    """State and reason of a node that has just told its controller that it is there."""
    if shown(name)[0] != "IDLE":
        on(name, "systemctl reload slurmd")
    return shown(name)


def up_for(name: str) -> float:
    """Seconds since the node's boot as its controller knows it."""
    boot = re.search(r"BootTime=(\d\S+)", call("scontrol", "show", "node", name))
    return (datetime.now() - datetime.fromisoformat(boot[1])).total_seconds() if boot else 0


def call(*argv: str) -> str:
    """What an administrator's command prints."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def by_hand(state: str, reason: str) -> None:
    """What an administrator does to the node."""
    call("scontrol", "update", f"NodeName={NODE}", f"State={state}", f"Reason={reason}")


def shown(name: str) -> tuple[str, str]:
    """State and reason as scontrol prints them for people, read apart from the command."""
    lines = call("scontrol", "show", "node", name).splitlines()
    found = [line.strip().partition("=") for line in lines]
    state = next((rest.split()[0] for key, _, rest in found if key == "State"), "none")
    return state, next((rest for key, _, rest in found if key == "Reason"), "").partition(" [")[0]


def job(*options: str) -> str:
    """Ask for a job on the node; returns its number."""
    asked = [f"--nodelist={NODE}", "--parsable", "--output=/dev/null", "--chdir=/", *options]
    return call("sbatch", *asked, "--wrap=sleep 600")


def wait(done: Callable[[], bool], seconds: float = 90) -> None:
    """Return once it is so."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, (shown(CONTROLLER), shown(NODE), call("squeue", "--all"))
        time.sleep(0.1)


def runs(number: str) -> bool:
    return call("squeue", "--noheader", "--all", f"--job={number}", "--format=%T") == "RUNNING"


def test_idle_node_is_drained_and_resumed(node: Node) -> None:
    assert SLURM.drain(node, "GPU 2 has no NVLink") == "slurm.py: draining"
    assert shown(NODE) == (OUT, "b200kit: GPU 2 has no NVLink")
    assert SLURM.status(node) == 0
    assert SLURM.drain(node, "GPU 3, too") == "slurm.py: draining"
    assert "no shares" in SLURM.undrain(node, 5)
    assert shown(NODE) == (OUT, "b200kit: GPU 3, too")
    assert SLURM.undrain(node, 100) == "slurm.py: resumed"
    assert shown(NODE)[1] == ""
    wait(lambda: registered(NODE)[0] == "IDLE")
    assert SLURM.undrain(node, 100) == "slurm.py: IDLE"
    with pytest.raises(ActionFailed, match="as IDLE, where it takes new jobs"):
        SLURM.status(node)


@pytest.mark.parametrize("options", [(), ("--partition=hidden",)])
def test_running_job_counts_until_it_ends_and_a_pending_one_never(
    node: Node, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    # What a person may have set for his own look at the queue.
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("SQUEUE_FORMAT", "%j")
    running, pending = job(*options), job()
    monkeypatch.delenv("SQUEUE_USERS")
    monkeypatch.delenv("SQUEUE_FORMAT")
    wait(lambda: runs(running))
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    SLURM.drain(node, "why")
    assert shown(NODE)[0] == "ALLOCATED+DRAIN"
    assert SLURM.status(node) == 1
    call("scancel", running)
    wait(lambda: SLURM.status(node) == 0)
    assert shown(NODE)[0] == OUT
    assert not runs(pending)


@pytest.mark.parametrize("state", ["DRAIN", "DOWN", "FAIL"])
def test_node_that_an_administrator_took_out_stays_his(node: Node, state: str) -> None:
    by_hand(state, "power supply 2")
    before = shown(NODE)
    assert state in before[0]
    assert SLURM.drain(node, "no NVLink").endswith("by somebody else: power supply 2")
    assert SLURM.undrain(node, 100).endswith("by somebody else: power supply 2")
    assert shown(NODE) == before


def test_node_whose_reason_an_administrator_replaced_is_his_from_then_on(node: Node) -> None:
    SLURM.drain(node, "no NVLink")
    by_hand("DRAIN", "rack 7 is moved\nnext week")
    assert SLURM.undrain(node, 100) == (
        "slurm.py: stays IDLE+DRAIN, by somebody else: rack 7 is moved"
    )
    assert shown(NODE)[0] == OUT


def test_comment_is_not_taken_for_the_reason(node: Node) -> None:
    by_hand("DOWN", "power supply 2")
    call("scontrol", "update", f"NodeName={NODE}", "Comment=Reason=b200kit: x [root@now]")
    assert "power supply 2" in SLURM.undrain(node, 100)
    call("scontrol", "update", f"NodeName={NODE}", "Comment=")


def test_jobs_are_stopped_where_the_site_says_to_cut_them(node: Node) -> None:
    kept, first, second = job("--nodelist=b200-1"), job("--oversubscribe"), job()
    wait(lambda: runs(first))
    SLURM.drain(node, "why")
    assert SLURM.cut(node) == f"slurm.py: cancelled {first}"
    assert (SLURM.status(node), shown(NODE)[0]) == (0, OUT)
    wait(lambda: runs(kept))
    assert call("squeue", "--noheader", f"--job={second}", "--format=%T") == "PENDING"


UNFIT = "b200kit: slurm-check: GPU 7 is split by MIG (and 1 more)"


@pytest.fixture
def checked(node: Node) -> Iterator[None]:
    """slurmd runs the check on its own, and around each job."""
    every = {"HealthCheckProgram": CHECK, "Prolog": CHECK, "Epilog": CHECK}
    slurm.configure((CONTROLLER, NODE), **every, HealthCheckInterval=2)
    yield
    lab.inject(NODE, "healthy")
    nothing = dict.fromkeys([*every, "HealthCheckInterval"])
    slurm.configure((CONTROLLER, NODE), **nothing)


def checked_again() -> None:
    """Return once a check of the node has begun and ended after this call."""
    for _ in range(2):
        before = on(NODE, VERDICT)
        wait(lambda before=before: on(NODE, VERDICT) != before)  # type: ignore[misc]


@pytest.mark.usefixtures("checked")
def test_unfit_node_is_drained_and_resumed_when_it_is_fit_by_its_own_health_check() -> None:
    lab.inject(NODE, "mig-on")
    wait(lambda: shown(NODE) == (OUT, UNFIT))
    lab.inject(NODE, "healthy")
    wait(lambda: registered(NODE) == ("IDLE", ""))


@pytest.mark.usefixtures("checked")
def test_health_check_leaves_what_an_administrator_said() -> None:
    """Of a node that it drained before, too."""
    lab.inject(NODE, "mig-on")
    wait(lambda: shown(NODE) == (OUT, UNFIT))
    by_hand("DOWN", "power supply 2")
    before = shown(NODE)
    checked_again()
    assert shown(NODE) == before
    lab.inject(NODE, "healthy")
    checked_again()
    assert shown(NODE) == before


@pytest.mark.usefixtures("checked")
def test_health_check_leaves_a_node_that_is_being_repaired(node: Node) -> None:
    SLURM.drain(node, "no NVLink")
    checked_again()
    assert shown(NODE) == (OUT, "b200kit: no NVLink")


@pytest.mark.usefixtures("checked")
def test_node_that_turned_unfit_refuses_a_job_which_waits_for_a_fit_one() -> None:
    slurm.configure((CONTROLLER, NODE), HealthCheckInterval=None)
    lab.inject(NODE, "mig-on")
    number = job()
    wait(lambda: shown(NODE) == (OUT, UNFIT))
    wait(lambda: "launch failed requeued held" in call("squeue", "--noheader", "--format=%T %r"))
    assert not runs(number)
    lab.inject(NODE, "healthy")
    slurm.configure((CONTROLLER, NODE), HealthCheckInterval=2)
    wait(lambda: registered(NODE) == ("IDLE", ""))
    call("scontrol", "release", number)
    # A requeued job has two minutes to wait.
    call("scontrol", "update", f"JobId={number}", "StartTime=now")
    wait(lambda: runs(number))


@pytest.mark.usefixtures("checked")
def test_node_that_turned_unfit_under_a_job_is_drained_at_its_end() -> None:
    slurm.configure((CONTROLLER, NODE), HealthCheckInterval=None)
    number = job()
    wait(lambda: runs(number))
    lab.inject(NODE, "mig-on")
    call("scancel", number)
    wait(lambda: shown(NODE) == (OUT, UNFIT))


@pytest.fixture
def impatient(programs: None) -> Iterator[None]:
    """A node is DOWN after seconds without an answer. Else no busy machine can make it so."""
    slurm.down_after((CONTROLLER, NODE), 5)
    yield
    slurm.down_after((CONTROLLER, NODE))


def test_node_that_slurm_lost_while_it_was_repaired_comes_back(
    impatient: None, node: Node, tmp_path: Path
) -> None:
    """The second node was taken out before; the first was lost before anybody did anything."""
    first = Node(CONTROLLER, spec(tmp_path))
    SLURM.drain(node, "no NVLink")
    for name in (CONTROLLER, NODE):
        on(name, "echo SLURMD_OPTIONS=-b > /etc/default/slurmd")
    lab.kill(NODE)
    on(CONTROLLER, "systemctl stop slurmd")
    wait(lambda: shown(NODE)[0] == "DOWN+DRAIN+NOT_RESPONDING")
    wait(lambda: shown(CONTROLLER) == ("DOWN+NOT_RESPONDING", "Not responding"))
    assert SLURM.drain(first, "does not answer") == "slurm.py: draining"
    lab.power_on(NODE)
    on(CONTROLLER, "systemctl start slurmd")
    for each in (first, node):
        wait(lambda each=each: "NOT_RESPONDING" not in shown(each.name)[0])  # type: ignore[misc]
        assert "DRAIN" in shown(each.name)[0]
        # slurmctld takes the boot to be later by what it handles a registration late. So that no
        # busy machine makes a second boot of it, pings must have come since the first.
        wait(lambda each=each: up_for(each.name) > 15)  # type: ignore[misc]
        assert SLURM.undrain(each, 100) == "slurm.py: resumed"
        wait(lambda each=each: registered(each.name) == ("IDLE", ""))  # type: ignore[misc]


def test_node_that_slurm_does_not_know_is_one_line(programs: None, tmp_path: Path) -> None:
    # One name stands for several nodes, and for all.
    for name in ("nowhere", "b200-[1-2]", "ALL"):
        other = Node(name, spec(tmp_path))
        with pytest.raises(ActionFailed, match=r"^slurm.py drain: scontrol .*") as told:
            SLURM.drain(other, "why")
        assert "\n" not in str(told.value)
        assert SLURM.status(other) is None
    assert shown(NODE)[0] == "IDLE"


@pytest.mark.parametrize(
    "why",
    [
        "GPU 2\0 has no NVLink",
        "GPU 2\nReason=fan 3\r\x1b[31m is loud",
        'a "quoted" \'reason\' with Reason=mine [root@now] State=IDLE, $(reboot) `id`"',
        "x" * 10_000,
        "Lüfter 3 \U0001f4a5 \ud800 \udcff \u2028 \u202e",
        "\0",
    ],
    ids=["nul", "lines", "quotes", "long", "unicode", "nothing"],
)
def test_reason_may_be_whatever_a_node_said(node: Node, why: str) -> None:
    SLURM.drain(node, why)
    state, reason = shown(NODE)
    assert state == OUT
    assert reason.startswith("b200kit:")
    assert reason.isprintable()
    assert SLURM.undrain(node, 100) == "slurm.py: resumed"


def test_controller_that_is_down_is_never_taken_for_no_jobs(node: Node) -> None:
    """Last: it takes a while until everybody is known to it again."""
    on(CONTROLLER, "systemctl stop slurmctld")
    try:
        assert SLURM.status(node) is None
        with pytest.raises(ActionFailed, match=r"Unable to contact slurm controller"):
            SLURM.drain(node, "no NVLink")
        with pytest.raises(ActionFailed, match=r"Unable to contact slurm controller"):
            SLURM.undrain(node, 100)
    finally:
        on(CONTROLLER, "systemctl start slurmctld")
        wait(lambda: shown(NODE)[0] != "none")
