"""Monitoring: off unless asked for, to named sources alone, and gone again without a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.parse import parse
from b200kit.node.state import drift
from b200kit.node.state.agent import TEXTFILES
from b200kit.serving.gateway.haproxy_config import PATHS
from b200kit.stages import firewall, monitoring
from tests.subtests import in_subtests
from tests.unit.nodes import look, planned, settled
from tests.unit.specs import CATALOGUE, data

ASKED = {"from": ["10.0.9.5", "10.0.8.0/24"]}
PUBLIC = {"gateway_bind": "10.0.0.5", "gateway": {"tls": "off", "authentication": "off"}}
OPEN = {"firewall": {"allow": [{"port": 8000, "from": ["any"]}]}}


def test_nothing_is_there_that_nobody_asked_for(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, proof={"share_port": None})
    assert planned(node, "monitoring") == []
    assert "frontend metrics" not in machine.text(PATHS.config)
    assert not monitoring.desired(node, node.layout()).files


def test_the_socket_answers_and_the_gateway_asks_it(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, monitoring=ASKED)
    assert planned(node, "monitoring") == []
    assert machine.is_active(monitoring.SOCKET)
    config = machine.text(PATHS.config)
    socket = machine.text(f"/etc/systemd/system/{monitoring.SOCKET}")
    assert f"server node unix@{PATHS.metrics}\n" in config
    assert f"ListenStream={PATHS.metrics}\nListenStream={PATHS.share}\n" in socket
    assert "tcp-request connection reject if !{ src 10.0.9.5 10.0.8.0/24 }\n" in config
    assert monitoring.EXPORTER not in machine.packages


def test_node_exporter_reads_what_the_look_writes(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, monitoring=ASKED | {"node_exporter": 9100}, **OPEN)
    assert planned(node, "monitoring") == []
    assert monitoring.EXPORTER in machine.packages
    arguments = machine.text("/etc/default/prometheus-node-exporter")
    assert "--web.listen-address=127.0.0.1:9100 " in arguments
    assert f"--collector.textfile.directory={TEXTFILES}" in arguments


def test_what_is_not_asked_for_any_more_is_removed(tmp_path: Path) -> None:
    node, _ = settled(tmp_path, monitoring=ASKED, proof={"share_port": None})
    node.spec = node.spec.replace(monitoring=None)
    look(node)
    assert [c[:7] for c in planned(node, "monitoring")] == ["remove "]


def test_the_firewall_opens_the_ports_to_the_same_sources(tmp_path: Path) -> None:
    node, _ = settled(tmp_path, monitoring=ASKED | {"node_exporter": 9100}, **OPEN)
    opened = {(e["port"], e["source"]) for e in firewall.expected(node)["firewall"]}
    sources = ("10.0.9.5", "10.0.8.0/24")
    assert opened == {(8000, "any"), (7999, "any")} | {
        (port, s) for port in (9464, 9100) for s in sources
    }


@in_subtests(
    "changes, key",
    [
        ({"monitoring": {"from": []}}, "monitoring.from"),
        ({"monitoring": {"from": ["0.0.0.0/0"]}}, "monitoring.from"),
        ({"monitoring": {"from": ["128.0.0.0/1", "::1", "0.0.0.0/1"]}}, "monitoring.from"),
        ({"monitoring": {"from": ["2000::/3"]}}, "monitoring.from"),
        ({"monitoring": {"from": ["::ffff:0:0/96"]}}, "monitoring.from"),
        ({"monitoring": {}}, "monitoring.from"),
        ({"monitoring": ASKED | {"port": 8000}}, "monitoring.port"),
        ({"monitoring": ASKED | {"port": 8002}}, "monitoring.port"),
        ({"monitoring": ASKED | {"node_exporter": 9464}}, "monitoring.node_exporter"),
        ({"monitoring": ASKED | {"node_exporter": 9100}, **PUBLIC}, "monitoring.node_exporter"),
    ],
)
def test_what_nobody_can_have_meant_is_refused(changes: dict[str, Any], key: str) -> None:
    found = parse(data(**changes), CATALOGUE)
    assert isinstance(found, list)
    assert [problem.key for problem in found if isinstance(problem, Problem)] == [key]


def test_a_changed_answer_is_no_reason_to_end_what_serves(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, monitoring=ASKED)
    machine.write(f"/etc/systemd/system/{monitoring.ANSWER}", b"[Service]\n")
    look(node)
    assert planned(node, "monitoring")[-1] == f"restart {monitoring.SOCKET}"
    assert not drift.wrong_packages(monitoring.desired(node, ()).packages, node.state or {}, {})
