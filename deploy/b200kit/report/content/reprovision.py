"""What reprovisioning did with a node: level and reason, each step, the parts, the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from b200kit.report.document import Unmeasured, items, mapping, read, show
from b200kit.report.html.figure import Table

_HEAD = ("at", "from", "to", "action", "outcome")
_LEVELS = {
    "restart-services": "restart the services",
    "reset-gpus": "reset the GPUs",
    "reboot": "reboot the node",
    "power-cycle": "power-cycle the node",
    "reimage": "re-image the node",
    "replace": "replace a part (manual)",
}
_TONES = {"serving": "good", "manual repair": "bad", "quarantined": "bad"}


@dataclass(frozen=True, slots=True)
class Reprovisioned:
    """The section as text; `there` is false where the run did not reprovision the node."""

    there: bool
    why: str
    state: str
    tone: str
    facts: tuple[tuple[str, str], ...]
    way: tuple[str, ...]
    steps: Table


def reprovisioned_of(host: object) -> Reprovisioned:
    """Return the reprovisioning of a HostRecord."""
    document = read(host, "reprovision")
    there = mapping(host).get("reprovision") is not None
    if isinstance(document, Unmeasured) or not mapping(document):
        why = (
            str(document)
            if isinstance(document, Unmeasured)
            else "unmeasured: nothing was recorded"
        )
        return Reprovisioned(there, why, "", "unknown", (), (), Table(_HEAD, ()))
    state = show(read(document, "state"))
    history = items(read(document, "history"))
    rows = tuple(tuple(_cell(entry, key) for key in _HEAD) for entry in history)
    return Reprovisioned(
        there=True,
        why="",
        state=state,
        tone=_TONES.get(state, "unknown"),
        facts=tuple(_facts(document)),
        way=_way(rows),
        steps=Table(_HEAD, rows),
    )


def _facts(document: object) -> Iterator[tuple[str, str]]:
    if mapping(change := read(document, "change")):
        yield "change", show(read(change, "title"))
        yield "wave", show(read(change, "wave"))
        yield "it ended", show(read(change, "outcome"))
        yield "why", show(read(change, "failed"), absent="nothing was wrong with it")
    else:
        yield from _repair(document)
    quarantine = read(document, "quarantine")
    if mapping(quarantine):
        who, when, why = (show(read(quarantine, key)) for key in ("who", "when", "why"))
        yield "quarantine", f"since {when} by {who}: {why}"


def _repair(document: object) -> Iterator[tuple[str, str]]:
    level = show(read(document, "level"), absent="none was needed")
    parts = read(document, "parts")
    names = str(parts) if isinstance(parts, Unmeasured) else ", ".join(map(show, items(parts)))
    yield "repair", _LEVELS.get(level, level)
    yield "why", show(read(document, "why"), absent="nothing blocks it")
    yield "parts to replace", names or "none named"
    yield "evidence", show(read(document, "evidence"), absent="none was collected")


def _way(rows: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Return the states that the node went through, each once in a row."""
    found = [rows[0][1]] if rows else []
    for row in rows:
        if row[2] != found[-1]:
            found.append(row[2])
    return tuple(found)


def _cell(entry: object, key: str) -> str:
    value = read(entry, key)
    if value is None or key not in mapping(entry):
        return "-"
    return show(value)


def line(host: object) -> str:
    """Return the reprovisioning in one line for a terminal, or nothing."""
    found = reprovisioned_of(host)
    if not found.there:
        return ""
    facts = dict(found.facts)
    what = facts.get("change") or facts.get("repair")
    return found.why or f"{found.state}: {what}; {facts['why']}"
