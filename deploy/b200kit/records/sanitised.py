"""An observation without what names a site: each field as its kind in the schema asks. Pure.

Only what node-state.yaml has is taken. A number, a list of CPUs, a PCI address or a word of
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
    walk = _SanitisingWalk(schema["$defs"], shipped)
    walk.value(whole, schema)
    walk.pseudonyms = Pseudonyms(key, words, {*walk.identities, *_names(state, names)})
    made = walk.value({k: v for k, v in whole.items() if k != "provenance"}, schema)
    judged_by = walk.free(expectation) if isinstance(expectation, dict) else None
    return Sanitised(made, judged_by, dict(walk.pseudonyms.counts))


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


class _SanitisingWalk:
    """Goes through a document with its schema: first for its identities, then to replace."""

    def __init__(self, definitions: Mapping[str, Part], shipped: Set[str]) -> None:
        self._definitions, self._shipped = definitions, shipped
        self.identities: set[str] = set()
        """Texts that are replaced in other texts, too."""
        self.pseudonyms: Pseudonyms | None = None

    def value(self, value: Any, part: Part) -> Any:
        """A value as its part of the schema asks; a number stays, which names nothing."""
        if not isinstance(value, dict | list | str):
            return value
        name, part = self._fitting(part, value)
        if isinstance(value, list):
            return [self.value(entry, part.get("items", {})) for entry in value]
        if isinstance(value, str):
            return self._text(value, name, part)
        fields, other = part.get("properties", {}), part.get("additionalProperties")
        if not fields and other is None:
            return self.free(value)
        known = {key: fields.get(key, other) for key in value}
        is_map = isinstance(other, Mapping)
        return {
            self._replaced(key) if is_map else key: self.value(below, known[key])
            for key, below in value.items()
            if isinstance(known[key], Mapping)
        }

    def _text(self, value: str, name: str, part: Part) -> str:
        if name in IDENTITIES:
            if len(value) >= _LEAST_IDENTITY:
                self.identities.add(value)
            return self.pseudonyms.identity(value, IDENTITIES[name]) if self.pseudonyms else value
        # A reason, say, may stand in the place of what a closed kind allows.
        closed = name in KEPT and "pattern" in part
        if re.search(part["pattern"], value) if closed else value in _closed(part):
            return value
        if name == "version" and self.pseudonyms:
            return self.pseudonyms.version(value)
        return self._replaced(value)

    def _replaced(self, text: str) -> str:
        return self.pseudonyms.text(text) if self.pseudonyms else text

    def free(self, value: Any) -> Any:
        """What the schema leaves open, such as a node's own notes: texts and keys replaced."""
        if isinstance(value, dict):
            return {self.free(str(key)): self.free(below) for key, below in value.items()}
        if isinstance(value, list):
            return [self.free(entry) for entry in value]
        is_open = isinstance(value, str) and value not in self._shipped
        return self._replaced(value) if is_open else value

    def _fitting(self, part: Part, value: Any) -> tuple[str, Part]:
        """The name of the kind of a value, and its part: of several, the one of its form."""
        name = str(part.get("$ref", "")).rsplit("/", 1)[-1]
        part = self._definitions[name] if name else part
        choices = [self._fitting(choice, value) for choice in part.get("anyOf", ())]
        fitting = [choice for choice in choices if _is_form(choice[1], value)]
        whole = [
            choice
            for choice in fitting
            if not isinstance(value, dict) or {*choice[1].get("required", ())} <= value.keys()
        ]
        return next(iter([*whole, *fitting]), (name, part))


def _is_form(part: Part, value: Any) -> bool:
    """Whether a value can be of a part, by its type or by the list of what is allowed."""
    if closed := _closed(part):
        return value in closed
    forms: dict[type, str] = {dict: "object", list: "array", str: "string"}
    return part.get("type") == forms[type(value)]


def _closed(part: Part) -> tuple[Any, ...]:
    return (part["const"],) if "const" in part else tuple(part.get("enum", ()))


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
