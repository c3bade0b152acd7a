"""All that was observed of a node, a line a part of it: for whoever looks closer than the checks.

What stands at one place of every GPU, link, bridge or NIC is told together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from b200kit.report.document import Pairs, Unmeasured, items, mapping, number, read, show

_FEW = 3
"""Values that are told each; of more, numbers by their ends and texts by their count."""
_LONGEST = 200


def reported(host: object) -> Pairs:
    """The readings of a HostRecord as (part, its readings or why there are none)."""
    return list(_parts("", [mapping(read(host, "state"))]))


def _parts(path: str, entries: list[dict[str, object]]) -> Iterator[tuple[str, str]]:
    """The plain readings of entries in a line, then a line for each part of them."""
    told, below = [], dict[str, list[dict[str, object]]]()
    for key in dict.fromkeys(key for entry in entries for key in entry):
        values = [read(entry, key) for entry in entries if key in entry]
        parts = [part for value in values for part in (value, *items(value)) if mapping(part)]
        if parts:
            below[f"{path}.{key}".lstrip(".")] = list(map(mapping, parts))
        if plain := [v for v in values if not (mapping(v) or any(map(mapping, items(v))))]:
            told.append(f"{key} {_tally(plain)}")
    if told:
        yield path or "node", "; ".join(told)
    for inner, found in below.items():
        yield from _parts(inner, found)


def _tally(values: list[object]) -> str:
    """Each value with how often it was read, or the ends of many numbers."""
    found = Counter(show(value)[:_LONGEST] for value in values)
    if len(found) == 1:
        return next(iter(found))
    if len(found) <= _FEW:
        return ", ".join(f"{value} on {count}" for value, count in found.items())
    unread = sum(isinstance(value, Unmeasured) for value in values)
    numbers = [n for value in values if (n := number(value)) is not None]
    told = f"{len(found)} values"
    if numbers and len(numbers) + unread == len(values):
        told = f"{show(min(numbers))} to {show(max(numbers))}"
    return f"{told}; unmeasured on {unread}" if unread else told
