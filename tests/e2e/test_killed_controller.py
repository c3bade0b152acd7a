"""The controller is killed in every stage, one after another; the next run finishes the node."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.driving import ROOT, Outcome, command, deploy, on

NODE = "b200-1"
# As pyinfra names them; the run is killed while each of them is at work.
STAGES = (
    "Observe",
    "Host",
    "Clock and logs",
    "Weights",
    "Driver",
    "Reboot",
    "Fabric",
    "Containers",
    "Gate unit",
    "Gate",
    "Model",
    "Serving",
    "Warm-up",
    "Gateway",
    "Smoke",
    "Live",
)
# What a stage does first on the node, so that the kill meets work under way and not its beginning;
# the stages that change nothing here are killed as they begin.
AT_WORK = {
    "Host": "test -e /etc/apt/keyrings/b200kit-vendor.asc",
    "Clock and logs": "test -e /etc/logrotate.d/b200kit",
    "Weights": "test -e /etc/systemd/system/b200-weights.service",
    "Driver": "dpkg -s nvidia-driver-pinning-580.126.20",
    "Containers": "dpkg -s libnvidia-container1",
    "Gate unit": "test -e /etc/b200kit/expect.json",
    "Serving": "ls /opt/vllm/*/bin/python3",
    "Warm-up": "systemctl is-active vllm@0 | grep -q activating",
    "Gateway": "test -e /etc/haproxy/haproxy.cfg",
    "Smoke": "pgrep -f 'pyz measure'",
}


def kill_in(stage: str) -> int:
    """Start a run, SIGKILL it inside *stage*; returns its exit status."""
    with subprocess.Popen(
        command("b200.py"),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if f"Starting operation: {stage} " in line:
                wait_for_work(stage)
                break
        run.kill()
    return run.returncode


def wait_for_work(stage: str) -> None:
    """Until the stage's work is under way, or a few seconds have passed without it."""
    if stage == "Reboot":
        while answers(lab.status()["hosts"][0]["address"]):
            time.sleep(0.02)
    else:
        sign = AT_WORK.get(stage, "true")
        on(NODE, f"for i in $(seq 200); do {sign} && break; sleep 0.02; done")


def answers(address: str) -> bool:
    """Whether sshd listens on a node."""
    try:
        socket.create_connection((address, 22), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def killed(boot: Callable[..., Any]) -> dict[str, int]:
    """One fresh node and a killed run for each stage."""
    boot("healthy")
    on(NODE, "journalctl --flush")
    return {stage: kill_in(stage) for stage in STAGES}


@pytest.fixture(scope="module")
def finished(killed: dict[str, int]) -> Outcome:
    """The run that was allowed to end."""
    return deploy()


def test_every_run_was_killed(killed: dict[str, int]) -> None:
    assert killed == dict.fromkeys(STAGES, -signal.SIGKILL)


def test_the_next_run_finishes_the_node(finished: Outcome) -> None:
    assert finished.code == 0, finished.said[-3000:]
    assert finished.outcome(NODE) == "live"


def test_and_the_run_after_it_changes_nothing(finished: Outcome) -> None:
    again = deploy()
    assert again.code == 0
    assert again.host(NODE)["changes"] == 0


def test_the_driver_was_installed_once(finished: Outcome) -> None:
    log = on(NODE, "cat /var/log/dpkg.log")
    assert len(re.findall(r" install nvidia-open:\S+ <none> 580\.126\.20-1", log)) == 1
    assert " upgrade nvidia-open" not in log


def test_the_node_was_rebooted_once(finished: Outcome) -> None:
    boots = on(NODE, "journalctl --list-boots --no-pager -q").splitlines()
    assert len(boots) == 2, boots


def test_nothing_half_done_is_left(finished: Outcome) -> None:
    assert on(NODE, "dpkg --audit") == ""
    assert on(NODE, "find /var/lib/b200kit/pending /run/b200kit/lock.json -type f") == ""
    assert on(NODE, "find /etc /usr/local /var/lib/b200kit -name '.*.????????' -type f") == ""


def test_each_replica_runs_once(finished: Outcome) -> None:
    # The brackets keep the pattern from finding the shell that looks for it.
    assert on(NODE, "pgrep -fc 'bin/vll[m] serve'") == "2"
