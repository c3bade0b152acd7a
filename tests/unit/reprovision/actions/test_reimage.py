"""A new image is trusted by what a trusted source says of its host key, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.operations import reboot
from b200kit.reprovision import reimage
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.reprovision.actions import reimage as act
from b200kit.reprovision.actions.reimage import ACTION
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.reimage import Progress, Unreached
from b200kit.run import host_keys
from b200kit.run.node import Node
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.unit.nodes import connected
from tests.unit.operations.test_reboot import Clock
from tests.unit.run.test_known_hosts import NEW, OLD, OTHER

INTENT = IntentLine(step="action", id="a1", boot_id="b1", host_keys=(OLD,))


class System:
    """A provisioning system that shows these, one a look; the last stays."""

    poll_s = 10.0

    def __init__(self, *looks: Progress | Exception) -> None:
        self.looks, self.closed = list(looks), 0

    def facts(self) -> dict[str, Any]:
        return {"installation": 1}

    def advance(self, intent: Any) -> Progress:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return look

    def close(self) -> None:
        self.closed += 1


Make = Callable[..., Node]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A node with a pinned key and a system that makes images; it comes back by default."""
    monkeypatch.setattr(act, "time", Clock())
    monkeypatch.setattr(reboot, "wait_until_back", lambda *_: "back")
    hosts = tmp_path / "known_hosts"
    hosts.write_text(f"n01 {OLD}\nn02 {OTHER}\n")
    pins = host_keys.Pins((hosts,), "n01")
    monkeypatch.setattr(host_keys, "of", lambda host: pins)

    def make(system: System, **changes: Any) -> Node:
        monkeypatch.setattr(reimage, "of", lambda node: system)
        asked = {"method": "command", "command": ["site-reimage"]} | changes
        return connected(Machine(tmp_path), reimage=asked)

    return make


def pinned(node: Node) -> tuple[str, ...]:
    return host_keys.of(node.connected().host).keys()


def perform(node: Node, said: list[str] | None = None) -> str:
    return ACTION.perform(node, INTENT, (said if said is not None else []).append)


def test_key_of_the_systems_own_answer_is_pinned(node: Make) -> None:
    said: list[str] = []
    system = System(Progress(("Deploying",)), Progress(("Deploying",)), Progress((), True, (NEW,)))
    made = node(system)
    assert_message(perform(made, said))
    assert pinned(made) == (NEW,)
    assert said[0] == "Deploying"
    assert said[1].startswith("host key SHA256:")
    assert len(said) == 2
    assert system.closed == 1


def test_without_a_source_the_pinned_key_stays_the_one_that_is_believed(node: Make) -> None:
    made = node(System(Progress((), True)))
    assert perform(made).endswith("same host key")
    assert pinned(made) == (OLD,)


def test_key_comes_from_a_file_or_a_command_where_the_inventory_says_so(
    node: Make, tmp_path: Path
) -> None:
    file = tmp_path / "n01.pub"
    file.write_text(f"{NEW} root@n01\n")
    made = node(System(Progress((), True, (OTHER,))), host_key_file=str(file))
    perform(made)
    assert pinned(made) == (NEW,)
    program = tmp_path / "host-key"
    program.write_text(f"#!/bin/sh\n[ $1 = n01 ] && echo '{OTHER}'\n")
    program.chmod(0o755)
    made = node(System(Progress((), True)), host_key=[str(program)])
    perform(made)
    assert pinned(made) == (OTHER,)


@pytest.mark.parametrize("said", ["", NEW[:-9], None])
def test_source_that_says_no_key_pins_nothing(node: Make, tmp_path: Path, said: str | None) -> None:
    file = tmp_path / "n01.pub"
    if said is not None:
        file.write_text(said)
    made = node(System(Progress((), True, (OTHER,))), host_key_file=str(file))
    with raises_message(ActionRefused):
        perform(made)
    assert pinned(made) == (OLD,)


def test_image_that_never_gets_done_ends_at_its_deadline_in_one_line(node: Make) -> None:
    system = System(Progress(("Deploying",)))
    made = node(system, method="command")
    with raises_message(ActionFailed):
        perform(made)
    assert system.closed == 1
    assert pinned(made) == (OLD,)


def test_system_that_is_away_for_a_while_is_asked_again(node: Make) -> None:
    system = System(Unreached("MAAS answers 503"), Progress((), True, (NEW,)))
    said: list[str] = []
    perform(node(system), said)
    assert said[0] == "MAAS answers 503"


def test_node_that_answers_with_another_key_is_refused(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*_: object) -> str:
        raise reboot.OtherKey("came back from its re-image with another host key")

    monkeypatch.setattr(reboot, "wait_until_back", other)
    with raises_message(ActionRefused):
        perform(node(System(Progress((), True, (NEW,)))))


def test_killed_run_finds_its_new_key_pinned_and_makes_no_second_image(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("b200kit.run.remote.Remote.connect_fresh", lambda remote: None)
    made = node(System(Progress((), True, (NEW,))))
    monkeypatch.setattr(reboot, "boot_id", lambda remote: "b1")
    assert ACTION.facts(made) == {"host_keys": (OLD,), "boot_id": "b1", "installation": 1}
    assert ACTION.probe(made, INTENT) is None
    host_keys.of(made.connected().host).replace([NEW])
    assert str(ACTION.probe(made, INTENT)).startswith("already done")
