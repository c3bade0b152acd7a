"""The gateway stage: what it lays down, how a change reaches a running gateway, what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.keys.gateway import Client, Gateway, floor
from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.parse import parse
from b200kit.inventory.secrets import Secret
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import cpulist
from b200kit.node.placement import layout
from b200kit.node.serving.gateway.rolling_restart import NOTE
from b200kit.run.node import Node, StageFailed
from b200kit.serving.gateway.haproxy_config import PATHS
from b200kit.stages import gateway, pipeline, serving
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.nodes import look, make, planned, settled
from tests.unit.specs import CATALOGUE, data

HAPROXY = "/etc/haproxy/haproxy.cfg"
DROPIN = "/etc/systemd/system/haproxy.service.d/b200kit.conf"
KEY = {"env": "A_KEY"}
NODES = [{"name": "n01", "address": "10.0.0.1"}]
PEM = b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n"


def problems(**changes: object) -> dict[str, str]:
    """Key to message of everything wrong with the changed data."""
    found = parse(data(**{"api_key": KEY, **changes}), CATALOGUE)
    return {} if isinstance(found, NodeSpec) else {p.key: p.message for p in found}


@in_subtests(
    ("changes", "key"),
    [
        ({"gateway_bind": "0.0.0.0"}, "gateway.certificate"),
        ({"gateway_bind": "::"}, "gateway.certificate"),
        ({"gateway": {"tls": "off", "certificate": KEY}}, "gateway.tls"),
        (
            {"gateway_bind": "0.0.0.0", "gateway": {"tls": "off"}, "api_key": None},
            "api_key",
        ),
        ({"gateway_bind": "::", "gateway": {"tls": "off"}, "api_key": None}, "api_key"),
        ({"gateway": {"authentication": "off"}}, "gateway.authentication"),
        ({"fleet": {"port": 9000, "nodes": NODES}}, "fleet.ca_file"),
        ({"gateway": {"max_connections": 100}}, "gateway.max_connections_per_source"),
        ({"gateway": {"unlimited_sources": ["n01"]}}, "gateway.unlimited_sources.0"),
        (
            {"gateway": {"unlimited_sources": ["::ffff:128.0.0.0/97", "0.0.0.0/1"]}},
            "gateway.unlimited_sources",
        ),
        ({"gateway": {"weights": [1]}}, "gateway.weights"),
        ({"gateway": {"weights": [0, 0]}}, "gateway.weights"),
        ({"gateway": {"cpus": "3-1"}}, "gateway.cpus"),
        ({"gateway": {"clients": [{"name": "a", "key": KEY}] * 2}}, "gateway.clients"),
        ({"gateway": {"clients": [{"name": "node", "key": KEY}]}}, "gateway.clients"),
        ({"gateway": {"clients": [{"name": "a", "key": KEY}]}, "api_key": None}, "api_key"),
        ({"gateway": {"clients": [{"name": "a", "key": {}}]}}, "gateway.clients.0.key"),
        ({"gateway": {"certificate": {}}}, "gateway.certificate"),
        ({"gateway": {"client": []}}, "gateway.client"),
        ({"min_available": 2}, "min_available"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_its_key(changes: dict[str, object], key: str) -> None:
    found = problems(**changes)
    assert list(found) == [key]
    assert_message(found[key])


@in_subtests(
    "changes",
    [
        {"gateway_bind": "0.0.0.0", "gateway": {"tls": "off"}},
        {"gateway_bind": "0.0.0.0", "gateway": {"certificate": KEY}},
        {"gateway_bind": "::1", "api_key": None},
        {
            "gateway_bind": "10.0.0.7",
            "gateway": {"tls": "off", "authentication": "off"},
            "api_key": None,
        },
        {"fleet": {"port": 9000, "nodes": NODES}, "gateway": {"tls": "off"}},
        {"fleet": {"port": 9000, "nodes": NODES}, "api_key": None},
        {"fleet": {"port": 9000, "nodes": NODES, "ca_file": "/etc/ssl/site/authority.pem"}},
        {"gateway": {"unlimited_sources": ["10.0.0.7", "fd00::/64"]}},
        {"gateway": {"weights": [100, 0]}},
        {"min_available": 0},
        {"api_key": None},
    ],
)
def test_what_can_be_meant_is_taken(changes: dict[str, object]) -> None:
    assert problems(**changes) == {}


@pytest.mark.parametrize(
    ("asked", "replicas", "stay"), [(None, 4, 3), (None, 1, 0), (2, 4, 2), (0, 4, 0)]
)
def test_all_but_one_replica_stay_unless_the_inventory_says_otherwise(
    asked: int | None, replicas: int, stay: int
) -> None:
    assert floor(asked, replicas) == stay


def with_clients(node: Node, **secrets: bytes) -> Node:
    """The same node, with a client and a certificate."""
    asked = Gateway(
        clients=(Client(name="team-a", key=SecretRef(env="A")),), certificate=SecretRef(env="C")
    )
    node.spec = node.spec.replace(gateway=asked)
    found = {"gateway.clients.0.key": b"canary-of-a", "gateway.certificate": PEM, **secrets}
    node.secrets |= {name: Secret(value) for name, value in found.items()}
    return node


def given(node: Node) -> Mapping[str, Any]:
    """Path to file of what the gateway wants."""
    return {file.path: file for file in gateway.desired(node, node.layout()).files}


def test_secrets_of_the_gateway_are_roots_alone_and_in_no_other_place(tmp_path: Path) -> None:
    node = with_clients(settled(tmp_path)[0])
    files = given(node)
    for path in (PATHS.clients, PATHS.upstream, PATHS.certificate):
        assert (files[path].mode, files[path].secret) == (0o600, True)
    assert files[PATHS.public].content == PEM.partition(b"-----BEGIN PRIVATE")[0]
    assert files[HAPROXY].mode == 0o644
    elsewhere = {
        file.path
        for stage in pipeline.stages()
        for file in stage.desired(node, node.layout()).files
        if b"canary-of-a" in file.content or b"PRIVATE KEY" in file.content
    }
    assert elsewhere == {PATHS.certificate}
    assert f"{serving.SECRETS}/gateway.certificate" not in elsewhere


def test_client_finds_the_gateway_by_its_own_certificate(tmp_path: Path) -> None:
    node = with_clients(settled(tmp_path)[0])
    document = serving.serving_document(node, node.layout())
    assert document.gateway == "https://127.0.0.1:8000"
    assert document.gateway_trust == PATHS.public


def test_new_configuration_is_tried_beside_the_running_one_first(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.write(HAPROXY, b"older")
    look(node)
    make(node, "gateway")
    tried = machine.ran("haproxy -c")[0]
    assert f"-f {gateway.TRIAL}/haproxy.cfg" in tried
    assert machine.log.index(tried) < machine.log.index(machine.ran("reload-or-restart")[0])
    assert f"{gateway.TRIAL}/b200kit-upstream.map" in machine.text(f"{gateway.TRIAL}/haproxy.cfg")


def test_configuration_that_is_refused_never_takes_the_other_ones_place(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.write(HAPROXY, b"the one that runs")
    machine.answers = {"haproxy -c": (False, "[ALERT] parsing [haproxy.cfg:9]: unknown keyword")}
    look(node)
    with pytest.raises(StageFailed, match=r"configuration is refused.*haproxy.cfg:9"):
        make(node, "gateway")
    assert machine.text(HAPROXY) == "the one that runs"
    assert machine.ran("reload") == []


def test_first_configuration_has_no_haproxy_to_try_it(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    del machine.packages["haproxy"], machine.files[HAPROXY]
    look(node)
    make(node, "gateway")
    assert machine.ran("haproxy -c") == []
    assert "haproxy" in machine.packages


def test_replicas_leave_rotation_at_their_stop_and_nothing_is_restarted_for_it(
    tmp_path: Path,
) -> None:
    file = given(settled(tmp_path)[0])[gateway.ROTATION]
    assert file.notify == ("daemon-reload",)
    lines = file.content.decode().splitlines()
    for way, hook in (("out", "ExecStartPre"), ("back", "ExecStartPost"), ("out", "ExecStop")):
        [line] = [line for line in lines if line.startswith(f"{hook}=")]
        # "-": a gateway that is not there must not keep a replica from starting or stopping.
        assert line.startswith(f"{hook}=-+")
        assert line.endswith(f" rotation {way} %i")


def test_gateway_is_pinned_to_cpus_that_no_replica_has(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    [line] = [x for x in given(node)[DROPIN].content.decode().splitlines() if "CPUAff" in x]
    mine = {*cpulist.parse(line.partition("=")[2])}
    assert mine
    for replica in node.layout():
        assert not mine & {*cpulist.parse(replica.cpus)}
    node.spec = node.spec.replace(gateway=Gateway(cpus="0-3"))
    assert "\nCPUAffinity=0-3\n" in given(node)[DROPIN].content.decode()
    # It has no root of its own, so nothing may make one.
    assert "chroot" not in given(node)[HAPROXY].content.decode()
    assert "CAP_SYS_CHROOT" not in given(node)[DROPIN].content.decode()


def test_cpus_that_the_layout_leaves_are_the_gateways_but_for_the_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = settled(tmp_path)
    node.spec = node.spec.replace(client_cpus="2-3")
    monkeypatch.setattr(layout, "reserved", lambda state, replicas: "0-5")
    assert "\nCPUAffinity=0-1,4-5\n" in given(node)[DROPIN].content.decode()


def test_weights_make_shares_and_equal_ones_least_connections(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    node.spec = node.spec.replace(gateway=Gateway(weights=(95, 5)))
    config = given(node)[HAPROXY].content.decode()
    assert "balance roundrobin" in config
    assert "server vllm1 127.0.0.1:8002 weight 5" in config
    node.spec = node.spec.replace(gateway=Gateway(weights=(7, 7)))
    assert "balance leastconn" in given(node)[HAPROXY].content.decode()


def test_replica_on_a_live_node_is_restarted_behind_the_gateway(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.write("/etc/vllm/replica-1.yaml", b"old")
    look(node)
    make(node, "serving")
    make(node, "warm-up")
    assert machine.ran("systemctl restart vllm") == []
    [rolled] = machine.ran("node.pyz rolling-restart")
    assert rolled.endswith("--replicas=1")


def test_replica_is_restarted_by_itself_where_no_gateway_runs(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.units["haproxy.service"]["active"] = "inactive"
    machine.write("/etc/vllm/replica-1.yaml", b"old")
    look(node)
    make(node, "serving")
    make(node, "warm-up")
    assert machine.ran("node.pyz rolling-restart") == []
    assert machine.ran("systemctl restart vllm@1.service")


def test_replica_that_does_not_run_comes_before_those_that_wait_for_a_restart(
    tmp_path: Path,
) -> None:
    node, machine = settled(tmp_path)
    machine.units["vllm@1.service"]["active"] = "failed"
    machine.write("/etc/vllm/replica-0.yaml", b"old")
    look(node)
    make(node, "serving")
    assert_message(*planned(node, "warm-up"))


def test_roll_that_was_broken_off_is_finished_though_no_handler_is_pending(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.write(str(NOTE), b"{}")
    look(node)
    assert_message(*planned(node, "warm-up"))
    make(node, "warm-up")
    assert planned(node, "warm-up") == []


def test_another_key_of_a_client_reloads_the_gateway(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    with_clients(node)
    make(node, "gateway")
    before = len(machine.ran("reload-or-restart"))
    with_clients(node, **{"gateway.clients.0.key": b"another-key-of-a"})
    make(node, "gateway")
    assert len(machine.ran("reload-or-restart")) == before + 1
