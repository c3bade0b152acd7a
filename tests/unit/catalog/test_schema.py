"""The schema of NodeState describes every recorded state; those of tests/corpus in test_corpus."""

from __future__ import annotations

import jsonschema

from b200kit.node.state.view import SCHEMA
from tests.subtests import in_subtests
from tests.unit import node_schema, readings, states
from tests.unit.node_schema import problems


def test_the_schema_is_one_and_names_the_version() -> None:
    schema = node_schema.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$defs"]["schema-id"]["const"] == SCHEMA


@in_subtests("name", states.NAMES)
def test_recorded_state_is_valid_and_tells_where_it_is_from(name: str) -> None:
    state = states.recorded(name)
    assert problems(state) == []
    assert state["provenance"]


@in_subtests("key", ["gpus", "p2p", "numa", "units", "modules"], one_in=5)
def test_state_without_a_part_is_invalid(key: str) -> None:
    state = states.healthy()
    del state[key]
    assert problems(state) != []


def test_a_misspelt_key_is_invalid() -> None:
    state = states.healthy()
    state["gpus"][0]["vboss"] = "x"
    assert problems(state) != []


def kinds() -> list[str]:
    """Kinds of reading of a node, and not of how the state was recorded."""
    return [kind for kind in readings.kinds() if not kind.startswith("provenance.")]


@in_subtests("kind", kinds, one_in=10)
def test_the_schema_knows_every_recorded_reading(kind: str) -> None:
    """The corpus takes the schema's word for keys that it adds."""
    assert node_schema.parts_at(readings.kinds()[kind]) != []


def test_the_schema_knows_no_key_that_is_made_up() -> None:
    for path in (("gpus", 0, "vboss"), ("gpuz",), ("gpus", "vbios"), ("host", 0)):
        assert node_schema.parts_at(path) == []
