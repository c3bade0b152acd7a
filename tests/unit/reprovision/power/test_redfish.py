"""Power by Redfish, against the real emulator of sushy-tools over machines that are a file."""

from __future__ import annotations

import base64
import io
import json
import logging
import socket
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sushy  # type: ignore[import-untyped]

from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.keys.reprovision import Bmc
from b200kit.inventory.secrets import Secret
from b200kit.operations import reboot
from b200kit.records import machines as kept
from b200kit.records.machines import machine
from b200kit.reprovision.actions import ActionRefused
from b200kit.reprovision.actions.power_cycle import ACTION as CYCLE
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.power import redfish
from b200kit.run.node import Node
from tests.lab.power.bmc import USER, Service
from tests.lab.power.bmc_system import system_id
from tests.messages import PORT, raises_message
from tests.unit.nodes import spec

CANARY = b"canary-bmc-p4ssw0rd"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The emulator, started once."""
    folder = tmp_path_factory.mktemp("bmc")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    made = Service(folder, "127.0.0.1", port, folder / "machines.json")
    (folder / "machines.json").write_text("{}")
    (folder / "password").write_bytes(CANARY)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def machines(service: Service) -> Path:
    """Two machines that are on, and what was asked of them."""
    assert service.machines
    service.machines.write_text(json.dumps({"n1": {"power": "On"}, "n2": {"power": "On"}}))
    return service.machines


@pytest.fixture
def controller(service: Service, machines: Path) -> Callable[..., redfish.Controller]:
    def make(password: bytes = CANARY, **changes: Any) -> redfish.Controller:
        sound: dict[str, Any] = {
            "address": service.url,
            "user": USER,
            "password": SecretRef(env="X"),
            "system": system_id("n1"),
            "ca_file": str(service.certificate),
        }
        return redfish.Controller(Bmc(**sound | changes), Secret(password))

    return make


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node does not answer."""
    monkeypatch.setattr(reboot, "boot_id_or_none", lambda node: None)


def test_power_is_read_cut_and_given_back(
    controller: Callable[..., redfish.Controller], machines: Path
) -> None:
    power = controller()
    assert power.state() == "on"
    power.shut_down()
    assert power.state() == "off"
    power.switch_on()
    assert power.state() == "on"
    power.cut()
    seen = json.loads(machines.read_text())
    assert seen["n1"] == {"power": "Off", "asked": ["shut-down", "on", "cut"]}
    assert seen["n2"] == {"power": "On"}


def test_machine_is_the_one_that_the_system_is(
    controller: Callable[..., redfish.Controller],
) -> None:
    assert controller().machine() == machine(system_id("n1"), None)
    assert controller(system=system_id("n2")).machine() == machine(system_id("n2"), None)


@pytest.mark.parametrize("remembered", [False, True])
def test_two_exchanged_systems_are_refused_before_anything_is_switched(
    service: Service, machines: Path, tmp_path: Path, silent: None, remembered: bool
) -> None:
    """The inventory of n1 has the system of n2, its neighbour, which serves."""
    n1 = _node(service, tmp_path, "n1", "n2", remembered)
    with raises_message(ActionRefused, PORT=PORT):
        CYCLE.facts(n1)
    with pytest.raises(ActionRefused, match="no power was switched"):
        CYCLE.probe(n1, IntentLine(step="action", id="a1", boot_id="b1"))
    with pytest.raises(ActionRefused, match="no power was switched"):
        CYCLE.perform(n1, IntentLine(step="action", id="a1", boot_id="b1"), print)
    seen = json.loads(machines.read_text())
    assert seen == {"n1": {"power": "On"}, "n2": {"power": "On"}}
    assert CYCLE.facts(_node(service, tmp_path, "n1", "n1", remembered))["power"] == "on"


def test_node_that_was_never_read_is_switched_by_what_the_inventory_says_alone(
    service: Service, machines: Path, tmp_path: Path, silent: None
) -> None:
    never = _node(service, tmp_path, "", "n1", False)
    with raises_message(ActionRefused, PORT=PORT):
        CYCLE.facts(never)
    wrong = _node(service, tmp_path, "", "n1", False, uuid=system_id("n2"))
    with raises_message(ActionRefused, PORT=PORT):
        CYCLE.facts(wrong)
    right = _node(service, tmp_path, "", "n1", False, uuid=system_id("n1").upper())
    assert CYCLE.facts(right)["power"] == "on"
    assert "asked" not in machines.read_text()


def _node(
    service: Service, folder: Path, is_really: str, system: str, remembered: bool, **keys: str
) -> Node:
    """A node that does not answer, and what it said of itself in this run or an earlier one."""
    bmc = {
        "address": service.url,
        "user": USER,
        "password": {"env": "X"},
        "system": system_id(system),
        "ca_file": str(service.certificate),
    }
    node = Node("n1", spec(folder, bmc=bmc | keys), {"bmc.password": Secret(CANARY)})
    state = {"host": {"product_uuid": system_id(is_really)}} if is_really else {}
    if remembered:
        kept.keep(node.name, state)
    else:
        node.record.state = state
    return node


def test_certificate_is_trusted_by_its_fingerprint_in_either_spelling(
    controller: Callable[..., redfish.Controller], service: Service
) -> None:
    plain = service.fingerprint()
    colons = ":".join(plain[n : n + 2] for n in range(0, 64, 2)).upper()
    for fingerprint in (plain, colons):
        assert controller(ca_file=None, fingerprint=fingerprint).state() == "on"


@pytest.mark.parametrize(
    "changes",
    [
        {"system": None},
        {"system": "no-such"},
        {"user": "root"},
        {"password": b"wrong"},
        {"ca_file": None},
        {"ca_file": None, "fingerprint": "0" * 64},
        {"address": "https://127.0.0.1:1"},
        {"address": "https://nowhere.invalid"},
    ],
)
def test_what_keeps_it_from_the_power_is_one_line(
    controller: Callable[..., redfish.Controller], changes: dict[str, Any]
) -> None:
    with raises_message(ActionRefused, PORT=PORT):
        controller(**changes).state()


def test_untrusted_authority_is_named(
    controller: Callable[..., redfish.Controller], tmp_path: Path, service: Service
) -> None:
    other = Service(tmp_path, "127.0.0.1")
    other._prepare()
    with raises_message(ActionRefused, PORT=PORT):
        controller(ca_file=str(other.certificate)).state()


def test_environment_cannot_make_it_trust_or_go_elsewhere(
    controller: Callable[..., redfish.Controller],
    monkeypatch: pytest.MonkeyPatch,
    service: Service,
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(service.certificate))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert controller().state() == "on"
    with raises_message(ActionRefused, PORT=PORT):
        controller(ca_file=None).state()


def test_reset_type_that_is_not_offered_is_named_with_those_that_are(
    controller: Callable[..., redfish.Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    power = controller()
    kinds = {sushy.ResetType.ON, sushy.ResetType.GRACEFUL_RESTART}
    monkeypatch.setattr(redfish, "_offered", lambda system: kinds)
    for switch in (power.shut_down, power.cut):
        with raises_message(ActionRefused, PORT=PORT):
            switch()


def test_reset_type_that_is_offered_and_refused_is_told_with_the_controllers_words(
    controller: Callable[..., redfish.Controller], machines: Path
) -> None:
    machines.write_text(json.dumps({"n1": {"power": "On", "fault": "bare"}}))
    with raises_message(ActionRefused, PORT=PORT):
        controller().shut_down()


def test_password_is_in_no_log_no_line_and_no_traceback(
    controller: Callable[..., redfish.Controller],
) -> None:
    message = io.StringIO()
    handler = logging.StreamHandler(message)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        sound = controller()
        message.write(f"{sound!r} {sound.state()}\n")
        for changes in ({"user": "root"}, {"system": None}, {"ca_file": None}):
            try:
                controller(**changes).cut()
            except ActionRefused:
                message.write(traceback.format_exc())
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    text = message.getvalue()
    assert "HTTP request: GET" in text
    for secret in (CANARY, base64.b64encode(USER.encode() + b":" + CANARY)):
        assert secret.decode() not in text
