"""An observation without what names a site: each field as its kind in the schema asks. Pure.

Only what node-state.schema.json has is taken. A number, a list of CPUs, a PCI address or a word of
a closed list is kept: its kind leaves no room for anything else. Identities and texts are replaced
(records/pseudonyms.py), and a field that the schema does not have is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from b200kit.node.state.plausible import plausible
from b200kit.records.pseudonyms import Pseudonyms

IDENTITIES = {
    "gpu-uuid": "UUID", "uuid": "UUID", "hex-id": "id", "serial": "serial number",
    "sha256": "digest", "hmac-or-redacted": "digest",
}  # fmt: skip
"""Kinds of the schema whose values are replaced as a whole, and what they are called."""
KEPT = {
    "cpu-list", "dpkg-status", "fetch-state", "gpu-access", "mode", "pci-address", "pci-id",
    "pcie-speed", "python-version", "schema-id", "utc",
}  # fmt: skip
"""Kinds of the schema that leave no room for a name or a secret."""
_LEAST_IDENTITY = 5
Part = Mapping[str, Any]


@dataclass(frozen=True)
class Sanitised:
    """An observation and what it was judged by, and how often what was replaced in both."""

    state: dict[str, Any]
    expectation: Any
    counts: dict[str, int]


def sanitised(
    state: Mapping[str, Any],
    expectation: object,
    schema: Part,
    words: Set[str],
    key: bytes,
    names: Iterable[str] = (),
    shipped: Set[str] = frozenset(),
) -> Sanitised:
    """Both documents with the same pseudonyms.

    *names* are further names of the node; *shipped* are texts of the program's own
    data, which an expectation keeps as they are.
    """
    whole = plausible(dict(state))
    walk = _Walk(schema["$defs"], shipped)
    walk.collect(whole, schema)
    known = {*walk.identities, *_names(state, names)}
    walk.pseudonyms = Pseudonyms(key, words, known)
    made = walk.value({k: v for k, v in whole.items() if k != "provenance"}, schema)
    return Sanitised(made, walk.expectation(expectation), dict(walk.pseudonyms.counts))


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """The words of this program's sources, in small letters."""
    every = (re.findall(r"[a-z]+", text.lower()) for text in texts)
    return frozenset(word for found in every for word in found)


def _names(state: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    """The node's names, whole and up to each dot."""
    host = state.get("host")
    found = host.get("hostname") if isinstance(host, dict) else None
    for name in (*names, *([found] if isinstance(found, str) else [])):
        yield name
        yield name.partition(".")[0]


class _Walk:
    """Goes through a document with its schema."""

    def __init__(self, definitions: Mapping[str, Part], shipped: Set[str]) -> None:
        self._definitions, self._shipped = definitions, shipped
        self.identities: set[str] = set()
        self.pseudonyms = Pseudonyms(b"", frozenset(), ())

    def collect(self, value: Any, part: Part) -> None:
        """Note every identity, so that it is found in texts, too."""
        if not isinstance(value, dict | list | str):
            return
        name, part = self._fitting(part, value)
        if isinstance(value, str) and name in IDENTITIES and len(value) >= _LEAST_IDENTITY:
            self.identities.add(value)
        elif isinstance(value, dict):
            for key, below in value.items():
                if (field := _field(part, key)) is not None:
                    self.collect(below, field)
        elif isinstance(value, list):
            for entry in value:
                self.collect(entry, part.get("items", {}))

    def value(self, value: Any, part: Part) -> Any:
        """A value as its part of the schema asks; a number stays, which names nothing."""
        if not isinstance(value, dict | list | str):
            return value
        name, part = self._fitting(part, value)
        if isinstance(value, dict):
            if not _described(part):
                return self.free(value)
            fields = ((key, below, _field(part, key)) for key, below in value.items())
            is_map = isinstance(part.get("additionalProperties"), Mapping)
            return {
                self.pseudonyms.text(key) if is_map else key: self.value(below, field)
                for key, below, field in fields
                if field is not None
            }
        if isinstance(value, list):
            return [self.value(entry, part.get("items", {})) for entry in value]
        return self._text(value, name, part)

    def _text(self, value: str, name: str, part: Part) -> str:
        if name in IDENTITIES:
            return self.pseudonyms.identity(value, IDENTITIES[name])
        if _leaves_no_room(name, part, value):
            return value
        is_version = name == "version"
        return self.pseudonyms.version(value) if is_version else self.pseudonyms.text(value)

    def free(self, value: Any) -> Any:
        """What the schema leaves open, such as a node's own notes: texts and keys replaced."""
        if isinstance(value, dict):
            return {self.free(str(key)): self.free(below) for key, below in value.items()}
        if isinstance(value, list):
            return [self.free(entry) for entry in value]
        is_open = isinstance(value, str) and value not in self._shipped
        return self.pseudonyms.text(value) if is_open else value

    def expectation(self, document: Any) -> Any:
        """What the node was judged by."""
        return self.free(document) if isinstance(document, dict) else None

    def _fitting(self, part: Part, value: Any) -> tuple[str, Part]:
        """The name of the kind of a value, and its part: of several, the one of its form."""
        name = str(part.get("$ref", "")).rsplit("/", 1)[-1]
        part = self._definitions[name] if name else part
        choices = [self._fitting(choice, value) for choice in part.get("anyOf", ())]
        fitting = [choice for choice in choices if _is_form(choice[1], value)]
        whole = [choice for choice in fitting if _has_all(choice[1], value)]
        return next(iter([*whole, *fitting]), (name, part))


def _has_all(part: Part, value: Any) -> bool:
    return not isinstance(value, dict) or all(key in value for key in part.get("required", ()))


def _is_form(part: Part, value: Any) -> bool:
    """Whether a value can be of a part, by its type or by the list of what is allowed."""
    if closed := _closed(part):
        return value in closed
    forms: dict[type, str] = {dict: "object", list: "array", str: "string"}
    return bool(part.get("type") == forms.get(type(value), ""))


def _leaves_no_room(name: str, part: Part, value: str) -> bool:
    """Whether a text is what a closed kind allows: a reason, say, may stand in its place."""
    if name in KEPT and "pattern" in part:
        return bool(re.search(part["pattern"], value))
    return value in _closed(part)


def _closed(part: Part) -> tuple[Any, ...]:
    return (part["const"],) if "const" in part else tuple(part.get("enum", ()))


def _described(part: Part) -> bool:
    return "properties" in part or "additionalProperties" in part


def _field(part: Part, key: str) -> Part | None:
    """The part of one key; None for a key that the schema does not have."""
    other = part.get("additionalProperties")
    found = part.get("properties", {}).get(key, other)
    return found if isinstance(found, Mapping) else None


def texts_of(document: Any) -> Iterator[str]:
    """Every text of a document, keys included."""
    if isinstance(document, dict):
        yield from document
        document = [*document.values()]
    if isinstance(document, list):
        for below in document:
            yield from texts_of(below)
    elif isinstance(document, str):
        yield document


def dumps(document: object) -> str:
    """JSON as the archive has it: the same document is the same text."""
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"
