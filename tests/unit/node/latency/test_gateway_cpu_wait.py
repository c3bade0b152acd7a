"""The kernel's word on whether the gateway had a CPU, read from processes that really wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit.node.latency import gateway_cpu_wait
from b200kit.node.lib.readings import unmeasured
from b200kit.node.serving.gateway.haproxy import UNIT

BUSY = """
import os, sys, threading, time
os.sched_setaffinity(0, {int(sys.argv[1])})
def spin():
    while True: pass
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("on", flush=True)
spin()
"""


@pytest.fixture
def crowd() -> Iterator[list[int]]:
    """Three processes, of two threads each, that want one CPU."""
    cpu = str(max(os.sched_getaffinity(0)))
    command = [sys.executable, "-c", BUSY, cpu]
    made = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        for one in made:
            assert one.stdout is not None
            assert one.stdout.readline() == "on\n"
        yield [one.pid for one in made]
    finally:
        for one in made:
            one.kill()
            one.communicate()


def gateway_is(monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
    """The gateway's unit holds these processes."""
    found = {UNIT: {"ControlGroup": "/gateway"}}
    monkeypatch.setattr(
        gateway_cpu_wait, "units", lambda names: {name: found[name] for name in names}
    )
    monkeypatch.setattr(gateway_cpu_wait, "members", lambda group: [*pids] if group else [])


def test_thread_that_waits_most_is_what_counts(
    crowd: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway_is(monkeypatch, *crowd[:2])
    before, start = gateway_cpu_wait.delays_ms(), time.perf_counter()
    time.sleep(0.6)
    after, wall_ms = gateway_cpu_wait.delays_ms(), (time.perf_counter() - start) * 1000
    # Two threads each, of which one sleeps; of three that want a CPU each waits two thirds.
    assert len(before) == len(after) == 4
    assert 0.3 < gateway_cpu_wait.share(before, after, wall_ms) <= 1.1


def test_process_that_sleeps_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as idle:
        try:
            while "(sleep) S" not in Path(f"/proc/{idle.pid}/stat").read_text():
                time.sleep(0.01)
            gateway_is(monkeypatch, idle.pid)
            before = gateway_cpu_wait.delays_ms()
            time.sleep(0.2)
            assert gateway_cpu_wait.share(before, gateway_cpu_wait.delays_ms(), 200.0) == 0
        finally:
            idle.kill()


def test_gateway_that_does_not_run_is_unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway_is(monkeypatch)
    assert gateway_cpu_wait.delays_ms() == unmeasured("ValueError: haproxy.service does not run")


def test_gateway_of_other_threads_than_before_is_unmeasured() -> None:
    found = gateway_cpu_wait.share({"1": 0.0}, {"2": 5.0}, 100.0)
    assert found == unmeasured("haproxy.service was reloaded meanwhile: its threads are others")
    assert gateway_cpu_wait.share({"1": 1.0, "2": 3.0}, {"1": 2.0, "2": 53.0}, 100.0) == 0.5


@pytest.mark.parametrize("order", [1, -1])
def test_what_could_not_be_read_stays_so(order: int) -> None:
    before, after = [unmeasured("no such unit"), {"1": 0.0}][::order]
    assert gateway_cpu_wait.share(before, after, 100.0) == unmeasured("no such unit")
