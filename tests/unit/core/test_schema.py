"""The schema of NodeState describes every recorded and every spoiled state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import deploy.core
from deploy.core.state import SCHEMA
from tests.unit import states
from tests.unit.faults import DIAGNOSES, FAULTS
from tests.unit.states import Fault

PATH = Path(deploy.core.__file__).parent / "node-state.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(PATH.read_text()))


def problems(state: dict[str, Any]) -> list[str]:
    """What the schema says against a state."""
    return [f"{e.json_path}: {e.message[:200]}" for e in VALIDATOR.iter_errors(state)]


def test_the_schema_is_one_and_names_the_version() -> None:
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)
    assert isinstance(VALIDATOR.schema, dict)
    assert VALIDATOR.schema["properties"]["schema"]["const"] == SCHEMA


@pytest.mark.parametrize("path", sorted(states.STATES.glob("*.json")), ids=lambda p: p.stem)
def test_recorded_state_is_valid_and_tells_where_it_is_from(path: Path) -> None:
    state = json.loads(path.read_text())
    assert problems(state) == []
    assert state["provenance"]


@pytest.mark.parametrize("fault", [*FAULTS, *DIAGNOSES], ids=lambda f: f.id)
def test_fault_is_one_a_node_can_report(fault: Fault) -> None:
    assert problems(fault.applied()[1]) == []


@pytest.mark.parametrize("key", ["gpus", "p2p", "numa", "units", "modules"])
def test_state_without_a_part_is_invalid(key: str) -> None:
    state = states.healthy()
    del state[key]
    assert problems(state) != []


def test_a_misspelt_key_is_invalid() -> None:
    state = states.healthy()
    state["gpus"][0]["vboss"] = "x"
    assert problems(state) != []
