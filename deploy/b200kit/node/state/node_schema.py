"""The JSON schema of NodeState, made from the short description in node-state.yaml.

Each reading is `KIND | what it is | why no check judges it`, the last two only where there is
something to say, or a mapping with that under `$` and the fields of its record beside it; a field
whose name ends in "?" may be absent. A KIND is read from left to right: `~` the reading may be
unmeasured, `~?` it may also be null, `list` and `map` hold the kind that follows, `record` has the
fields, and a slash separates alternatives. Other words are JSON schema's types or the kinds at the
top of the file. Beside a list of records `$unique` names the fields whose values only one entry may
have, and `$most` says how many entries there can be. The keywords `uniqueBy` and `unjudged` of the
schema are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from b200kit.node.lib import tables

Part = dict[str, Any]
_UNMEASURED = {"$ref": "#/$defs/unmeasured"}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def schema() -> Part:
    """The schema as a document."""
    source = tables.load(__package__, "node-state")
    made = Description(source["kinds"])
    head = {"$schema": _DIALECT, **source["head"]}
    definitions = {"unmeasured": made.part(source["unmeasured"]), **made.definitions()}
    return {**head, **made.part(source["state"]), "$defs": definitions}


def _typed(value: Any) -> Any:
    """Numbers and true of a table, which has texts alone."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_typed(inner) for inner in value]
    return int(value) if re.fullmatch("-?[0-9]+", value) else True if value == "true" else value


class Description:
    """Makes the parts of a schema, given the kinds that have a name."""

    def __init__(self, kinds: Mapping[str, Part]) -> None:
        self._kinds = kinds

    def definitions(self) -> dict[str, Part]:
        """The kinds that have a name, by it."""
        return {
            name: self.part(kind) if "$" in kind else _typed(kind)
            for name, kind in self._kinds.items()
        }

    def part(self, node: object) -> Part:
        """The part that a node of the description stands for."""
        fields = dict(node) if isinstance(node, Mapping) else {"$": node}
        kind, doc, unjudged, *_ = [*str(fields.pop("$")).split(" | "), "", ""]
        words = {"description": doc.strip(), "unjudged": unjudged}
        return {**self._kind(kind, fields), **{key: text for key, text in words.items() if text}}

    def _kind(self, kind: str, fields: Mapping[str, object]) -> Part:
        for mark, more in (("~?", [{"type": "null"}, _UNMEASURED]), ("~", [_UNMEASURED])):
            if kind.startswith(mark):
                rest = kind.removeprefix(mark).strip()
                names = [rest] if " " in rest else rest.split("/")
                return {"anyOf": [*(self._kind(name, fields) for name in names), *more]}
        word, _, rest = kind.partition(" ")
        if word == "list":
            part = {"type": "array", "items": self._kind(rest, fields)}
            unique = str(fields.get("$unique", "")).split()
            most = {"maxItems": int(str(fields["$most"]))} if "$most" in fields else {}
            return {**part, **most, **({"uniqueBy": unique} if unique else {})}
        if word == "map":
            keys = {"$ref": "#/$defs/text"}
            below = self._kind(rest, fields)
            return {"type": "object", "propertyNames": keys, "additionalProperties": below}
        if word == "record":
            return {**self._record(fields), "additionalProperties": False}
        if word == "open-record":
            return self._record(fields)
        return {"$ref": f"#/$defs/{word}"} if word in self._kinds else {"type": word}

    def _record(self, fields: Mapping[str, object]) -> Part:
        own = {name: field for name, field in fields.items() if not name.startswith("$")}
        return {
            "type": "object",
            "properties": {n.removesuffix("?"): self.part(field) for n, field in own.items()},
            "required": [name for name in own if not name.endswith("?")],
        }
