"""The power cycle's order, its deadlines and what a killed run finds; no power is switched here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.keys.reprovision import Bmc
from b200kit.operations import reboot
from b200kit.reprovision import power
from b200kit.reprovision.actions import ActionFailed, ActionRefused, power_cycle
from b200kit.reprovision.actions.power_cycle import ACTION
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.run.node import Node
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.unit.nodes import connected
from tests.unit.operations.test_reboot import Clock

BMC = Bmc(address="https://bmc", user="u", password=SecretRef(env="X"), graceful_s=30, switch_s=10)


class Switch:
    """A controller: how many looks a shutdown or a cut takes, None for never."""

    def __init__(self, down: int | None = 1, cut: int | None = 1, state: str = "on") -> None:
        self.asked: list[str] = []
        self.after = {"shut down": down, "cut": cut, "on": 1}
        self.now, self.next, self.looks = state, state, 0
        self.can_shut_down = True
        self.silent = 0

    def _ask(self, what: str, to: str) -> None:
        self.asked.append(what)
        looks = self.after[what]
        self.next, self.looks = (self.now, 0) if looks is None else (to, looks)

    def state(self) -> str:
        if self.silent:
            self.silent -= 1
            raise ActionRefused("its controller does not answer")
        self.looks -= 1
        if self.looks <= 0:
            self.now = self.next
        return self.now

    def shut_down(self) -> None:
        if not self.can_shut_down:
            raise ActionRefused("its controller offers no reset of type GracefulShutdown")
        self._ask("shut down", "off")

    def cut(self) -> None:
        self._ask("cut", "off")

    def switch_on(self) -> None:
        self._ask("on", "on")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(power_cycle, "time", clock)
    return clock


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Node:
    del clock
    node = connected(Machine(tmp_path))
    monkeypatch.setattr(power, "bmc_of", lambda node: BMC)
    waited = SimpleNamespace(calls=[])

    def back(node: Node, before: str | None, limit: float, after: str) -> str:
        waited.calls.append((before, limit, after))
        return "back after 3 s"

    monkeypatch.setattr(reboot, "wait_until_back", back)
    return node


def cycle(
    node: Node, switch: Switch, monkeypatch: pytest.MonkeyPatch, boot_id: str | None = "b1"
) -> tuple[str, list[str]]:
    said: list[str] = []
    monkeypatch.setattr(power, "of", lambda node: switch)
    return ACTION.perform(
        node, IntentLine(step="action", id="a1", boot_id=boot_id), said.append
    ), said


def test_operating_system_is_asked_first(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = Switch(down=5)
    message, _ = cycle(node, switch, monkeypatch)
    assert switch.asked == ["shut down", "on"]
    assert_message(message)
    assert node.state is None


def test_power_is_cut_when_the_shutdown_hangs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = Switch(down=None)
    message, said = cycle(node, switch, monkeypatch)
    assert switch.asked == ["shut down", "cut", "on"]
    assert_message(said[0])
    assert_message(message)


def test_power_is_cut_at_once_where_no_shutdown_is_offered(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch()
    switch.can_shut_down = False
    cycle(node, switch, monkeypatch)
    assert switch.asked == ["cut", "on"]


def test_node_that_a_killed_run_left_off_is_only_switched_on(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch(state="off")
    assert_message(cycle(node, switch, monkeypatch)[0])
    assert switch.asked == ["on"]


def test_power_that_does_not_change_is_not_taken_for_off(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch(down=None, cut=None)
    with raises_message(ActionFailed):
        cycle(node, switch, monkeypatch)
    assert "on" not in switch.asked


def test_controller_that_is_busy_for_a_moment_is_asked_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch()
    ask = switch.switch_on

    def busy() -> None:
        ask()
        switch.silent = 3

    monkeypatch.setattr(switch, "switch_on", busy)
    assert_message(cycle(node, switch, monkeypatch)[0])


def test_controller_that_falls_silent_is_told_as_what_it_is(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch()
    ask = switch.shut_down

    def dead() -> None:
        ask()
        switch.silent = 1000

    monkeypatch.setattr(switch, "shut_down", dead)
    with pytest.raises(ActionRefused, match="does not answer"):
        cycle(node, switch, monkeypatch)


@pytest.mark.parametrize(
    ("answers", "before", "done", "looks"),
    [
        (["b1"], "b1", False, 1),
        (["b2"], "b1", True, 1),
        ([None, None, "b2"], "b1", True, 3),  # still booting
        ([None, "b1"], "b1", False, 2),  # it was only away
        ([None, "b2"], None, True, 2),  # dead when it was begun: that it answers was desired
    ],
)
def test_killed_run_finds_whether_the_boot_is_another(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[str | None],
    before: str | None,
    done: bool,
    looks: int,
) -> None:
    seen = list(answers)
    monkeypatch.setattr(reboot, "boot_id_or_none", lambda node: seen.pop(0))
    monkeypatch.setattr(power, "of", lambda node: Switch())
    assert bool(ACTION.probe(node, IntentLine(step="action", id="a1", boot_id=before))) is done
    assert len(answers) - len(seen) == looks


def test_killed_run_that_left_the_power_off_is_not_waited_for(
    node: Node, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    began = clock.now
    monkeypatch.setattr(reboot, "boot_id_or_none", lambda node: None)
    monkeypatch.setattr(power, "of", lambda node: Switch(state="off"))
    assert ACTION.probe(node, IntentLine(step="action", id="a1", boot_id="b1")) is None
    assert clock.now == began


def test_node_that_stays_dead_is_switched_again_only_after_the_whole_time(
    node: Node, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    began = clock.now
    monkeypatch.setattr(reboot, "boot_id_or_none", lambda node: None)
    monkeypatch.setattr(power, "of", lambda node: Switch())
    assert ACTION.probe(node, IntentLine(step="action", id="a1", boot_id="b1")) is None
    assert clock.now - began > node.spec.reprovision.deadlines.power_cycle


def test_node_without_a_controller_says_so(tmp_path: Path) -> None:
    with raises_message(ActionRefused):
        ACTION.facts(connected(Machine(tmp_path)))
