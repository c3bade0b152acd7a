"""One reboot, by boot id and deadline; none that would not help, none a second time for nothing."""

from __future__ import annotations

import base64
import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api.exceptions import ConnectError

from b200kit.node.state.drift import PENDING_REBOOT
from b200kit.operations import reboot, reboot_policy
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import Remote, RemoteError
from tests.fake.machine import Machine
from tests.messages import TIME, assert_message, raises_message
from tests.unit.nodes import DRIVER, bare, look

OLD, NEW = "6.1.0-28-amd64", "6.1.0-30-amd64"
REBOOT = "systemctl reboot"


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """No test waits."""
    clock = Clock()
    monkeypatch.setattr(reboot, "time", clock)
    return clock


def answering(monkeypatch: pytest.MonkeyPatch, *errors: Exception | None) -> None:
    """What each attempt to reconnect ends with; the last one stands for all that follow."""
    left = list(errors)

    def reconnect(remote: Remote) -> None:
        del remote
        error = left.pop(0) if len(left) > 1 else left[0]
        if error:
            raise error

    monkeypatch.setattr(Remote, "reconnect", reconnect)


def refused() -> ConnectError:
    """What pyinfra makes of a closed port: paramiko's error for each address is below."""
    below = OSError(None, "Unable to connect to port 22 on 10.0.0.1")
    below.errors = {("10.0.0.1", 22): OSError(errno.ECONNREFUSED, "x")}  # type: ignore[attr-defined]
    error = ConnectError("Could not connect ([Errno None] Unable to connect to port 22)")
    error.__context__ = below
    return error


SILENT = ConnectError("SSH error (timed out)")
OTHER_KEY = ConnectError("SSH host key error (Host key for 10.0.0.1 does not match.)")


@pytest.fixture
def node(tmp_path: Path) -> tuple[Node, Machine]:
    """A node with the driver installed for its kernel and not loaded yet."""
    node, machine = bare(tmp_path, reboot_deadline_s=60, console="https://bmc-n01")
    machine.packages["nvidia-open"] = {"version": f"{DRIVER}-1", "status": "ii", "hold": True}
    machine.readings["driver_module"] = module({OLD: DRIVER}, OLD)
    look(node)
    return node, machine


def module(built: dict[str, str | None], default: str) -> dict[str, Any]:
    """The reading of a node that runs the old kernel."""
    return {"running_kernel": OLD, "built_for": built, "default_kernel": default}


def test_node_comes_back_with_another_boot_id(
    node: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, SILENT, refused(), None)
    message = reboot.reboot_and_wait(node[0])
    assert_message(message)
    assert len(node[1].ran(REBOOT)) == 1


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (SILENT, "no answer"),
        (refused(), "refuses connections"),
        (ConnectError("Authentication error (username=root)"), "answers and lets nobody in"),
    ],
)
def test_node_that_does_not_come_back_is_told_with_deadline_sight_and_console(
    node: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch, error: ConnectError, seen: str
) -> None:
    answering(monkeypatch, error)
    with raises_message(RemoteError):
        reboot.reboot_and_wait(node[0])


def test_node_that_serves_has_time_for_its_open_requests_besides(
    node: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert node[0].state
    node[0].state["units"] = {"haproxy.service": {"active": "active"}}
    answering(monkeypatch, SILENT)
    with raises_message(RemoteError):
        reboot.reboot_and_wait(node[0])


def test_node_that_goes_on_in_the_same_boot_never_rebooted(
    node: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    node[1].answers[REBOOT] = (True, "")
    answering(monkeypatch, None)
    with raises_message(RemoteError):
        reboot.reboot_and_wait(node[0])


def test_other_host_key_is_named_at_once_and_not_accepted(
    node: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    answering(monkeypatch, SILENT, OTHER_KEY)
    with raises_message(RemoteError):
        reboot.reboot_and_wait(node[0])
    assert clock.now == 1002.0


def test_progress_says_for_whom_how_long_and_what_is_seen(
    node: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    change = reboot.change(node[0], ["x"])
    assert change.progress_text is not None
    assert_message(change.progress_text(135))
    node[1].answers[REBOOT] = (True, "")
    answering(monkeypatch, None)
    with pytest.raises(RemoteError):
        change.apply(node[0])
    assert_message(change.progress_text(1))


def test_kernel_without_the_module_is_not_booted(node: tuple[Node, Machine]) -> None:
    node[1].readings["driver_module"] = module({OLD: DRIVER, NEW: None}, NEW)
    look(node[0])
    with raises_message(StageFailed):
        reboot.reboot_reasons_or_fail(node[0])
    assert node[1].ran(REBOOT) == []


def test_changed_boot_configuration_does_not_boot_it_either(node: tuple[Node, Machine]) -> None:
    node[1].loaded = DRIVER
    node[1].readings["driver_module"] = module({OLD: DRIVER, NEW: None}, NEW)
    node[1].write(PENDING_REBOOT)
    look(node[0])
    with pytest.raises(StageFailed, match="Not rebooted"):
        reboot.reboot_reasons_or_fail(node[0])


def test_node_that_needs_no_reboot_is_not_asked_what_would_boot(
    node: tuple[Node, Machine],
) -> None:
    node[1].loaded = DRIVER
    node[1].readings["driver_module"] = module({OLD: DRIVER, NEW: None}, NEW)
    look(node[0])
    assert reboot.reboot_reasons_or_fail(node[0]) == []


@pytest.fixture
def rebooted(
    node: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], tuple[Node, Machine]]:
    """Reboots the node as a run does, up to the look afterwards."""

    def run() -> tuple[Node, Machine]:
        answering(monkeypatch, None)
        reboot.reboot_and_wait(node[0])
        look(node[0])
        return node

    return run


def note(machine: Machine) -> dict[str, Any]:
    """The note on the node."""
    content = base64.b64decode(machine.files[reboot_policy.NOTE]["content"])
    document: dict[str, Any] = json.loads(content)
    return document


def test_reboot_that_brought_the_driver_is_noted_so(
    rebooted: Callable[[], tuple[Node, Machine]],
) -> None:
    node, machine = rebooted()
    reboot.require_driver(node, 200.4)
    assert note(machine)["outcome"] == reboot_policy.LOADED
    machine.loaded = None
    look(node)
    assert reboot_policy.took_s(node.state or {}) == 200.4
    assert_message(*reboot.reboot_reasons_or_fail(node))


def test_module_that_the_kernel_refuses_is_told_with_its_log(
    node: tuple[Node, Machine], rebooted: Callable[[], tuple[Node, Machine]]
) -> None:
    node[1].refuses_driver = True
    node[1].kernel_log = ["Failed to insert module 'nvidia': Key was rejected by service"]
    rebooted()
    with raises_message(StageFailed):
        reboot.require_driver(node[0], 200.4)


def test_next_run_does_not_reboot_again_while_nothing_changed(
    node: tuple[Node, Machine], rebooted: Callable[[], tuple[Node, Machine]]
) -> None:
    node[1].refuses_driver = True
    rebooted()
    with raises_message(StageFailed, TIME=TIME):
        reboot.reboot_reasons_or_fail(node[0])
    assert len(node[1].ran(REBOOT)) == 1


@pytest.mark.parametrize("what", ["built again", "boot configuration"])
def test_next_run_reboots_when_something_changed(
    node: tuple[Node, Machine], rebooted: Callable[[], tuple[Node, Machine]], what: str
) -> None:
    node[1].refuses_driver = True
    rebooted()
    if what == "built again":
        node[1].readings["driver_module"] = module({OLD: DRIVER, NEW: DRIVER}, NEW)
    else:
        node[1].write(PENDING_REBOOT)
    look(node[0])
    assert_message(*reboot.reboot_reasons_or_fail(node[0]))


def test_run_that_was_killed_before_its_reboot_used_up_nothing(
    node: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    node[1].answers[REBOOT] = (False, "killed")
    answering(monkeypatch, None)
    with pytest.raises(RemoteError):
        reboot.reboot_and_wait(node[0])
    look(node[0])
    assert_message(*reboot.reboot_reasons_or_fail(node[0]))
