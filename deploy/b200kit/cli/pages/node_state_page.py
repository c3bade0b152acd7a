"""docs/reference/node-state.md: every field of an observation, from its JSON schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from b200kit.cli import node_schema
from b200kit.cli.pages.markdown import table
from b200kit.node.state import plausible

Part = Mapping[str, Any]
Row = tuple[str, str, str]
_UNMEASURED = {"$ref": "#/$defs/unmeasured"}

_HEAD = """\
# NodeState

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

One observation of a node, schema `b200kit/node-state/1`: what `observe` prints, `b200 judge` reads
and `reports/RUN/HOST.json.gz` keeps under `state`. A *reading* is a plain value or
`{"unmeasured": "reason"}`; a whole part may be one unmeasured reading. `null` means absent on the
node, never unknown. A missing key counts as unmeasured, and so does a value outside what its kind
allows ("implausible"), or one that several entries have where only one may. Memory of GPUs is in
MiB, power in mW, clocks in MHz, temperature in C. How to write one by hand:
[Extend](../extend.md#a-recorded-node).

`[]` stands for an entry of a list, `*` for any key of a mapping. The values of each kind are
[below](#kinds). A field that no check reads says why.

"""

_KINDS = """\

## Kinds

A value outside is unmeasured.

"""


def node_state_markdown() -> str:
    """The whole page."""
    page = _Page(node_schema.schema())
    return "".join(
        (
            _HEAD,
            table(("field", "kind", "meaning"), page.fields(page.schema, "")),
            _KINDS,
            table(("kind", "values"), page.kinds()),
        )
    )


class _Page:
    """The rows of the page, from the schema."""

    def __init__(self, schema: Part) -> None:
        self.schema = schema
        self._known = schema["$defs"]

    def fields(self, part: Part, path: str) -> Iterator[Row]:
        """Path, kind and meaning of everything below a part."""
        part = self._resolved(part)
        for key, below in part.get("properties", {}).items():
            yield from self._field(below, f"{path}.{key}".lstrip("."))
        for below, mark in ((part.get("items"), "[]"), (part.get("additionalProperties"), ".*")):
            if isinstance(below, dict):
                yield from self._below(below, f"{path}{mark}")

    def _field(self, part: Part, path: str) -> Iterator[Row]:
        yield f"`{path}`", self._kind(part), _meaning(part)
        yield from self._forms_below(part, path)

    def _below(self, part: Part, path: str) -> Iterator[Row]:
        """An entry of a list or mapping: a row of its own only where it is a plain value."""
        if any("properties" not in self._resolved(form) for form in _forms(part)):
            yield f"`{path}`", self._kind(part), _meaning(part)
        yield from self._forms_below(part, path)

    def _forms_below(self, part: Part, path: str) -> Iterator[Row]:
        for form in _forms(part):
            yield from self.fields(form, path)

    def _resolved(self, part: Part) -> Part:
        while "$ref" in part:
            part = self._known[part["$ref"].rsplit("/", 1)[-1]]
        return part

    def _kind(self, part: Part) -> str:
        names = [_name(form) for form in _forms(part)]
        reading = _UNMEASURED in part.get("anyOf", [])
        return ", ".join(dict.fromkeys(names)) + (", or unmeasured" if reading else "")

    def kinds(self) -> Iterator[tuple[str, str]]:
        """Name of each kind of a plain value, and what it allows."""
        for name, part in self._known.items():
            if "properties" not in part:
                yield f"`{name}`", plausible.expected(part)


def _forms(part: Part) -> list[Part]:
    """The alternatives of a part but that of being unmeasured."""
    return [form for form in part.get("anyOf", [part]) if form != _UNMEASURED]


def _name(form: Part) -> str:
    return str(form["$ref"].rsplit("/", 1)[-1] if "$ref" in form else form["type"])


def _meaning(part: Part) -> str:
    texts = [part.get("description"), *(form.get("description") for form in _forms(part))]
    said = "; ".join(dict.fromkeys(text for text in texts if text))
    return f"{said} (not judged: {part['unjudged']})".strip() if "unjudged" in part else said
