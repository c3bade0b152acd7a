"""The kernel's word on whether the gateway had a CPU."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from b200kit.node.latency import gateway_counters
from b200kit.node.lib.readings import unmeasured
from b200kit.node.serving.gateway.haproxy import UNIT
from b200kit.node.state.view import Unmeasured
from tests.messages import assert_message

WAITED_NS = {"11": (4_000_000, 5_000_000), "12": (1_000_000, 301_000_000), "21": (0, 60_000_000)}
"""Nanoseconds that each thread of two processes had waited for a CPU, at first and later."""


def schedstat(proc: Path, moment: int) -> None:
    """Let the kernel tell of those threads as it documents it."""
    for thread, waited in WAITED_NS.items():
        folder = proc / f"{thread[0]}0" / "task" / thread
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"123456789 {waited[moment]} 42\n")


def gateway_is(monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
    """The gateway's unit holds these processes."""
    found = {UNIT: {"ControlGroup": "/gateway"}}
    monkeypatch.setattr(
        gateway_counters, "units", lambda names: {name: found[name] for name in names}
    )
    monkeypatch.setattr(gateway_counters, "members", lambda group: [*pids] if group else [])


def test_thread_that_waits_most_is_what_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway_is(monkeypatch, 10, 20)
    monkeypatch.setattr(gateway_counters, "PROC", tmp_path)
    schedstat(tmp_path, 0)
    before = gateway_counters.delays_ms()
    schedstat(tmp_path, 1)
    after = gateway_counters.delays_ms()
    assert before == {"11": 4.0, "12": 1.0, "21": 0.0}
    assert gateway_counters.share(before, after, 600.0) == 0.5


def test_every_thread_of_a_real_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As this kernel writes it, not as we think that it does."""
    gateway_is(monkeypatch, os.getpid())
    found = gateway_counters.delays_ms()
    assert set(found) >= {str(os.getpid())}
    assert all(isinstance(waited, float) and waited >= 0 for waited in found.values())


def test_process_that_sleeps_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as idle:
        try:
            while "(sleep) S" not in Path(f"/proc/{idle.pid}/stat").read_text():
                time.sleep(0.01)
            gateway_is(monkeypatch, idle.pid)
            before = gateway_counters.delays_ms()
            time.sleep(0.2)
            assert gateway_counters.share(before, gateway_counters.delays_ms(), 200.0) == 0
        finally:
            idle.kill()


def test_gateway_that_does_not_run_is_unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway_is(monkeypatch)
    assert_message(gateway_counters.delays_ms()["unmeasured"])


def test_gateway_of_other_threads_than_before_is_unmeasured() -> None:
    found = gateway_counters.share({"1": 0.0}, {"2": 5.0}, 100.0)
    assert isinstance(found, Unmeasured)
    assert_message(found.reason)
    assert gateway_counters.share({"1": 1.0, "2": 3.0}, {"1": 2.0, "2": 53.0}, 100.0) == 0.5


@pytest.mark.parametrize("order", [1, -1])
def test_what_could_not_be_read_stays_so(order: int) -> None:
    before, after = [unmeasured("no such unit"), {"1": 0.0}][::order]
    assert gateway_counters.share(before, after, 100.0) == Unmeasured("no such unit")
