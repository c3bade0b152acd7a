"""The schema of NodeState is made of its description, and that is read right."""

from __future__ import annotations

import jsonschema
import pytest

from b200kit.node.state import node_schema


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(node_schema.schema())


@pytest.mark.parametrize(
    ("node", "part"),
    [
        ("string | its name", {"type": "string", "description": "its name"}),
        ("list count", {"type": "array", "items": {"$ref": "#/$defs/count"}}),
        ("boolean |  | it is for people", {"type": "boolean", "unjudged": "it is for people"}),
        (
            {"$": "list record", "$unique": "id", "id": "count"},
            {
                "type": "array",
                "uniqueBy": ["id"],
                "items": {
                    "type": "object",
                    "properties": {"id": {"$ref": "#/$defs/count"}},
                    "required": ["id"],
                    "additionalProperties": False,
                },
            },
        ),
        ("~ boolean", {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/unmeasured"}]}),
        (
            "map ~? string/boolean",
            {
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/text"},
                "additionalProperties": {
                    "anyOf": [
                        {"type": "string"},
                        {"type": "boolean"},
                        {"type": "null"},
                        {"$ref": "#/$defs/unmeasured"},
                    ]
                },
            },
        ),
        (
            {"$": "record", "id": "count", "name?": "string"},
            {
                "type": "object",
                "properties": {
                    "id": {"$ref": "#/$defs/count"},
                    "name": {"type": "string"},
                },
                "required": ["id"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_a_description_is_read_from_left_to_right(node: object, part: node_schema.Part) -> None:
    kinds = {"count": {"type": "integer", "minimum": "0"}}
    assert node_schema.Description(kinds).part(node) == part
