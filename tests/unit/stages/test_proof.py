"""A node's proof as the deployment asks for it: its rules, its unit, and what check.py judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import documents
from b200kit.node.state.proof import Consequence, ProofRules
from b200kit.operations import gate
from b200kit.serving.gateway.haproxy_config import PATHS
from b200kit.stages import firewall, monitoring, proof, smoke, watchdog
from tests.fake import proofs
from tests.subtests import in_subtests
from tests.unit.nodes import look, planned, settled
from tests.unit.specs import CATALOGUE, data

AGENT = f"/etc/systemd/system/{watchdog.UNIT}"


def test_node_reads_the_rules_that_the_inventory_gives(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, proof={"latency_ttl_h": 24.0}, bandwidth="required")
    path = tmp_path / "rules.json"
    path.write_text(machine.text(proof.RULES))
    rules = documents.load(ProofRules, path)
    assert (rules.node, rules.ttl_s["latency"]) == (node.name, 86_400)
    assert tuple(rules.required) == ("health", "gate", "latency", "answers", "bandwidth")
    assert f" --proof {proof.RULES} " in machine.text(AGENT)
    assert planned(node, "watchdog") == []


def test_answers_that_nobody_asks_for_are_no_evidence(tmp_path: Path) -> None:
    node, _ = settled(tmp_path, smoke={"golden_tokens": 0})
    assert json.loads(proof.files(node)[0].content)["required"] == ["health", "gate", "latency"]


def test_nothing_is_issued_or_asked_for_where_it_is_off(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, proof={"issue": "off"})
    assert " --proof " not in machine.text(AGENT)
    assert "proof" not in gate.expectation(node, serving=True)
    assert proof.files(node) == []


def test_only_a_node_that_serves_is_asked_for_it(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    units = gate.expectation(node, serving=True)["proof"]["replicas"]
    assert units == ["vllm@0.service", "vllm@1.service"]
    assert "proof" not in gate.expectation(node, serving=False)


@pytest.mark.parametrize(("share", "due"), [(0.79, False), (0.81, True), (1.5, True)])
def test_a_smoke_test_that_runs_out_is_made_again_and_without_users(
    tmp_path: Path, share: float, due: bool
) -> None:
    node, machine = settled(tmp_path)
    proofs.age(machine, smoke.RECORD, share * node.spec.proof.latency_ttl_h)
    look(node)
    changes = smoke.STAGE.plan(node)
    assert [change.drained for change in changes] == ([True, False] if due else [])


def test_a_smoke_test_that_is_asked_for_waits_for_no_wave(tmp_path: Path) -> None:
    node, _ = settled(tmp_path, smoke_always=True)
    changes = smoke.STAGE.plan(node)
    assert [change.drained for change in changes] == [False, False]


@in_subtests(
    ("keys", "refused"),
    [
        ({"health_ttl_s": 54.0}, ["proof.health_ttl_s"]),
        ({"health_ttl_s": 55.0}, []),
        ({"health_ttl_s": 54.0, "issue": "off"}, []),
    ],
)
def test_a_look_that_runs_out_before_the_next_is_refused(
    keys: dict[str, Any], refused: list[str]
) -> None:
    found = parse(data(proof=keys), CATALOGUE)
    problems = [] if isinstance(found, NodeSpec) else [problem.key for problem in found]
    assert problems == refused


def test_whoever_may_reach_the_gateway_may_ask_for_the_share(tmp_path: Path) -> None:
    rule = {"allow": [{"port": 8000, "from": ["10.0.0.0/24"]}, {"port": 8100, "from": ["any"]}]}
    node, machine = settled(tmp_path, firewall=rule, proof={"share_port": 7001})
    assert machine.is_active(monitoring.SOCKET)
    assert "bind 127.0.0.1:7001" in machine.text(PATHS.config)
    opened = {(e["port"], e["source"]) for e in firewall.expected(node)["firewall"]}
    assert opened == {(8000, "10.0.0.0/24"), (7001, "10.0.0.0/24"), (8100, "any")}


@pytest.mark.parametrize("asked", [{"issue": "off"}, {"share_port": None}])
def test_nobody_can_ask_where_nothing_is_proven_or_said(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    node, machine = settled(tmp_path, proof=asked)
    assert "frontend share" not in machine.text(PATHS.config)
    assert monitoring.desired(node, ()).units == ()


def test_the_node_reads_what_an_expired_proof_is_to_do(tmp_path: Path) -> None:
    _, machine = settled(tmp_path, proof={"expired_share": 20, "out_after_s": 60})
    rules = documents.decode(ProofRules, machine.text(proof.RULES))
    assert rules.expired == Consequence(20, 60.0)


def test_a_port_that_is_anothers_is_refused() -> None:
    found = parse(data(proof={"share_port": 8001}), CATALOGUE)
    assert not isinstance(found, NodeSpec)
    assert [problem.key for problem in found] == ["proof.share_port"]
