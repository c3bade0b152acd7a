"""What a reading can be at all: whatever is outside is unmeasured, before anything is judged by it.

node-state.yaml says for every field of a NodeState its kind and range. A driver answers
"unknown" with a width of 63 or with all bits set, a broken one with a negative count, and an
attacker's node with whatever it likes: none of these is a reading, and as an unmeasured one it
cannot pass. A field of which only one entry of a list may have a value (`uniqueBy`: a UUID, a link
number) is unmeasured in each entry of a value that is there twice. A list of more than there can be
(`maxItems`) is unmeasured as a whole, so that no question of each pair of GPUs has no end.

A missing key is left to the reader, which finds it missing; a key that the schema does not have is
left alone, as nothing reads it.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from b200kit.node.lib.readings import short, unmeasured
from b200kit.node.state import node_schema

Vet = Callable[[Any], Any]
"""A value to itself, or to the unmeasured reading in its place. Never changes its argument."""
Part = Mapping[str, Any]


T = TypeVar("T")


def plausible(document: T) -> T:
    """The document with an unmeasured reading for each that cannot be; any other value as it is."""
    if type(document) is not dict:
        return document
    found: T = _document()(document)
    return found


@cache
def _document() -> Vet:
    schema = node_schema.schema()
    return _Compiler(schema["$defs"]).vet(schema)


class _Compiler:
    """Makes a function of each part of the schema, once: a document has ten thousand values."""

    def __init__(self, definitions: Mapping[str, Part]) -> None:
        self._definitions = definitions
        self._text = _scalar(str, definitions["text"])

    def vet(self, part: Part) -> Vet:
        """For a value that a part describes."""
        return self._field(part)[1]

    def _field(self, part: Part) -> tuple[Mapping[type, Vet], Vet]:
        """For scalars of it by their type, and for any value."""
        known = {**self._resolved(part), **part}
        every = [self._resolved(choice) for choice in known.get("anyOf", [known])]
        choices = [choice for choice in every if choice is not self._definitions["unmeasured"]]
        by_type: dict[type, list[tuple[Part, Vet]]] = {}
        for choice in choices:
            for kind in _types(choice):
                by_type.setdefault(kind, []).append((choice, self._one(kind, choice)))
        allowed = " or ".join(dict.fromkeys(map(expected, choices)))
        # Nearly every value is plain and can be one thing only.
        plain = {kind: found[0][1] for kind, found in by_type.items() if kind is not dict}

        def vet(value: Any) -> Any:
            kind = type(value)
            if one := plain.get(kind):
                found = one(value)
            elif kind is dict and "unmeasured" in value:
                return self._with_reason(value)
            elif candidates := by_type.get(kind):
                found = _fitting(value, candidates)(value)
            else:
                return _implausible(value, allowed)
            return _implausible(value, allowed) if found is _MISFIT else found

        return {kind: one for kind, one in plain.items() if kind is not list}, vet

    def _with_reason(self, value: dict[str, Any]) -> dict[str, Any]:
        """An unmeasured reading, with its reason where that can be shown as it is."""
        reason = value["unmeasured"]
        if type(reason) is str and reason and self._text(reason) is reason:
            return value
        return unmeasured(f"for a reason that is no text: {short(reason)}")

    def _resolved(self, part: Part) -> Part:
        while "$ref" in part:
            part = self._definitions[part["$ref"].rsplit("/", 1)[-1]]
        return part

    def _one(self, kind: type, part: Part) -> Vet:
        if kind is dict:
            return self._mapping(part)
        if kind is list:
            return self._list(part)
        return _scalar(kind, part)

    def _mapping(self, part: Part) -> Vet:
        fields = {name: self._field(below) for name, below in part.get("properties", {}).items()}
        other = part.get("additionalProperties")
        rest = self._field(other) if isinstance(other, Mapping) else None
        key_vet = self.vet(part["propertyNames"]) if "propertyNames" in part else None

        def vet(value: dict[str, Any]) -> Any:
            changed: dict[str, Any] = {}
            for key, below in value.items():
                if key_vet and key_vet(key) is not key:
                    return _MISFIT
                field = fields.get(key, rest)
                if field is None:
                    continue
                scalars, whole = field
                one = scalars.get(type(below))
                if one and one(below) is below:
                    continue  # nearly all of ten thousand
                if (found := whole(below)) is not below:
                    changed[key] = found
            return {**value, **changed} if changed else value

        return vet

    def _list(self, part: Part) -> Vet:
        item = self.vet(part["items"]) if "items" in part else None
        unique, most = part.get("uniqueBy", ()), part.get("maxItems")

        def vet(value: list[Any]) -> Any:
            if most is not None and len(value) > most:
                return _MISFIT
            found = [item(entry) for entry in value] if item else value
            for key in unique:
                found = _unique(found, key)
            return value if all(map(operator.is_, found, value)) else found

        return vet


_MISFIT = object()
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,),
    "number": (int, float), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def _types(part: Part) -> tuple[type, ...]:
    """The Python types of a part's values; true is no number."""
    if "const" in part:
        return (type(part["const"]),)
    if "enum" in part:
        return tuple({type(value) for value in part["enum"]})
    return _TYPES[part["type"]]


def _fitting(value: dict[str, Any], candidates: list[tuple[Part, Vet]]) -> Vet:
    """The alternative that a record is: of several, the first that has all its keys."""
    if len(candidates) > 1:
        for part, vet in candidates:
            if all(key in value for key in part.get("required", ())):
                return vet
    return candidates[0][1]


def _scalar(kind: type, part: Part) -> Vet:
    """For a plain value: itself where it is within what the part allows, else a misfit."""
    if "const" in part or "enum" in part:
        allowed = frozenset(part.get("enum", [part.get("const")]))
        return lambda value: value if value in allowed else _MISFIT
    if kind is str:
        longest = part.get("maxLength", _LONGEST)
        pattern = re.compile(part.get("pattern", "(?s).*"))
        return lambda value: (
            value if len(value) <= longest and pattern.fullmatch(value) else _MISFIT
        )
    if kind in (int, float):
        low, high = part.get("minimum", -_LARGEST), part.get("maximum", _LARGEST)
        never = part.get("not", {}).get("const")
        return lambda value: value if low <= value <= high and value != never else _MISFIT
    return lambda value: value


_LONGEST = 65_536
_LARGEST = 2**63


def _unique(entries: list[Any], key: str) -> list[Any]:
    """The entries, with a value that several have unmeasured in each of them."""
    values = [entry.get(key) if type(entry) is dict else None for entry in entries]
    known = [value for value in values if isinstance(value, int | str)]
    twice = {value for value, times in Counter(known).items() if times > 1}
    if not twice:
        return entries
    return [
        {**entry, key: _implausible(value, "the value of one entry alone")}
        if isinstance(value, int | str) and value in twice else entry
        for entry, value in zip(entries, values, strict=True)
    ]  # fmt: skip


def _implausible(value: Any, allowed: str) -> dict[str, str]:
    return unmeasured(f"implausible: {short(value)}, which is not {allowed}")


def expected(part: Part) -> str:
    """What a part of the schema allows, in words."""
    if "enum" in part or "const" in part:
        allowed = ", ".join(map(str, part.get("enum", [part.get("const")])))
        return f"{part['description']} ({allowed})" if "description" in part else allowed
    if "minimum" in part and part["maximum"] < 2**62:
        what = part.get("description", "a number")
        return f"{what}, from {part['minimum']} to {part['maximum']}"
    if "maxItems" in part:
        return f"a list of at most {part['maxItems']}"
    return str(part.get("description", f"a value of type {part['type']}"))
