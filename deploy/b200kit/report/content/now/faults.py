"""Who is out of the gateway on a node, why, and what its last look found. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from b200kit.node.lib import documents, timestamp
from b200kit.node.state import advice, watchdog
from b200kit.node.state.watch import Fault, Look
from b200kit.node.state.watchdog import ReplicaState
from b200kit.report.content.now.known import Clock, Known, Point
from b200kit.report.document import Unmeasured, clean, duration, mapping, read, show

Entry = dict[str, object]
"""A replica in a standing document."""


def replicas_out(
    standing: object, entries: list[Entry], faults: list[Fault], clock: Clock
) -> Iterator[Point]:
    """Replicas without new requests, together where they are out for one reason."""
    word = "partly out" if any(one.get("takes_requests") is True for one in entries) else "out"
    groups: dict[Point, list[str]] = {}
    for entry in entries:
        takes = read(entry, "takes_requests")
        if isinstance(takes, Unmeasured):
            why = f"who is in rotation could not be read: {takes.reason}"
            groups.setdefault(Point("unknown", why), []).append(show(entry.get("index")))
        elif takes is not True:
            point = _out(standing, entry, word, faults, clock)
            groups.setdefault(point, []).append(show(entry.get("index")))
    for point, which in groups.items():
        names = f"replica{'s' * (len(which) > 1)} {', '.join(which)}"
        yield Point(point.state, f"{names}: {point.what}", point.next, point.when, point.age_s)


def _out(standing: object, entry: Entry, word: str, faults: list[Fault], clock: Clock) -> Point:
    document = read(standing, "watchdog", show(entry.get("index")))
    kept = documents.understood(ReplicaState, document) or ReplicaState()
    status = show(entry.get("status"))
    if kept.held:
        fault = next((f for f in faults if f.finding.summary == kept.held), None)
        when = clock.since(fault.since if fault else read(document, "last", "at"))
        return Point(word, clean(kept.held), advice.of(fault.finding) if fault else "", *when)
    if kept.given_up:
        times, mark = len(kept.ejections), read(standing, "mark")
        when = clock.since(read(mark, "when"))
        todo = f"once it is repaired: rm {watchdog.MARK}"
        return Point(word, f"given up after {times} ejections: {clean(kept.why)}", todo, *when)
    if kept.out:
        todo = "the watchdog restarts it, and puts it back once it answers"
        return Point(word, f"ejected: {clean(kept.why)}", todo, *_ejected(kept, document, clock))
    drained = isinstance(read(standing, "drained"), dict)
    return Point(word, f"{'drained on purpose' if drained else 'not in rotation'} ({status})")


def _ejected(kept: ReplicaState, document: object, clock: Clock) -> tuple[str, float]:
    """Since when, by the clock of this boot, which is what its ejections are counted by."""
    if clock.boot_s is None or clock.at is None or not kept.ejections:
        return clock.since(read(document, "last", "at"))
    try:
        then = clock.at.timestamp() - (clock.boot_s - kept.ejections[-1])
        return clock.since(timestamp.text(datetime.fromtimestamp(then, timestamp.UTC)))
    except (ValueError, OverflowError, OSError):
        return "", 0.0


def confirmed(standing: object) -> Iterator[Fault]:
    """The confirmed faults of the last look."""
    look, _ = understood(read(standing, "watch"))
    yield from look.confirmed if look else ()


def look(standing: object, known: Known, clock: Clock) -> Iterator[Point]:
    """Whether the last look says anything about now."""
    document, why, when, age = read(standing, "watch"), "", "", 0.0
    found, problem = understood(document)
    if document is None:
        why = "nobody has looked at it in this boot"
    elif isinstance(document, Unmeasured):
        why = f"its last look could not be read: {document.reason}"
    elif found is None:
        why = f"its last look: {problem}"
    elif clock.boot_s is None or found.boot_s > clock.boot_s:
        why = "its last look does not say when it was"
    elif (age := clock.boot_s - found.boot_s) > known.look_age_max_s:
        why, when = "its last look is too old to say anything", f"({duration(age)} old)"
    if why:
        yield Point("unknown", why, "on the node: systemctl status b200-watch.timer", when, age)


def understood(document: object) -> tuple[Look | None, str]:
    """A look, or why it is none."""
    try:
        return documents.structure(Look, document), ""
    except documents.Malformed as error:
        return None, clean(str(error))


def other_faults(standing: object, faults: list[Fault], clock: Clock) -> Iterator[Point]:
    """Confirmed faults that took nobody out."""
    every = mapping(read(standing, "watchdog")).values()
    kept = [one for d in every if (one := documents.understood(ReplicaState, d))]
    held = {one.held for one in kept}
    for fault in faults:
        if fault.finding.summary not in held:
            when, age = clock.since(fault.since)
            yield Point("fault", clean(fault.finding.summary), advice.of(fault.finding), when, age)
    mark = read(standing, "mark")
    if mark is not None and not any(one.given_up for one in kept):
        what = mark.reason if isinstance(mark, Unmeasured) else str(watchdog.mark_of(mark))
        yield Point("fault" if isinstance(mark, dict) else "unknown", clean(what))
