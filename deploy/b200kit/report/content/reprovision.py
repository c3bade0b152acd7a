"""What reprovisioning did with a node: level and reason, each step, the parts, the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from b200kit.report.document import items, mapping, read, show, unread
from b200kit.report.html.figure import Table

_HEAD = ("at", "from", "to", "action", "outcome")
_KEYS = ("at", "before", "after", "action", "outcome")
_NO_STEPS = Table(_HEAD, ())
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
    why: str = ""
    state: str = ""
    tone: str = "unknown"
    facts: tuple[tuple[str, str], ...] = ()
    way: tuple[str, ...] = ()
    steps: Table = _NO_STEPS


def reprovisioned_of(host: object) -> Reprovisioned:
    """Return the reprovisioning of a HostRecord, with the states that it went through."""
    document = read(host, "reprovision")
    there = mapping(host).get("reprovision") is not None
    if not mapping(document):
        return Reprovisioned(there, unread(document, "nothing was recorded"))
    state = show(read(document, "state"))
    rows = tuple(
        tuple(
            show(read(entry, key)) if mapping(entry).get(key) is not None else "-" for key in _KEYS
        )
        for entry in items(read(document, "history"))
    )
    way = [*(row[1] for row in rows[:1]), *(row[2] for row in rows)]
    return Reprovisioned(
        there=True,
        state=state,
        tone=_TONES.get(state, "unknown"),
        facts=tuple(_facts(document)),
        way=tuple(name for name, _ in groupby(way)),
        steps=Table(_HEAD, rows),
    )


def _facts(document: object) -> Iterator[tuple[str, str]]:
    if mapping(change := read(document, "change")):
        yield "change", show(read(change, "title"))
        yield "wave", show(read(change, "wave"))
        yield "it ended", show(read(change, "outcome"))
        yield "why", show(read(change, "failed"), absent="nothing was wrong with it")
    else:
        level = show(read(document, "level"), absent="none was needed")
        yield "repair", _LEVELS.get(level, level)
        yield "why", show(read(document, "why"), absent="nothing blocks it")
        yield "parts to replace", show(read(document, "parts"), absent="none named")
        yield "evidence", show(read(document, "evidence"), absent="none was collected")
    if mapping(quarantine := read(document, "quarantine")):
        who, when, why = (show(read(quarantine, key)) for key in ("who", "when", "why"))
        yield "quarantine", f"since {when} by {who}: {why}"


def line(host: object) -> str:
    """Return the reprovisioning in one line for a terminal, or nothing."""
    found = reprovisioned_of(host)
    facts = dict(found.facts)
    if found.why or not found.there:
        return found.why if found.there else ""
    return f"{found.state}: {facts.get('change') or facts.get('repair')}; {facts['why']}"
