"""docs/reference/node-state.md: every field of an observation, from its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from b200kit import catalog
from b200kit.cli.markdown import table

_SCHEMA = Path(catalog.__file__).parent / "node-state.schema.json"
_UNMEASURED = {"$ref": "#/$defs/unmeasured"}

_HEAD = """\
# NodeState

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

One observation of a node, schema `b200kit/node-state/1`: what `observe` prints, `b200 judge` reads
and `reports/RUN/HOST.json` keeps under `state`. A *reading* is a plain value or
`{"unmeasured": "reason"}`; a whole part may be one unmeasured reading. `null` means absent on the
node, never unknown. A missing key counts as unmeasured. Memory of GPUs is in MiB, power in mW,
clocks in MHz, temperature in C. How to write one by hand: [Extend](../extend.md#a-recorded-node).

`[]` stands for an entry of a list, `*` for any key of a mapping.

"""


def node_state_markdown() -> str:
    """The whole page."""
    schema = json.loads(_SCHEMA.read_text(encoding="utf-8"))
    rows = ((f"`{path}`", kind, text) for path, kind, text in _fields(schema, ""))
    return _HEAD + table(("field", "type", "meaning"), rows)


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Path, type and meaning of everything below one schema."""
    for key, below in schema.get("properties", {}).items():
        yield from _field(below, f"{path}.{key}".lstrip("."))
    items, other = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict):
        yield from _below(items, f"{path}[]")
    if isinstance(other, dict):
        yield from _below(other, f"{path}.*")


def _field(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    yield path, _type(schema), _meaning(schema)
    for form in _forms(schema):
        yield from _fields(form, path)


def _below(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """An entry of a list or mapping: a row of its own only where it has a meaning of its own."""
    if _meaning(schema):
        yield path, _type(schema), _meaning(schema)
    for form in _forms(schema):
        yield from _fields(form, path)


def _forms(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The alternatives of a schema but that of being unmeasured."""
    return [form for form in schema.get("anyOf", [schema]) if form != _UNMEASURED]


def _type(schema: Mapping[str, Any]) -> str:
    names = [str(form.get("type", json.dumps(form.get("const")))) for form in _forms(schema)]
    reading = _UNMEASURED in schema.get("anyOf", [])
    return ", ".join(dict.fromkeys(names)) + (", or unmeasured" if reading else "")


def _meaning(schema: Mapping[str, Any]) -> str:
    texts = [schema.get("description"), *(form.get("description") for form in _forms(schema))]
    return "; ".join(dict.fromkeys(text for text in texts if text))
