"""The fleet's endpoint: from the inventory to a real HAProxy before two nodes' gateways."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.inventory.keys.fleet import filled, gateways
from b200kit.inventory.keys.gateway import Gateway
from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.parse import parse
from b200kit.inventory.secrets import Secret
from b200kit.inventory.spec import NodeSpec
from b200kit.node.serving.gateway import haproxy
from b200kit.serving.gateway.haproxy_config import PATHS, BackendServer, GatewayEndpoint
from b200kit.stages import gateway
from tests.messages import assert_message
from tests.unit.gateway.proxy import KEYS, Proxy, free_port, mock, running, until
from tests.unit.gateway.test_refusals import ask, certificate
from tests.unit.nodes import settled
from tests.unit.specs import CATALOGUE, data

NODES: list[tuple[str, dict[str, Any]]] = [
    (f"n{number:02}", {"ssh_hostname": f"10.0.0.{number}"}) for number in range(1, 13)
]


def test_fleet_is_every_node_of_the_inventory_unless_it_names_them() -> None:
    hosts = [
        *NODES,
        (
            "n13",
            {
                "fleet_address": "n13.internal",
                "gateway_port": 9,
                "fleet_weight": 5,
                "proof": {"issue": "off"},
            },
        ),
    ]
    [*_, twelfth, last] = filled({"fleet": {"port": 8443}}, gateways(hosts))["fleet"]["nodes"]
    assert twelfth == {
        "name": "n12", "address": "10.0.0.12", "port": 8000, "weight": 100, "share_port": 7999,
    }  # fmt: skip
    assert last == {
        "name": "n13", "address": "n13.internal", "port": 9, "weight": 5, "share_port": None,
    }  # fmt: skip
    named = {"fleet": {"port": 8443, "nodes": [{"name": "x", "address": "y"}]}}
    assert filled(named, gateways(hosts)) == named
    assert filled({"model": "m"}, gateways(hosts)) == {"model": "m"}


@pytest.mark.parametrize(
    ("fleet", "key"),
    [
        ({"port": 8000}, "fleet.port"),
        ({"port": 8002}, "fleet.port"),
        ({"port": 9000, "nodes": [{"name": "a", "address": "b"}] * 2}, "fleet.nodes"),
        ({"port": 9000, "nodes": [{"name": "a", "address": "b", "weight": 0}]}, "fleet.nodes"),
    ],
)  # fmt: skip
def test_fleet_that_cannot_be_meant_is_refused(fleet: dict[str, Any], key: str) -> None:
    found = parse(data(fleet=fleet), CATALOGUE)
    assert not isinstance(found, NodeSpec)
    assert [problem.key for problem in found] == [key]
    assert_message(found[0].message)


def test_one_configuration_has_the_nodes_endpoint_and_the_fleets(tmp_path: Path) -> None:
    asked = filled({"fleet": {"port": 8443}}, gateways(NODES))
    node, _ = settled(tmp_path, **asked)
    config = gateway.desired(node, node.layout()).files[0].content.decode()
    lines = [line.strip() for line in config.splitlines()]
    assert "bind 127.0.0.1:8000" in lines
    assert "bind 127.0.0.1:8443" in lines
    servers = [line for line in lines if re.match(r"server n\d", line)]
    at = "server n01 10.0.0.1:8000 weight 100"
    assert [servers[0], servers[12]] == [
        f"{at} agent-check agent-addr 127.1.0.1 agent-port 8443 agent-inter 2s",
        f"{at} track nodes/n01",
    ]  # fmt: skip
    assert "bind 127.1.0.12:8443" in lines
    assert "server node 10.0.0.12:7999" in lines
    assert len(servers) == 24
    # One of twelve may be out (`rollout.max_out`).
    assert "use_backend nodes_floor if { nbsrv(nodes) lt 11 }" in lines
    assert lines.count("monitor-uri /health") == lines.count("option httpchk GET /health") == 2
    # Of the fleet's two backends alone, and where the engine began nothing that it answers so.
    assert lines.count("retry-on conn-failure 401 503") == 2
    sglang = node.spec.engine.model_copy(update={"name": "sglang"})
    node.spec = node.spec.model_copy(update={"engine": sglang})
    assert b"401 503" not in gateway.desired(node, node.layout()).files[0].content


def test_nodes_with_certificates_are_asked_by_name(tmp_path: Path) -> None:
    (tmp_path / "authority.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    fleet = {"port": 8443, "ca_file": str(tmp_path / "authority.pem")}
    node, _ = settled(tmp_path, **filled({"fleet": fleet}, gateways(NODES[:1])))
    files = {file.path: file for file in gateway.desired(node, node.layout()).files}
    assert files[PATHS.nodes].content.startswith(b"-----BEGIN")
    assert (
        f"ssl verify required ca-file {PATHS.nodes} sni str(n01) verifyhost n01"
        in files[PATHS.config].content.decode()
    )


def ask_fleet(proxy: Proxy, port: int, *given: Any) -> tuple[int, dict[str, str], Any]:
    """A request at the fleet's endpoint."""
    return ask(SimpleNamespace(url=f"http://127.0.0.1:{port}"), *given)  # type: ignore[arg-type]


@pytest.mark.process
def test_fleet_asks_the_nodes_and_leaves_out_one_that_is_drained_or_serves_nobody(
    tmp_path: Path,
) -> None:
    port, folders = free_port(), [tmp_path / name for name in ("one", "two", "all")]
    for folder in folders:
        folder.mkdir()
    with (
        mock("1", "1", "2", "first") as first,
        mock("1", "1", "2", "second") as second,
        running(folders[0], [first]) as one,
        running(folders[1], [second]) as two,
    ):
        servers = [
            BackendServer(f"n{n}", p.url.removeprefix("http://")) for n, p in enumerate((one, two))
        ]
        fleet = GatewayEndpoint("fleet", "127.0.0.1", port, "nodes", servers, refuses_by_503=True)
        with running(folders[2], [first], others=[fleet]) as proxy:
            served = Counter(
                ask_fleet(proxy, port, "/v1/models", "node-key")[1]["x-served-by"]
                for _ in range(10)
            )
            assert set(served) == {"first", "second"}
            assert ask_fleet(proxy, port, "/v1/models", "wrong")[0] == 401
            assert ask_fleet(proxy, port, "/metrics", "node-key")[0] == 403
            haproxy.set_state("n0", "drain", proxy.socket, proxy.kept, "nodes")
            assert {
                ask_fleet(proxy, port, "/v1/models", "node-key")[1]["x-served-by"] for _ in range(6)
            } == {"second"}
            haproxy.set_state("n0", "ready", proxy.socket, proxy.kept, "nodes")
            # The last replica of the other node goes: its own gateway says so.
            haproxy.set_state("vllm0", "drain", two.socket, two.kept)
            # Nobody meets it before that is seen.
            answers = [ask_fleet(proxy, port, "/v1/models", "node-key") for _ in range(6)]
            assert {(code, head.get("x-served-by")) for code, head, _ in answers} == {
                (200, "first")
            }
            until(lambda: haproxy.servers(proxy.socket, "nodes")[1].status == "DOWN")
            assert ask_fleet(proxy, port, "/health", None)[0] == 200
            assert ask_fleet(proxy, port, "/v1/models", "node-key")[1]["x-served-by"] == "first"


@pytest.mark.process
def test_fleet_takes_only_the_node_its_certificate_names(tmp_path: Path) -> None:
    port, folders = free_port(), [tmp_path / name for name in ("node", "fleet")]
    for folder in folders:
        folder.mkdir()
    pem = certificate(folders[0])
    secrets = {**KEYS, "gateway.certificate": Secret(pem)}
    tls = f" ssl verify required ca-file {folders[0]}/crt sni str({{0}}) verifyhost {{0}}"
    with (
        mock("1", "1", "2", "node") as behind,
        running(
            folders[0], [behind], gateway=Gateway(certificate=SecretRef(env="C")), secrets=secrets
        ) as node,
    ):
        address = node.url.removeprefix("http://")
        servers = [
            BackendServer(name, address, 100, tls.format(name)) for name in ("localhost", "other")
        ]
        fleet = GatewayEndpoint("fleet", "127.0.0.1", port, "nodes", servers)
        with running(folders[1], [behind], others=[fleet]) as proxy:
            until(lambda: haproxy.servers(proxy.socket, "nodes")[1].status == "DOWN")
            assert haproxy.servers(proxy.socket, "nodes")[0].takes_requests
            assert ask_fleet(proxy, port, "/v1/models", "node-key")[0] == 200
