"""The log of every action on every node: JSON lines, each with the digest of the one before. Pure.

A line that is changed, taken away, put in or put elsewhere breaks the chain where it was. Only the
end can be cut off unseen by the chain itself: each node's transaction therefore keeps the digests
of its own lines, and the node a copy of its newest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from b200kit.run import jsonl

SCHEMA = "b200kit/audit/1"


@dataclass(frozen=True)
class Log:
    """A log as read: its entries, what is wrong with it, and the digest of its last line."""

    entries: tuple[dict[str, Any], ...] = ()
    damage: tuple[str, ...] = ()
    last: str = ""


def line(entry: Mapping[str, Any], previous: str) -> tuple[str, str]:
    """The line that follows digest *previous*, and its own digest."""
    body = {"schema": SCHEMA, **entry, "previous": previous}
    digest = jsonl.digest(body)
    return json.dumps({**body, "digest": digest}, sort_keys=True) + "\n", digest


def parse(content: bytes) -> Log:
    """Read a log and follow its chain."""
    entries: list[dict[str, Any]] = []
    damage: list[str] = []
    last = ""
    for number, entry in jsonl.lines(content):
        if entry is None or not _is_entry(entry):
            damage.append(f"line {number} is no entry: it was cut short or written over")
            continue
        digest = str(entry["digest"])
        if digest != jsonl.digest({key: value for key, value in entry.items() if key != "digest"}):
            damage.append(f"line {number} was changed after it was written")
        elif entry["previous"] != last:
            damage.append(
                f"line {number} does not follow the one before it: lines were taken away or moved"
            )
        last = digest
        entries.append(entry)
    return Log(tuple(entries), tuple(damage), last)


def verify(content: bytes, known: Mapping[str, list[str]]) -> list[str]:
    """All that is wrong: with the chain, and with what the transactions of *known* nodes say of it.

    *known* has the digests that each node's transaction keeps, oldest first.
    """
    log = parse(content)
    there = {str(entry["digest"]): entry for entry in log.entries}
    wrong = list(log.damage)
    for node, digests in sorted(known.items()):
        missing = [digest for digest in digests if digest not in there]
        if missing:
            wrong.append(
                f"{node}: {len(missing)} of the {len(digests)} actions of its transaction are not "
                f"in the log (the first is {missing[0][:10]}): its end was cut off"
            )
        wrong += [
            f"{node}: action {digest[:10]} of its transaction is about {there[digest].get('node')}"
            for digest in digests
            if digest in there and there[digest].get("node") != node
        ]
    return wrong


def _is_entry(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("digest"), str) and "previous" in value


def describe(entry: Mapping[str, Any]) -> str:
    """An action on one line: when, who, on which node, what, from where to where."""
    step = entry.get("level") or entry.get("step") or ""
    what = f": {entry['what']}" if entry.get("what") else ""
    return (
        f"{entry.get('at')}  {entry.get('node')}  {entry.get('who')}  {entry.get('kind')} {step}  "
        f"{entry.get('before')} -> {entry.get('after')}{what}"
    )
