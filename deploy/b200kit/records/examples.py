"""Recorded nodes to try the judgement on: the project's own, each with where it is from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from b200kit.run.places import STATES

SHORT = {"healthy": "healthy-hgx-b200"}
"""Names that are easier to type."""


class NoExample(LookupError):
    """There is no example of a name; one line with the nearest and with all of them."""


@dataclass(frozen=True)
class Example:
    """One recorded node."""

    name: str
    state: Mapping[str, Any]

    @property
    def file(self) -> str:
        """Where it lies in the project."""
        return f"tests/states/{self.name}.json"

    @property
    def kind(self) -> str:
        """Whether it was recorded whole, composed or made up."""
        return str(self._provenance.get("kind") or "of unknown origin")

    def origins(self) -> Iterator[tuple[str, str]]:
        """What was read of real machines with its source, then what was supplied."""
        captured = self._provenance.get("captured") or {}
        yield from ((f"captured: {what}", str(source)) for what, source in captured.items())
        for key in ("supplied", "note"):
            if text := self._provenance.get(key):
                yield key, str(text)

    @property
    def _provenance(self) -> Mapping[str, Any]:
        found = self.state.get("provenance")
        return found if isinstance(found, dict) else {}


def names() -> list[str]:
    """Every example."""
    return sorted(path.stem for path in STATES.glob("*.json"))


def load(name: str) -> Example:
    """The example of a name, short or whole; NoExample for another."""
    known = names()
    stem = SHORT.get(name, name)
    if stem not in known:
        near = get_close_matches(name, [*SHORT, *known], n=1, cutoff=0.4)
        nearest = f'; did you mean "{near[0]}"?' if near else "."
        raise NoExample(f'no example "{name}"{nearest} There are: {", ".join([*SHORT, *known])}')
    return Example(stem, json.loads((STATES / f"{stem}.json").read_text(encoding="utf-8")))
