"""The JSON schema of NodeState, and the part of it that describes one place of a document."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from b200kit.node.state import node_schema
from tests.unit import paths

if TYPE_CHECKING:
    import jsonschema

Schema = dict[str, Any]


schema = node_schema.schema


@cache
def _validator() -> jsonschema.Draft202012Validator:
    import jsonschema  # a sixth of a second, which whoever reads paths alone need not wait for

    return jsonschema.Draft202012Validator(schema())


def problems(state: object) -> list[str]:
    """What the schema says against a state."""
    return [f"{e.json_path}: {e.message[:200]}" for e in _validator().iter_errors(state)]


def allows(path: paths.Path, value: object) -> bool:
    """Whether the schema allows a value at a path."""
    parts = parts_at(path)
    return any(_validator().evolve(schema=part).is_valid(value) for part in parts)


def parts_at(path: paths.Path) -> list[Schema]:
    """Every alternative that describes what is at a path; [] where the schema knows no such key."""
    parts = [schema()]
    for key in path:
        parts = [found for part in parts for one in _choices(part) for found in _below(one, key)]
    return parts


NOT_HERE = {
    "kernel.driver_options.EnablePCIERelaxedOrderingMode": "only where the hardware file names it",
    "kernel.governors.performance": "how many CPUs have it: the names are judged",
    "units[nvidia-persistenced.service].main_pid": "a unit of the inventory's may be one act",
}
"""Entries of mappings that no check of these tests' expectation reads, and why."""


def is_judged(path: paths.Path) -> bool:
    """Whether a check reads what is at a path; the schema says why where none does."""
    if paths.write(path) in NOT_HERE:
        return False
    above = [part for depth in range(len(path)) for part in parts_at(path[: depth + 1])]
    return not any("unjudged" in choice for part in above for choice in _choices(part))


def _choices(part: Schema) -> Iterator[Schema]:
    """A schema and those it offers to choose from."""
    if "$ref" in part:
        part = {**schema()["$defs"][part["$ref"].rsplit("/", 1)[-1]], **part}
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
