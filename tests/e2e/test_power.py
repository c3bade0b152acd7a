"""Power cycle through the real Redfish emulator, and new images, of one lab host on one boot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit.inventory.secrets import Secret
from b200kit.operations import reboot
from b200kit.reprovision import power
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.reprovision.actions.power_cycle import ACTION as CYCLE
from b200kit.reprovision.actions.reimage import ACTION as REIMAGE
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.run import host_keys, known_hosts
from b200kit.run.node import Node
from b200kit.store import database
from tests.e2e.tools import acting
from tests.lab import node_faults
from tests.lab.paths import lab_paths
from tests.lab.power import bmc, ipmi
from tests.lab.power.bmc_system import system_id

pytestmark = pytest.mark.long

HOST = "b200-1"
Said = list[str]


@pytest.fixture(scope="module")
def host(boot: Callable[..., dict[str, Any]]) -> Iterator[str]:
    """Two hosts, so that their one controller has two systems; all is done to the first."""
    boot("healthy", "healthy")
    lab.bmc_up()
    yield HOST
    lab.bmc_down()


@pytest.fixture
def node(host: str) -> Node:
    return acting.node(host)


def intent(node: Node) -> IntentLine:
    boot_id = reboot.boot_id(node.connected())
    return IntentLine(step="action", id="a1", why="test", boot_id=boot_id)


def test_power_goes_off_and_on_and_a_new_boot_answers_with_the_same_key(node: Node) -> None:
    before, said = replace(intent(node), **CYCLE.facts(node)), Said()
    pins = host_keys.of(node.connected().host).keys()
    assert before.power == "on"
    assert CYCLE.probe(node, before) is None

    seen = CYCLE.perform(node, before, said.append)

    assert seen.startswith("shut down, on again, back after ")
    assert reboot.boot_id(node.connected()) != before.boot_id
    assert host_keys.of(node.connected().host).keys() == pins
    # What a run that was killed right here finds when it is started again.
    assert "runs another boot" in str(CYCLE.probe(node, before))


def test_host_that_hangs_has_its_power_cut(node: Node) -> None:
    before, said = intent(node), Said()
    lab.freeze(HOST)
    hung = acting.bmc(node, graceful_s=1)

    seen = CYCLE.perform(hung, before, said.append)

    assert seen.startswith("power cut, on again, back after ")
    assert (
        "power is still on 1.0 s after its controller received the command to shut down" in said[0]
    )


def test_host_that_was_left_off_is_switched_on(node: Node) -> None:
    before = intent(node)
    lab.kill(HOST)
    assert CYCLE.perform(node, before, Said().append).startswith("found off, on again, back after ")


def test_neighbour_keeps_its_power_where_the_inventory_has_its_controller(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose it is, is known by the inventory, or by what the node's own firmware says."""
    # Runs of other tests have kept what the nodes of this name are.
    monkeypatch.setenv(database.VARIABLE, str(tmp_path / "b200.db"))
    neighbour = acting.node("b200-2")
    before = reboot.boot_id(neighbour.connected())
    swapped = acting.bmc(node, system=system_id(neighbour.name))
    observed = acting.bmc(swapped, uuid=None)
    with pytest.raises(ActionRefused, match="own were never read"):
        CYCLE.facts(observed)
    observed.take_observation(node.connected().observe({}))
    for wrong in (swapped, observed):
        with pytest.raises(ActionRefused, match=f"no power .*{system_id(neighbour.name)}"):
            CYCLE.perform(wrong, intent(node), Said().append)
    assert reboot.boot_id(neighbour.connected()) == before
    right = acting.bmc(node, uuid=None)
    right.take_observation(node.connected().observe({}))
    assert CYCLE.facts(right)["power"] == "on"


def test_power_is_switched_by_ipmi_too(node: Node) -> None:
    """The real ipmitool; OpenIPMI's simulator lets it wait 4 s a call, so there are few of them."""
    with ipmi.controller(HOST) as message:
        own = {"graceful_s": 0, "switch_s": 30, "uuid": system_id(HOST)}
        by_ipmi = acting.described(node, bmc=message | own)
        before = intent(node)
        seen = CYCLE.perform(by_ipmi, before, Said().append)
        assert seen.startswith("power cut, on again, back after ")
        assert reboot.boot_id(node.connected()) != before.boot_id
        by_ipmi.secrets["bmc.password"] = Secret(b"wrong")
        with pytest.raises(ActionRefused, match="refuses b200's password"):
            power.of(by_ipmi).state()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"system": None}, "its controller has several systems ("),
        ({"system": "elsewhere"}, "its controller has no system elsewhere; it has "),
        ({"user": "root"}, "refuses user root: look at bmc.user and bmc.password"),
        ({"ca_file": None}, "shows a certificate that no authority of this machine vouches for"),
        (
            {"ca_file": None, "fingerprint": "0" * 64},
            "another certificate than the one of bmc.fing",
        ),
        ({"address": "https://10.77.0.1:1"}, "does not answer: connection refused"),
    ],
)
def test_controller_that_cannot_be_used_is_told_in_one_line_before_anything_is_done(
    node: Node, changes: dict[str, Any], line: str
) -> None:
    with pytest.raises(ActionFailed) as message:
        CYCLE.facts(acting.bmc(node, **changes))
    assert line in str(message.value)
    assert "\n" not in str(message.value)


def test_power_that_does_not_change_ends_at_its_deadline(node: Node) -> None:
    bmc.set_fault(lab_paths(), HOST, "stuck")
    try:
        with pytest.raises(ActionFailed, match=r"power is still on 2\.0 s after its controller"):
            CYCLE.perform(acting.bmc(node, graceful_s=0, switch_s=2), intent(node), Said().append)
    finally:
        bmc.set_fault(lab_paths(), HOST, None)


def test_new_image_is_trusted_by_what_the_system_says_and_pinned_for_this_host_alone(
    node: Node,
) -> None:
    facts, said = REIMAGE.facts(node), Said()
    before = replace(intent(node), **facts)
    node.connected().run("touch /etc/of-the-old-image")
    assert REIMAGE.probe(node, before) is None

    seen = REIMAGE.perform(node, before, said.append)

    pins = host_keys.of(node.connected().host).keys()
    assert "host key from " in seen
    assert facts["host_keys"] != tuple(pins)
    assert f"{HOST}: image written, booting" in said
    assert any(known_hosts.fingerprint(pins[0]) in line for line in said)
    assert not node.connected().attempt("test -e /etc/of-the-old-image").ok
    other = acting.node("b200-2")
    assert tuple(host_keys.of(other.connected().host).keys()) == facts["host_keys"]
    assert "answers with the host key that was pinned" in str(REIMAGE.probe(node, before))
    # A run that was killed before it pinned the key asks for the same image, not for another.
    again, boot_id = Said(), reboot.boot_id(node.connected())
    REIMAGE.perform(node, before, again.append)
    assert f"{HOST}: has this image already" in again
    assert reboot.boot_id(node.connected()) == boot_id


def test_image_with_another_key_than_the_one_told_is_refused_by_name(
    node: Node, tmp_path: Path
) -> None:
    """Last but one: a key is pinned that the host does not have."""
    liar = tmp_path / "liar"
    other = (lab_paths().host_key.with_suffix(".pub")).read_text().strip()
    liar.write_text(f"#!/bin/sh\necho '{json.dumps({'host_keys': [other]})}'\n")
    liar.chmod(0o700)
    pins = host_keys.of(node.connected().host)
    right = pins.keys()
    try:
        with pytest.raises(ActionFailed, match="came back from its re-image with another host key"):
            REIMAGE.perform(acting.reimage(node, command=(str(liar),)), intent(node), Said().append)
    finally:
        pins.replace(right)


def test_host_that_comes_back_with_another_key_is_refused_by_name(node: Node) -> None:
    """Last: nobody pins the key it has from then on."""
    before = intent(node)
    node_faults.other_key_after_reboot(HOST)
    with pytest.raises(ActionFailed, match="came back from its power cycle with another host key"):
        CYCLE.perform(node, before, Said().append)
