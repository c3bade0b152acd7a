"""The bring-up on the node: looks, acts, waits and reports, by readings made up here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.fabric import bring_up
from b200kit.node.state.mend import MANAGER
from b200kit.run import zipapp
from tests.messages import assert_message
from tests.unit import paths, states
from tests.unit.node.fabric.test_sequence import expectation, node

State = dict[str, Any]
START = ("systemctl", "start", "--no-block", MANAGER)
ACTIVE = f"units[{MANAGER}].active"


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds since the test began."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """No test here waits for real."""
    clock = Clock()
    monkeypatch.setattr(bring_up, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that were run; all succeed and say nothing."""
    log: list[list[str]] = []

    def run(argv: list[str]) -> str:
        log.append(argv)
        return ""

    monkeypatch.setattr(bring_up, "command", run)
    return log


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bring_up.BringUp]:
    """A bring-up that sees these states one after another, and the last from then on."""

    def start(*seen: State, done: list[tuple[str, ...]] | None = None) -> bring_up.BringUp:
        rest = iter(seen)
        last = [seen[-1]]

        def look(*_: Any) -> State:
            last[0] = next(rest, last[0])
            return last[0]

        monkeypatch.setattr(bring_up, "observe", look)
        monkeypatch.setattr(bring_up, "observe_again", look)
        return bring_up.BringUp(expectation(), done or ())

    return start


def acts(log: list[list[str]]) -> list[tuple[str, ...]]:
    """What was run besides reading journals."""
    return [tuple(argv) for argv in log if argv[0] != "journalctl"]


Walk = Callable[..., bring_up.BringUp]


def test_node_that_is_ready_is_left_alone(walk: Walk, ran: list[list[str]], clock: Clock) -> None:
    at = walk(node()).position
    assert (at.name, ran, clock.now) == ("done", [], 0.0)


def test_module_is_loaded_and_the_next_state_returned_at_once(
    walk: Walk, ran: list[list[str]], clock: Clock
) -> None:
    without = node({"modules.ib_umad": None, ACTIVE: "failed"})
    walking = walk(without, node({ACTIVE: "failed"}))
    at = walking.stay(walking.position, 5, helps=True)
    assert (at.name, acts(ran)) == ("fabric manager", [("modprobe", "ib_umad")])
    assert clock.now <= bring_up.PAUSE_S
    message = walking.document_of(at, moved=True)
    assert (message["state"], message["moved"], message["done"]) == (
        "fabric manager",
        True,
        [["modprobe", "ib_umad"]],
    )


def test_unit_is_started_once_however_often_the_program_is_called(
    walk: Walk, ran: list[list[str]]
) -> None:
    failed = node({ACTIVE: "failed", "gpus[*].fabric.state": 1})
    first = walk(failed)
    first.stay(first.position, 5, helps=True)
    assert acts(ran) == [START]
    ran.clear()
    second = walk(failed, done=first.done)
    second.stay(second.position, 5, helps=True)
    assert acts(ran) == []


def test_slice_ends_with_the_node_where_it_was(walk: Walk, clock: Clock) -> None:
    walking = walk(node({"gpus[*].fabric.state": 2}))
    at = walking.stay(walking.position, 5, helps=True)
    assert (at.name, clock.now) == ("registration", 5.0)


def test_what_an_act_did_is_seen_even_when_there_is_no_time(walk: Walk) -> None:
    walking = walk(node({"modules.ib_umad": None}), node())
    assert walking.stay(walking.position, 0, helps=True).name == "done"


def test_what_a_command_said_is_part_of_the_line(
    walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(argv: list[str]) -> str:
        raise OSError(f"{argv[0]} exited 1: modprobe: FATAL: Module ib_umad not found")

    monkeypatch.setattr(bring_up, "command", refuse)
    walking = walk(node({"modules.ib_umad": None}))
    line = walking.document_of(walking.stay(walking.position, 1, helps=True), moved=False)["line"]
    assert_message(line)


def test_journal_of_the_unit_is_part_of_the_line(
    walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"Starting {MANAGER}...\nfailed to configure all GPUs\n{MANAGER}: Failed with result x\n"
    monkeypatch.setattr(bring_up, "command", lambda argv: said if argv[0] == "journalctl" else "")
    walking = walk(node({ACTIVE: "failed"}))
    line = walking.document_of(walking.position, moved=False)["line"]
    assert_message(line)


def test_masked_unit_is_neither_started_nor_asked(walk: Walk, ran: list[list[str]]) -> None:
    walking = walk(node({ACTIVE: "inactive", f"units[{MANAGER}].load": "masked"}))
    message = walking.document_of(walking.stay(walking.position, 3, helps=True), moved=False)
    assert_message(message["line"])
    assert ran == []


def test_gate_waits_through_the_states_and_helps_in_none(
    walk: Walk, monkeypatch: pytest.MonkeyPatch, ran: list[list[str]]
) -> None:
    seen = iter(
        [node({ACTIVE: "activating"}), node({"gpus[2].fabric.state": 2}), node(), node(), node()]
    )
    monkeypatch.setattr(bring_up, "observe_again", lambda *_: next(seen))
    monkeypatch.setattr(bring_up, "observe", lambda _: next(seen))
    assert bring_up.wait(expectation(), 60).name == "done"
    assert ran == []


def test_gate_does_not_wait_for_what_no_time_brings(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    away = node({"pci.gpus[3]": None})
    monkeypatch.setattr(bring_up, "observe", lambda _: away)
    assert bring_up.wait(expectation(), 60).name == "gpus on the bus"
    assert clock.now == 0.0


def test_states_that_nvml_alone_can_end_read_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Reader:
        """NVML's answer."""

        def __init__(self, timeout: float) -> None:
            assert timeout > 0

        def result(self) -> State:
            """What it says now."""
            return {"gpus": []}

    def no_look(_: Any) -> State:
        raise AssertionError("the whole node is read")

    before = node({"gpus[2].fabric.state": 2})
    monkeypatch.setattr(bring_up, "Worker", Reader)
    monkeypatch.setattr(bring_up, "observe", lambda _: before)
    at = bring_up.BringUp(expectation()).position
    assert at.name == "registration"
    monkeypatch.setattr(bring_up, "observe", no_look)
    again = bring_up.observe_again(expectation(), before, at)
    assert (again["gpus"], again["units"]) == ([], before["units"])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The node program as it is shipped."""
    path = tmp_path_factory.mktemp("program") / "node.pyz"
    path.write_bytes(zipapp.build()[0])
    return path


def call(program: Path, stdin: str) -> subprocess.CompletedProcess[str]:
    """The program's answer to a request."""
    argv = [sys.executable, "-I", str(program), "bring-up", "--slice", "0"]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("no_nvml")
def test_machine_without_a_gpu_is_stuck_at_the_beginning(program: Path) -> None:
    done = call(program, json.dumps({"expectation": expectation()}))
    assert done.returncode == 0, done.stderr
    message = json.loads(done.stdout)
    assert (message["state"], message["moved"], message["done"]) == ("gpus on the bus", False, [])
    assert_message(message["line"])


@pytest.mark.parametrize("stdin", ["", "{", "[]", "{}", '{"expectation": {}, "done": [1]}'])
def test_request_that_cannot_be_used_is_refused(program: Path, stdin: str) -> None:
    done = call(program, stdin)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the request" in done.stderr


def test_made_up_looks_are_what_a_node_would_show() -> None:
    assert set(bring_up.LOOKED_AT) < set(states.ready(states.healthy()))
    assert paths.at(node(), paths.parse("fabric_manager.nvlsm_installed")) is True
