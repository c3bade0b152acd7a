"""A new image is trusted by what a trusted source says of its host key, and by nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.secrets import Secret
from b200kit.operations import reboot
from b200kit.reprovision import site_command
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.reprovision.actions.reimage import ACTION
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.run import host_keys
from b200kit.run.node import Node
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.unit.nodes import connected
from tests.unit.run.test_known_hosts import NEW, OLD, OTHER

INTENT = IntentLine(step="action", id="a1", why="gpu.lost", boot_id="b1", host_keys=(OLD,))
Make = Callable[..., Node]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A node with a pinned key whose images come by this script; it comes back by default."""
    monkeypatch.setattr(reboot, "wait_until_back", lambda *_: "back")
    hosts = tmp_path / "known_hosts"
    hosts.write_text(f"n01 {OLD}\nn02 {OTHER}\n")
    pins = host_keys.Pins((hosts,), "n01")
    monkeypatch.setattr(host_keys, "of", lambda host: pins)
    program = tmp_path / "site-reimage"

    def make(script: str, **changes: Any) -> Node:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        asked = {"command": [str(program), "-x"], "image": "noble"} | changes
        return connected(Machine(tmp_path), reimage=asked)

    return make


def answering(*keys: str) -> str:
    """A script whose last line has these host keys."""
    return f"echo '{json.dumps({'host_keys': keys})}'"


def pinned(node: Node) -> tuple[str, ...]:
    return host_keys.of(node.connected().host).keys()


def perform(node: Node, said: list[str] | None = None) -> str:
    return ACTION.perform(node, INTENT, (said if said is not None else []).append)


def test_command_is_told_what_it_needs_and_its_key_is_pinned(node: Make, tmp_path: Path) -> None:
    said: list[str] = []
    told = 'echo "$* $B200_ADDRESS $B200_ACT $B200_IMAGE $B200_WHY" >&2; echo booting >&2'
    keep = f"printf %s $B200_TOKEN > {tmp_path}/token"
    made = node(f"{told}; {keep}; echo chatter; {answering(f'{NEW} root@n01')}")
    made.secrets["reimage.token"] = Secret(b"canary-t0ken")
    # How long it took is this machine's.
    assert_message(re.sub(r" in [0-9.]+ s", "", perform(made, said)), DIR=tmp_path)
    assert pinned(made) == (NEW,)
    assert said[:2] == ["-x reimage n01 n01 a1 noble gpu.lost", "booting"]
    assert said[2].startswith("host key SHA256:")
    assert (tmp_path / "token").read_text() == "canary-t0ken"


def test_without_a_source_the_pinned_key_stays_the_one_that_is_believed(node: Make) -> None:
    made = node("true")
    assert perform(made).endswith("same host key")
    assert pinned(made) == (OLD,)


@pytest.mark.parametrize(
    ("script", "raised"),
    [
        ("echo 'no such profile' >&2; exit 3", ActionFailed),
        ("echo 'key refused' >&2; exit 2", ActionRefused),
        ("kill -9 $$", ActionFailed),
        ("echo done", ActionFailed),
        ('echo \'{"host_keys": "x"}\'', ActionFailed),
        (answering(NEW[:-9]), ActionFailed),
    ],
)
def test_what_went_wrong_is_one_line_and_pins_nothing(
    node: Make, tmp_path: Path, script: str, raised: type[ActionFailed]
) -> None:
    made = node(script)
    with pytest.raises(ActionFailed) as failed:
        perform(made)
    assert failed.type is raised
    assert_message(str(failed.value), DIR=tmp_path)
    assert pinned(made) == (OLD,)


def test_key_comes_from_a_file_or_a_command_where_the_inventory_says_so(
    node: Make, tmp_path: Path
) -> None:
    file = tmp_path / "n01.pub"
    file.write_text(f"{NEW} root@n01\n")
    made = node(answering(OTHER), host_key_file=str(file))
    perform(made)
    assert pinned(made) == (NEW,)
    program = tmp_path / "host-key"
    program.write_text(f"#!/bin/sh\n[ $1 = n01 ] && echo '{OTHER}'\n")
    program.chmod(0o755)
    made = node("true", host_key=[str(program)])
    perform(made)
    assert pinned(made) == (OTHER,)


@pytest.mark.parametrize("said", ["", NEW[:-9], None])
def test_source_that_says_no_key_pins_nothing(node: Make, tmp_path: Path, said: str | None) -> None:
    file = tmp_path / "n01.pub"
    if said is not None:
        file.write_text(said)
    made = node(answering(OTHER), host_key_file=str(file))
    with raises_message(ActionRefused):
        perform(made)
    assert pinned(made) == (OLD,)


def test_image_has_the_time_of_the_inventory(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = node("true"), []

    def run(*_: str, within_s: float, **__: object) -> str:
        given.append(within_s)
        return ""

    monkeypatch.setattr(site_command, "run", run)
    perform(made)
    assert given == [made.spec.reprovision.deadlines.reimage]


def test_node_that_answers_with_another_key_is_refused(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*_: object) -> str:
        raise reboot.OtherKey("came back from its re-image with another host key")

    monkeypatch.setattr(reboot, "wait_until_back", other)
    with raises_message(ActionRefused):
        perform(node(answering(NEW)))


def test_killed_run_finds_its_new_key_pinned_and_makes_no_second_image(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("b200kit.run.remote.Remote.connect_fresh", lambda remote: None)
    made = node(answering(NEW))
    monkeypatch.setattr(reboot, "boot_id", lambda remote: "b1")
    assert ACTION.facts(made) == {"host_keys": (OLD,), "boot_id": "b1"}
    assert ACTION.probe(made, INTENT) is None
    host_keys.of(made.connected().host).replace([NEW])
    assert str(ACTION.probe(made, INTENT)).startswith("already done")
