"""Lines of JSON of which each has the digest of the one before, so that damage shows. Pure.

A line that is changed, taken away, put in, put elsewhere or written over breaks the chain where it
was. One that a kill cut short does not: it was never there for the line that follows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from b200kit.run import jsonl


@dataclass(frozen=True)
class Chain:
    """Lines as read: the entries, lines cut short, what is wrong, the digest of the last entry."""

    entries: tuple[dict[str, Any], ...] = ()
    torn: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    last: str = ""


def line(entry: Mapping[str, Any], previous: str) -> tuple[str, str]:
    """The line that follows digest *previous*, newline included, and its own digest."""
    body = {**entry, "previous": previous}
    digest = jsonl.digest(body)
    return json.dumps({**body, "digest": digest}, sort_keys=True) + "\n", digest


def parse(content: bytes) -> Chain:
    """Read lines and follow their chain; whatever the bytes are, nothing is raised."""
    entries: list[dict[str, Any]] = []
    torn, damage, last, lost = [], [], "", 0
    for number, entry in jsonl.lines(content):
        if entry is None or not _is_entry(entry):
            torn.append(f"line {number} is no entry: it was cut short or written over")
            lost = number
            continue
        digest = str(entry["digest"])
        if not _is_whole(entry):
            damage.append(f"line {number} was changed after it was written")
        elif entry["previous"] != last:
            damage.append(
                f"line {number} does not follow the one before it: lines were taken away or moved"
            )
        last, lost = digest, 0
        entries.append(entry)
    if lost and content.endswith(b"\n"):
        # A writer that dies leaves no end of line, and the next one follows what was whole.
        damage.append(f"line {lost}, the last, was written over")
    return Chain(tuple(entries), tuple(torn), tuple(damage), last)


def newest(backwards: Iterable[bytes]) -> Chain:
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
        damage = []
        if lost and ended:
            damage.append("the last line was written over")
        if not _is_whole(entry):
            damage.append("the last entry was changed after it was written")
        return Chain((entry,), damage=tuple(damage), last=str(entry["digest"]))
    nothing = ("no line of it is an entry",) if lost else ()
    return Chain(torn=nothing, damage=nothing if ended else ())


def _is_whole(entry: Mapping[str, Any]) -> bool:
    body = {key: value for key, value in entry.items() if key != "digest"}
    return bool(entry["digest"] == jsonl.digest(body))


def _is_entry(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("digest"), str) and "previous" in value
