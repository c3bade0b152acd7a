"""A change of a node in its desired state leads to exactly its plans, and those to none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit.operations.reboot import reasons
from b200kit.stages import pipeline
from tests.fake.machine import Machine
from tests.unit import paths
from tests.unit.nodes import look, make, planned, planned_by_stage, settled

CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("plans.yaml").read_text(encoding="utf-8")
)


def spoil(machine: Machine, case: dict[str, Any]) -> None:
    """Make of the machine what a case says."""
    for path, content in case.get("files", {}).items():
        if content is not None:
            machine.write(path, content.encode())
        else:
            named = [p for p in machine.files if p == path or (path[-1] == "/" and path in p)]
            assert named
            for each in named:
                del machine.files[each]
    for path, mode in case.get("modes", {}).items():
        machine.files[path]["mode"] = mode
    for name in ("packages", "units"):
        for key, changes in case.get(name, {}).items():
            getattr(machine, name).setdefault(key, {}).update(changes)
    for path, value in case.get("hardware", {}).items():
        paths.put(machine.hardware, paths.parse(path), value)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_one_change_leads_to_exactly_its_plans_and_then_to_none(tmp_path: Path, name: str) -> None:
    node, machine = settled(tmp_path)
    spoil(machine, CASES[name])
    look(node)
    assert planned_by_stage(node) == CASES[name]["plans"]
    for stage in pipeline.stages():
        if planned(node, stage.name):
            make(node, stage.name)
    assert planned_by_stage(node) == {}
    assert reasons(node) == []
