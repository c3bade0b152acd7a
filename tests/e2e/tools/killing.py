"""A controller that dies in the middle of its work: SIGKILL inside one stage of a run."""

from __future__ import annotations

import socket
import subprocess
import time

import tests.lab as lab
from tests.e2e.driving import ROOT, command, on

# As pyinfra names them.
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
# Where a kill meets work on the node; in the driver's stage the golden path kills one.
AT_WORK = ("Host", "Weights", "Reboot", "Containers", "Serving", "Warm-up", "Gateway", "Smoke")
# What a stage does first on the node, so that the kill meets work under way and not its beginning;
# the stages that change nothing here are killed as they begin.
_AT_WORK = {
    "Host": "test -e /etc/apt/sources.list.d/b200kit-vendor.sources",
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


def kill_in(stage: str, name: str, *arguments: str) -> int:
    """Start a run, SIGKILL it while *stage* is at work on a host; returns its exit status."""
    with subprocess.Popen(
        command("b200.py", *arguments),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if f"Starting operation: {stage} " in line:
                _wait_for_work(stage, name)
                break
        run.kill()
    return run.returncode


def _wait_for_work(stage: str, name: str) -> None:
    """Until the stage's work is under way, or a few seconds have passed without it."""
    if stage == "Reboot":
        address = next(h["address"] for h in lab.status()["hosts"] if h["name"] == name)
        while _answers(address):
            time.sleep(0.02)
    else:
        sign = _AT_WORK.get(stage, "true")
        on(name, f"for i in $(seq 200); do {sign} && break; sleep 0.02; done")


def _answers(address: str) -> bool:
    """Whether sshd listens on a node."""
    try:
        socket.create_connection((address, 22), timeout=1).close()
    except OSError:
        return False
    return True


def leftovers(name: str) -> str:
    """What a run that was cut off leaves, and the next one must have cleared away; "" for none."""
    return on(
        name,
        "dpkg --audit; find /var/lib/b200kit/pending /run/b200kit/lock.json -type f 2>/dev/null; "
        "find /etc /usr/local /var/lib/b200kit -name '.*.????????' -type f",
    )
