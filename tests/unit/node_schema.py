"""The JSON schema of NodeState, and the part of it that describes one place of a document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema

from b200kit.run.places import PACKAGE
from tests.unit import paths

PATH = PACKAGE / "catalog" / "node-state.schema.json"
Schema = dict[str, Any]


@cache
def schema() -> Schema:
    """The whole schema."""
    document: Schema = json.loads(PATH.read_text(encoding="utf-8"))
    return document


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def problems(state: object) -> list[str]:
    """What the schema says against a state."""
    return [f"{e.json_path}: {e.message[:200]}" for e in _validator().iter_errors(state)]


def parts_at(path: paths.Path) -> list[Schema]:
    """Every alternative that describes what is at a path; [] where the schema knows no such key."""
    parts = [schema()]
    for key in path:
        parts = [found for part in parts for one in _choices(part) for found in _below(one, key)]
    return parts


def _choices(part: Schema) -> Iterator[Schema]:
    """A schema and those it offers to choose from."""
    if "$ref" in part:
        part = schema()["$defs"][part["$ref"].rsplit("/", 1)[-1]]
    yield part
    for choice in part.get("anyOf", []):
        yield from _choices(choice)


def _below(part: Schema, key: paths.Key) -> list[Schema]:
    """The schemas of a key, or of an entry of a list."""
    if isinstance(key, int) or (key == paths.EVERY and "items" in part):
        return [part["items"]] if "items" in part else []
    named = part.get("properties", {})
    if key in named:
        return [named[key]]
    more = part.get("additionalProperties", False if named else None)
    return [more] if isinstance(more, dict) else []
