"""Replicas become fewer and larger, and more and smaller, on a node that serves: none overlap."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, deploy, on

NODE = "b200-1"
CHECK = "placement.gpus"
WELL = "pass: every replica has the GPUs that the layout gives it"
SMALL = ("--data", "replicas=4", "--data", "tensor_parallel=2")
GIVEN = "tr '\\0' '\\n' </proc/$(systemctl show -P MainPID vllm@{}.service)/environ | sed -n {}"


def units(replicas: int) -> list[str]:
    """The units of so many replicas."""
    return [f"vllm@{number}.service" for number in range(replicas)]


def property_of(unit: str, name: str) -> int:
    """A time stamp or a process id of a unit, as systemd has it."""
    return int(on(NODE, f"systemctl show -P {name} {unit}"))


def judged(outcome: Outcome) -> str:
    """What the proof says of the GPUs that the replicas were started with."""
    findings = outcome.host(NODE)["verdict"]["findings"]
    return "; ".join(f"{f['status']}: {f['summary']}" for f in findings if f["check"] == CHECK)


def assert_each_began_when_the_last_had_ended(replicas: int, before: int) -> None:
    """By systemd's clock: no replica was started while one of the old groups still ran."""
    old, now = units(min(before, replicas)), units(replicas)
    ended = max(property_of(unit, "InactiveEnterTimestampMonotonic") for unit in old)
    began = min(property_of(unit, "ExecMainStartTimestampMonotonic") for unit in now)
    assert 0 < ended < began
    given = [on(NODE, GIVEN.format(n, "s/^CUDA_VISIBLE_DEVICES=//p")) for n in range(replicas)]
    assert len({gpu for gpus in given for gpu in gpus.split(",")}) == 8


@pytest.fixture(scope="module")
def serving(live: Live) -> Outcome:
    """Two replicas of four GPUs each."""
    live(1)
    outcome = deploy()
    assert outcome.code == 0, outcome.said[-3000:]
    assert judged(outcome) == WELL
    return outcome


@pytest.fixture(scope="module")
def smaller(serving: Outcome) -> Outcome:
    """Four of two are asked for while it is in rotation: it is drained first."""
    return deploy("b200.py", *SMALL)


def test_check_tells_that_replicas_have_the_gpus_of_others(serving: Outcome) -> None:
    checked = deploy("check.py", *SMALL)
    assert checked.code == 1
    assert "vllm@0.service: " in judged(checked)
    assert "which the layout gives others" in judged(checked)


def test_more_and_smaller_replicas_start_when_the_old_ones_have_ended(smaller: Outcome) -> None:
    assert smaller.code == 0, smaller.said[-3000:]
    assert judged(smaller) == WELL
    assert_each_began_when_the_last_had_ended(replicas=4, before=2)


def test_fewer_and_larger_replicas_start_when_the_old_ones_have_ended(smaller: Outcome) -> None:
    larger = deploy("b200.py")
    assert larger.code == 0, larger.said[-3000:]
    assert judged(larger) == WELL
    assert_each_began_when_the_last_had_ended(replicas=2, before=4)
    assert on(NODE, "ls /etc/vllm").split() == ["replica-0.yaml", "replica-1.yaml"]
    again = deploy("b200.py")
    assert [stage for stage in again.host(NODE)["stages"] if stage["changes"]] == []
