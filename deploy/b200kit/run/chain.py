"""Lines of JSON of which each has the digest of the one before, so that damage shows. Pure.

A line that is changed, taken away, put in, put elsewhere or written over breaks the chain where it
was. One that a kill cut short does not: it was never there for the line that follows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from b200kit.node.lib.documents import Malformed, unstructure
from b200kit.run import jsonl

T = TypeVar("T")
Read = Callable[[Mapping[str, Any]], T]
"""A line's document of its JSON; raises Malformed."""


@dataclass(frozen=True)
class Chain(Generic[T]):
    """Lines as read: the entries, lines cut short, what is wrong, the digest of the last entry."""

    entries: tuple[T, ...] = ()
    torn: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    last: str = ""


def line(entry: object, previous: str) -> tuple[str, str]:
    """The line that follows digest *previous*, newline included, and its own digest."""
    body = _body({**unstructure(entry), "previous": previous})
    digest = jsonl.digest(body)
    return json.dumps({**body, "digest": digest}, sort_keys=True) + "\n", digest


def parse(read: Read[T], content: bytes) -> Chain[T]:
    """Read lines and follow their chain; whatever the bytes are, nothing is raised."""
    entries: list[T] = []
    torn, damage, last, lost = [], [], "", 0
    for number, entry in jsonl.lines(content):
        if entry is None or not _is_entry(entry):
            torn.append(f"line {number} is no entry: it was cut short or written over")
            lost = number
            continue
        if not _is_whole(entry):
            damage.append(f"line {number} was changed after it was written")
        elif entry["previous"] != last:
            damage.append(
                f"line {number} does not follow the one before it: lines were taken away or moved"
            )
        last, lost = entry["digest"], 0
        try:
            entries.append(read(entry))
        except Malformed as error:
            damage.append(f"line {number}: {error}")
    if lost and content.endswith(b"\n"):
        # A writer that dies leaves no end of line, and the next one follows what was whole.
        damage.append(f"line {lost}, the last, was written over")
    return Chain(tuple(entries), tuple(torn), tuple(damage), last)


def newest(read: Read[T], backwards: Iterable[bytes]) -> Chain[T]:
    """The last entry alone, of lines that come from the end on (b200kit/run/jsonl.py).

    Its damage is what `parse` would say of this entry and of what follows it.
    """
    lost, ended = False, False
    for number, raw in enumerate(backwards):
        if not raw.strip():
            ended = ended or number == 0
            continue
        entry = jsonl.parsed(raw)
        if entry is None or not _is_entry(entry):
            lost = True
            continue
        damage = ["the last line was written over"] if lost and ended else []
        if not _is_whole(entry):
            damage.append("the last entry was changed after it was written")
        try:
            return Chain((read(entry),), damage=tuple(damage), last=entry["digest"])
        except Malformed as error:
            return Chain(damage=(*damage, f"the last line: {error}"), last=entry["digest"])
    nothing = ("no line of it is an entry",) if lost else ()
    return Chain(torn=nothing, damage=nothing if ended else ())


def _body(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "digest"}


def _is_whole(entry: Mapping[str, Any]) -> bool:
    return bool(entry["digest"] == jsonl.digest(_body(entry)))


def _is_entry(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("digest"), str) and "previous" in value
