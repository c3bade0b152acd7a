"""One replica of four that is slow: named by the smoke test, and ejected by the watchdog.

For the smoke test a replica is slowed down by stopping its processes for a part of the time, as a
clock that is too low or a neighbour on its CPUs would. For the watchdog, which reads the engine's
own figures, its engine takes longer for each token (the stand-in keeps its times over a stop).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.conftest import SHORT, Boot
from tests.e2e.driving import Outcome, cursor, deploy, on
from tests.e2e.tools.outside import Load
from tests.e2e.tools.watching import Watched

pytestmark = pytest.mark.long

NODE, SLOW = "b200-1", 2
# What a lab's nodes share makes them differ by more than those of metal.
SMOKE = {
    **SHORT, "requests": 30, "rate": 20.0, "direct_requests": 24, "replica_slowdown": 0.5,
    "stall_ms": 1500.0,
}  # fmt: skip
DATA = ("--data", "replicas=4", "--data", "tensor_parallel=2")
LIVE = (*DATA, "--data", f"smoke={json.dumps(SHORT)}")
WATCHDOG = {"interval_s": 2, "deadline_s": 120, "stall_s": 600}
UNIT = f"vllm@{SLOW}.service"
FOLDER = f"/run/systemd/system/{UNIT}.d"


@pytest.fixture(scope="module")
def serving(boot: Boot) -> None:
    """A node with four replicas."""
    boot("healthy")
    done = deploy("b200.py", *LIVE)
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


def slower(itl_ms: int) -> str:
    """A shell line that gives the replica's engine this time a token from its next start on."""
    line = f"[Service]\\nEnvironment=STANDIN_ITL_MS={itl_ms}\\n"
    return f"mkdir -p {FOLDER}; printf '{line}' > {FOLDER}/slow.conf; systemctl daemon-reload"


def test_watchdog_drains_and_restarts_it_and_nobody_else(serving: None, tmp_path: Path) -> None:
    done = deploy("b200.py", *LIVE, "--data", f"watchdog={json.dumps(WATCHDOG)}")
    assert done.outcome(NODE) == "live", done.said[-4000:]
    seen, here = Watched(NODE, (0, 1, 2, 3)), cursor(NODE)
    with Load(NODE, tmp_path, 8, 60) as load:
        on(NODE, f"{slower(60)}; systemctl restart {UNIT}")
        seen.until(lambda: seen.out() == set())
        found = seen.until(lambda: seen.out() == {SLOW})
        on(NODE, f"rm -r {FOLDER}; systemctl daemon-reload")
        back = seen.until(lambda: seen.out() == set())
        load.wait_for_more(16)
    said = seen.said(here)
    assert f"vllm{SLOW}: probe: slow: ITL" in said, said
    assert not [name for name in (0, 1, 3) if f"vllm{name}: probe: slow" in said], said
    assert [one for one in load.streams if one.was_lost] == []
    print(f"slow replica: out after {found:.1f} s, back {back:.1f} s after; {len(load.streams)}")
