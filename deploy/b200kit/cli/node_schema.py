"""The JSON schema of NodeState, made from the short description in catalog/node-state.yaml.

Each reading is `KIND | what it is`, or a mapping with that under `$` and the fields of its record
beside it; a field whose name ends in "?" may be absent. A KIND is read from left to right: `~` the
reading may be unmeasured, `~?` it may also be null, `list` and `map` hold the kind that follows,
`record` has the fields, and a slash separates alternatives. Other words are JSON schema's types or
the kinds at the top of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from b200kit.run.places import PACKAGE

Part = dict[str, Any]
STORED = PACKAGE / "catalog" / "node-state.schema.json"
_SOURCE = PACKAGE / "catalog" / "node-state.yaml"
_UNMEASURED = {"$ref": "#/$defs/unmeasured"}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> Part:
    """The schema as a document."""
    source = yaml.safe_load(_SOURCE.read_text(encoding="utf-8"))
    made = Description(source["kinds"])
    head = {"$schema": _DIALECT, **source["head"]}
    unmeasured = made.part(source["unmeasured"])
    return {**head, **made.part(source["state"]), "$defs": {"unmeasured": unmeasured}}


def schema_json() -> str:
    """catalog/node-state.schema.json, as it is stored."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


class Description:
    """Makes the parts of a schema, given the kinds that have a name."""

    def __init__(self, kinds: Mapping[str, Part]) -> None:
        self._kinds = kinds

    def part(self, node: object) -> Part:
        """The part that a node of the description stands for."""
        fields = dict(node) if isinstance(node, Mapping) else {"$": node}
        kind, _, doc = str(fields.pop("$")).partition(" | ")
        part = self._kind(kind, fields)
        return {**part, "description": doc} if doc else part

    def _kind(self, kind: str, fields: Mapping[str, object]) -> Part:
        for mark, more in (("~?", [{"type": "null"}, _UNMEASURED]), ("~", [_UNMEASURED])):
            if kind.startswith(mark):
                rest = kind.removeprefix(mark).strip()
                names = [rest] if " " in rest else rest.split("/")
                return {"anyOf": [*(self._kind(name, fields) for name in names), *more]}
        word, _, rest = kind.partition(" ")
        if word == "list":
            return {"type": "array", "items": self._kind(rest, fields)}
        if word == "map":
            return {"type": "object", "additionalProperties": self._kind(rest, fields)}
        if word == "record":
            return {**self._record(fields), "additionalProperties": False}
        if word == "open-record":
            return self._record(fields)
        known = self._kinds.get(word, {"type": word})
        return self.part(known) if "$" in known else dict(known)

    def _record(self, fields: Mapping[str, object]) -> Part:
        return {
            "type": "object",
            "properties": {n.removesuffix("?"): self.part(field) for n, field in fields.items()},
            "required": [name for name in fields if not name.endswith("?")],
        }
