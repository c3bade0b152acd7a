"""The JSON schema of NodeState, made from the short description in catalog/node-state.yaml.

Each reading is `KIND | what it is | why no check judges it`, the last two only where there is
something to say, or a mapping with that under `$` and the fields of its record beside it; a field
whose name ends in "?" may be absent. A KIND is read from left to right: `~` the reading may be
unmeasured, `~?` it may also be null, `list` and `map` hold the kind that follows, `record` has the
fields, and a slash separates alternatives. Other words are JSON schema's types or the kinds at the
top of the file. Beside a list of records `$unique` names the fields whose values only one entry may
have, and `$most` says how many entries there can be. The keywords `uniqueBy` and `unjudged` of the
schema are ours.

The node program reads every document through the same schema (b200kit/node/state/plausible.py), so
it is stored there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from b200kit.catalog import shipped
from b200kit.run.places import PACKAGE

Part = dict[str, Any]
STORED = PACKAGE / "node" / "state" / "node-state.schema.json"
_SOURCE = PACKAGE / "catalog" / "node-state.yaml"
_UNMEASURED = {"$ref": "#/$defs/unmeasured"}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> Part:
    """The schema as a document."""
    source = shipped.read(_SOURCE)
    made = Description(source["kinds"])
    head = {"$schema": _DIALECT, **source["head"]}
    definitions = {"unmeasured": made.part(source["unmeasured"]), **made.definitions()}
    return {**head, **made.part(source["state"]), "$defs": definitions}


def schema_json() -> str:
    """node/state/node-state.schema.json, as it is stored."""
    return json.dumps(schema(), indent=1, ensure_ascii=True) + "\n"


class Description:
    """Makes the parts of a schema, given the kinds that have a name."""

    def __init__(self, kinds: Mapping[str, Part]) -> None:
        self._kinds = kinds

    def definitions(self) -> dict[str, Part]:
        """The kinds that have a name, by it."""
        return {
            name: self.part(kind) if "$" in kind else dict(kind)
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
            most = {"maxItems": fields["$most"]} if "$most" in fields else {}
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
