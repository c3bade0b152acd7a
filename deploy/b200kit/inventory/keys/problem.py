"""What is wrong with inventory data: one line a problem, all of them at once. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from b200kit.inventory.keys.types import Keys

K = TypeVar("K", bound=Keys)
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Problem:
    """One refusal: the dotted *key* it concerns and a *message* that says what is expected."""

    key: str
    message: str


def parse_keys(model: type[K], data: Mapping[str, object]) -> K | list[Problem]:
    """The model of *data*, or every problem found in it."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        return [_problem(json_schema(model), found) for found in error.errors(include_url=False)]


@cache
def json_schema(model: type[Keys]) -> Schema:
    """The model as a JSON schema, whose strings state in `expected` what they must be."""
    return model.model_json_schema()


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """The end of a refusal of *name*: the known name that is nearest, if one is near."""
    close = difflib.get_close_matches(name, known, n=1)
    return f'; did you mean "{prefix}{close[0]}"?' if close else ""


def _problem(root: Schema, found: ErrorDetails) -> Problem:
    *parents, name = path = found["loc"]
    key = ".".join(map(str, path))
    if found["type"] == "extra_forbidden":
        known = _at(root, parents)["properties"]
        return Problem(key, f"unknown key{did_you_mean(str(name), known)}")
    if found["type"] == "missing":
        return Problem(key, f"is required: {_at(root, parents)['properties'][name]['description']}")
    if found["type"] == "invalid_key":
        return Problem(key, f"is no name of a key: {show(name)}, not a string")
    if name == "[key]":
        return Problem(".".join(map(str, path[:-2])), f"must have string keys, not {path[-2]!r}")
    if found["type"] == "twice":
        return Problem(key, f"{found['ctx']['name']} is given twice")
    schema, shown = _at(root, path), show(found["input"])
    if found["type"] == "model_type" or schema.get("unsaid"):
        # Not the value itself: where a reference to a secret belongs it may be the secret.
        shown = type(found["input"]).__name__
    return Problem(key, f"must be {expected(schema)}, not {shown}")


def _at(root: Schema, path: Sequence[int | str]) -> Schema:
    """The schema of the value at *path*."""
    schema = root
    for step in path:
        if isinstance(step, int):
            schema = schema["items"]
        else:
            keys = schema.get("properties", {})
            schema = keys[step] if step in keys else schema["additionalProperties"]
        schema = not_none(schema)
        # What the place itself says it must be stays in force over its model.
        schema = root.get("$defs", {}).get(model_name(schema), {}) | schema
    return schema


def not_none(schema: Schema) -> Schema:
    """What a value must be that is not None."""
    return next((way for way in schema.get("anyOf", ()) if way != {"type": "null"}), schema)


def model_name(schema: Schema) -> str:
    """The name of the model that a mapping, or each item of a list, is; empty for others."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def expected(schema: Schema) -> str:
    """What a value must be, in words."""
    if "anyOf" in schema:
        return f"None or {expected(not_none(schema))}"
    if "expected" in schema:
        return str(schema["expected"])
    if choices := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return f"one of {', '.join(choices)}"
    match schema.get("type"):
        case "string":
            return "a string"
        case "boolean":
            return "True or False"
        case "integer":
            return f"a whole number from {schema['minimum']} to {schema['maximum']}"
        case "number":
            return f"a number from {schema['minimum']} to {schema['maximum']}"
        case "array":
            return f"a list, each item {expected(schema['items'])}"
    if "additionalProperties" in schema and "properties" not in schema:
        return f"a mapping with string keys, each value {expected(schema['additionalProperties'])}"
    return "a mapping"


_TELLING = re.compile(r"://\S*[@?#]")
"""A URL with a user or a query, which may be a password or a token."""


def show(raw: object) -> str:
    """A wrong value: its type, and itself where that helps; a long or structured one does not."""
    plain = isinstance(raw, str | float) or (isinstance(raw, int) and abs(raw) < 1 << 64)
    is_shown = plain and not _TELLING.search(str(raw))
    return f"{type(raw).__name__} {raw!r}" if is_shown else type(raw).__name__
