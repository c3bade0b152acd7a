"""What is judged only once a node serves: where its replicas really run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.operations import gate as verdict
from b200kit.run.node import Node
from b200kit.stages import gate
from tests.fake.machine import Machine
from tests.messages import assert_message
from tests.unit.nodes import bare, look, settled

PINNING = "/etc/systemd/system/vllm@1.service.d/pinning.conf"


def seen(node: Node) -> dict[str, Any]:
    """The node's last observation."""
    return node.state or {}


def unpinned(machine: Machine) -> None:
    """A drop-in that pins nothing: the unit's processes may be anywhere."""
    machine.write(PINNING, b"[Service]\n")


def test_node_whose_replicas_run_as_planned_goes_on(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    verdict.require(node, seen)
    verdict.require_serving_checks(node, seen)
    assert node.record.outcome is None
    assert node.record.verdict is not None
    checks = [finding["check"] for finding in node.record.verdict["findings"]]
    for name in ("placement.cpus", "placement.memory", "placement.gpus"):
        assert checks.count(name) == 1
    assert len(checks) > 20  # those of the gate are kept


def test_replica_on_foreign_cpus_is_no_matter_of_the_gate(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    unpinned(machine)
    look(node)
    verdict.require(node, seen)
    assert node.record.outcome is None
    assert "placement" not in gate.expectation(node)


def test_replica_on_foreign_cpus_ends_red_and_serves_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node, machine = settled(tmp_path)
    unpinned(machine)
    look(node)
    machine.log.clear()
    verdict.require(node, seen)
    verdict.require_serving_checks(node, seen)
    assert (node.record.outcome, node.record.stage) == ("red", "proof")
    assert_message(capsys.readouterr().err)
    assert machine.ran("systemctl stop .*haproxy.service")


def test_node_whose_replicas_cannot_be_observed_serves_no_more(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    verdict.require(node, seen)
    machine.log.clear()
    nothing = {key: value for key, value in seen(node).items() if key != "processes"}
    verdict.require_serving_checks(node, lambda _: nothing)
    assert (node.record.outcome, node.record.stage) == ("red", "proof")
    assert (node.record.verdict or {})["fit"] == "unmeasured"
    assert machine.ran("systemctl stop .*haproxy.service")


def test_check_names_a_replica_on_foreign_cpus(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    unpinned(machine)
    look(node)
    verdict.report(node, seen)
    assert node.record.outcome == "unfit"
    assert "vllm@1.service" in (node.record.error or "")


def test_node_that_does_not_serve_yet_has_no_finding_of_placement(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    for unit in ("vllm@0.service", "vllm@1.service"):
        machine.units[unit]["active"] = "inactive"
    look(node)
    verdict.report(node, seen)
    assert node.finished is not None
    assert node.record.state is node.state is None  # a thousand of them would be a gigabyte
    found = json.loads(gzip.decompress(node.finished.content))["verdict"]["findings"]
    placement = [f for f in found if f["check"].startswith("placement.")]
    assert [finding["status"] for finding in placement] == ["pass"] * 3


def test_node_without_a_layout_is_not_taken_for_well_placed(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    asked = verdict.expectation(node, serving=True)["placement"]
    assert_message(asked["unmeasured"])
