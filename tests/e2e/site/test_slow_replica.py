"""One replica of four that is slow, and one that stands still: found and named by the smoke test.

A replica is slowed down by stopping its processes for a part of the time, as a clock that is too
low or a neighbour on its CPUs would.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import SHORT, Boot
from tests.e2e.driving import Outcome, deploy, on

NODE, SLOW = "b200-1", 2
# What a lab's nodes share makes them differ by more than those of metal.
SMOKE = {
    **SHORT, "requests": 30, "rate": 20.0, "direct_requests": 24, "replica_slowdown": 0.5,
    "stall_ms": 1500.0,
}  # fmt: skip
DATA = ("--data", "replicas=4", "--data", "tensor_parallel=2")


@pytest.fixture(scope="module")
def serving(boot: Boot) -> None:
    """A node with four replicas."""
    boot("healthy")
    done = deploy("b200.py", *DATA, "--data", f"smoke={json.dumps(SHORT)}")
    assert done.outcome(NODE) == "live", done.said[-4000:]


@contextmanager
def stopped_now_and_then(stop_s: float, go_s: float) -> Iterator[None]:
    """The slow replica's processes stopped and going in turn, until the end of the block."""
    procs = f"$(cat /sys/fs/cgroup/system.slice/system-vllm.slice/vllm@{SLOW}.service/cgroup.procs)"
    turn = f"kill -STOP {procs}; sleep {stop_s}; kill -CONT {procs}; sleep {go_s}"
    on(NODE, f"systemd-run --quiet --unit slow sh -c 'while :; do {turn}; done'")
    try:
        yield
    finally:
        on(NODE, f"systemctl stop slow; kill -CONT {procs}")


def measured(entry: str) -> Outcome:
    """A run whose smoke test finds fault."""
    done = deploy(entry, *DATA, "--data", f"smoke={json.dumps(SMOKE)}")
    assert (done.code, done.outcome(NODE)) == (1, "failed"), done.said[-4000:]
    return done


def test_slow_replica_is_named_with_its_factor(serving: None) -> None:
    # Limits of the smoke test are on the node: this run brings them there.
    with stopped_now_and_then(0.02, 0.005):
        done = measured("b200.py")
    smoke = done.host(NODE)["smoke"]
    slower = [each for each in smoke["replicas"]["compared"] if each["slower"]]
    assert f"direct-{SLOW}" in {each["path"] for each in slower}
    assert f"direct-{SLOW}: slower than the other replicas" in done.described(NODE)


def test_stalling_replica_is_named_with_a_request(serving: None) -> None:
    # Whenever it begins, some request of the five seconds waits for longer than the limit.
    with stopped_now_and_then(4, 3):
        done = measured("smoke.py")
    assert f"direct-{SLOW}: request" in done.described(NODE)
