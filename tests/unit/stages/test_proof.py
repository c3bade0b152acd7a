"""A node's proof as the deployment asks for it: its rules, its unit, and what check.py judges."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import timestamp
from b200kit.node.proof import command
from b200kit.operations import gate
from b200kit.stages import proof, watchdog
from tests.subtests import in_subtests
from tests.unit.nodes import planned, settled
from tests.unit.specs import CATALOGUE, data

LOOK = f"/etc/systemd/system/{watchdog.LOOK}"


def test_node_reads_the_rules_that_the_inventory_gives(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, proof={"latency_ttl_h": 24.0}, bandwidth="required")
    path = tmp_path / "rules.json"
    path.write_text(machine.text(proof.RULES))
    rules = command.rules_of(path)
    assert (rules.node, rules.ttl_s["latency"]) == (node.name, 86_400)
    assert rules.required == ["look", "gate", "latency", "answers", "bandwidth"]
    assert f"proof --rules {proof.RULES}" in machine.text(LOOK)
    assert planned(node, "watchdog") == []


def test_answers_that_nobody_asks_for_are_no_evidence(tmp_path: Path) -> None:
    node, _ = settled(tmp_path, smoke={"golden_tokens": 0})
    assert json.loads(proof.files(node)[0].content)["required"] == ["look", "gate", "latency"]


def test_nothing_is_issued_or_asked_for_where_it_is_off(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, proof={"issue": "off"})
    assert "proof" not in machine.text(LOOK)
    assert "proof" not in gate.expectation(node, serving=True)
    assert proof.files(node) == []


def test_only_a_node_that_serves_is_asked_for_it(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    units = gate.expectation(node, serving=True)["proof"]["replicas"]
    assert units == ["vllm@0.service", "vllm@1.service"]
    assert "proof" not in gate.expectation(node, serving=False)


def test_a_smoke_test_that_proves_nothing_any_more_is_made_again(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    assert planned(node, "smoke") == []
    state: Any = node.state
    old = datetime.now(UTC) - timedelta(hours=node.spec.proof.latency_ttl_h + 1)
    state["notes"]["smoke"]["taken_at"] = timestamp.text(old)
    assert planned(node, "smoke") != []


@in_subtests(
    ("keys", "refused"),
    [
        ({"look_ttl_s": 54.0}, ["proof.look_ttl_s"]),
        ({"look_ttl_s": 55.0}, []),
        ({"look_ttl_s": 54.0, "issue": "off"}, []),
    ],
)
def test_a_look_that_runs_out_before_the_next_is_refused(
    keys: dict[str, Any], refused: list[str]
) -> None:
    found = parse(data(proof=keys), CATALOGUE)
    problems = [] if isinstance(found, NodeSpec) else [problem.key for problem in found]
    assert problems == refused
