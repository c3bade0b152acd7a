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
    return Example(stem, _state(stem))


def _state(name: str) -> dict[str, Any]:
    """A recorded state; of one that has a `base`, that state with what this one says in its place.

    `lacks` names what the base has of a part and this one has not.
    """
    own: dict[str, Any] = json.loads((STATES / f"{name}.json").read_text(encoding="utf-8"))
    if "base" not in own:
        return own
    state = _state(own["base"])
    for part, gone in own.get("lacks", {}).items():
        state[part] = {key: value for key, value in state[part].items() if key not in gone}
    changed: dict[str, Any] = _changed(state, own["changes"])
    return changed | {"provenance": own["provenance"]}


def _changed(old: Any, new: Any) -> Any:
    """What is there with what is new; entries of a list go by number, "*" is each other one."""
    if isinstance(new, dict) and isinstance(old, list):
        return [
            _changed(entry, new.get(str(number), new.get("*", entry)))
            for number, entry in enumerate(old)
        ]
    if isinstance(new, dict) and isinstance(old, dict):
        return old | {key: _changed(old.get(key), value) for key, value in new.items()}
    return new
