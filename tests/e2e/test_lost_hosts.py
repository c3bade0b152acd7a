"""Hosts that cannot be reached, changed their key, die, hang or cannot get at what they need.

One run over six nodes, each lost in its own way: each is named, the rest finish, and the next
run completes those that are back.
"""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest

import tests.lab as lab
from tests.e2e.conftest import Boot
from tests.e2e.driving import ROOT, Outcome, command, deploy

# One hung command may take this long; what else a stage does needs a tenth of it.
HUNG_S = 60
LIMITS = ("--data", f"stage_timeout_s={HUNG_S}")
LOST = ("b200-2", "b200-3", "b200-4", "b200-5", "b200-6")


@pytest.fixture(scope="module")
def run(boot: Boot) -> Outcome:
    """Six fresh nodes; five of them are lost, each in its own way."""
    boot("healthy", *["healthy"] * len(LOST))
    lab.unplug("b200-2")
    lab.new_host_key("b200-3")
    lab.block_mirror("b200-6")
    watcher = threading.Thread(target=_lose_two_in_the_middle)
    watcher.start()
    outcome = deploy("b200.py", *LIMITS)
    watcher.join()
    return outcome


def _lose_two_in_the_middle() -> None:
    """Cut the power of one node and freeze another as soon as the driver is being installed."""
    for name, act in (("b200-4", lab.kill), ("b200-5", lab.freeze)):
        _wait_until_installing(name)
        act(name)


def _wait_until_installing(name: str) -> None:
    watched = "until [ -e /var/log/b200kit-apt.log ]; do sleep 0.02; done"
    lab.run(name, ["sh", "-c", watched])


def test_the_others_finish_and_the_run_fails(run: Outcome) -> None:
    assert run.code == 1
    assert run.outcome("b200-1") == "live", run.described("b200-1")


def test_host_without_a_cable_is_unreachable(run: Outcome) -> None:
    assert run.outcome("b200-2") == "unreachable", run.described("b200-2")


def test_host_with_another_key_is_refused_as_such(run: Outcome) -> None:
    record = run.host("b200-3")
    assert record["outcome"] == "unreachable"
    assert "host key" in record["error"].lower(), run.described("b200-3")
    assert record["commands"] == 0


@pytest.mark.parametrize("name", ["b200-4", "b200-5"])
def test_host_lost_in_the_middle_failed_at_the_stage_it_was_in(run: Outcome, name: str) -> None:
    record = run.host(name)
    assert record["outcome"] == "failed", run.described(name)
    assert record["stage"] in ("host", "driver"), run.described(name)


def test_hung_host_is_told_from_a_dead_one(run: Outcome) -> None:
    assert f"no answer in {HUNG_S} s" in run.host("b200-5")["error"], run.described("b200-5")
    assert "connection lost" in run.host("b200-4")["error"], run.described("b200-4")


def test_failed_list_can_be_given_back(run: Outcome) -> None:
    assert run.directory is not None
    listed = (run.directory / "failed.txt").read_text().split()
    assert listed == list(LOST)


def test_node_without_a_route_says_so(run: Outcome) -> None:
    record = run.host("b200-6")
    assert (record["outcome"], record["stage"]) == ("failed", "ready"), run.described("b200-6")
    assert "connect" in record["error"] or "unreachable" in record["error"], record["error"]


def test_rerun_after_the_causes_are_gone_completes(run: Outcome) -> None:
    lab.plug("b200-2")
    lab.power_on("b200-4")
    lab.thaw("b200-5")
    lab.unblock_mirror("b200-6")
    names = [name for name in LOST if name != "b200-3"]
    limits = [word for name in names for word in ("--limit", name)]
    back = deploy("b200.py", *limits)
    assert {name: back.outcome(name) for name in names} == dict.fromkeys(names, "live")
    assert back.code == 0, back.said[-3000:]


def test_two_runs_at_once_do_not_share_a_node(run: Outcome) -> None:
    with subprocess.Popen(
        command("b200.py", "--limit", "b200-1", "--data", "smoke_always=True"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        for line in holder.stdout:
            if "Starting operation: Smoke" in line:
                break
        # It stands still with the node's lock, so that it cannot end before the other begins.
        holder.send_signal(signal.SIGSTOP)
        second = deploy("b200.py", "--limit", "b200-1")
        holder.send_signal(signal.SIGCONT)
        holder.stdout.read()
    assert holder.returncode == 0
    assert second.code == 1
    assert "has been working on this node since" in second.host("b200-1")["error"]
