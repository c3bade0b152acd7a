"""One node as it stands now, by its last answer: what serves, and what a person should know. Pure.

What could not be read is never taken for sound: a node that does not answer serves nothing that
anybody knows of, however sound it was when it last did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from b200kit.node.lib import timestamp
from b200kit.node.state import advice, quarantine
from b200kit.report.content.now import faults
from b200kit.report.content.now.faults import Entry
from b200kit.report.content.now.known import (
    RANK,
    SCHEMA,
    SERVING,
    STATES,
    Clock,
    Known,
    Planned,
    Point,
    day_and_time,
)  # fmt: skip
from b200kit.report.content.now.proof import (
    EXPIRED,
    EXPIRING,
    NONE,
    UNKNOWN,
    ProofNow,
    proof_now,
)  # fmt: skip
from b200kit.report.document import Unmeasured, clean, duration, integer, items, mapping, read, show
from b200kit.report.outcome import Outcome

_OF_PROOF = {
    EXPIRED: "expired", NONE: "not proven", UNKNOWN: "unknown",
    EXPIRING: "expiring",
}  # fmt: skip
_MOST_GPUS = 64
"""Of a replica; a node that says more does not count for more."""


@dataclass(frozen=True, slots=True)
class NodeNow:
    """A node: its points, GPUs of all replicas, of those that get requests, of those proven."""

    name: str
    points: tuple[Point, ...]
    proof: ProofNow
    gpus: int | None = None
    serving_gpus: int = 0
    proven_gpus: int = 0
    replicas: tuple[int, int] | None = None
    read_at: float | None = None

    @property
    def outcome(self) -> Outcome:
        """How it stands, in one word."""
        return STATES[self.points[0].state] if self.points else SERVING


def node_now(name: str, known: Known, planned: Planned | None, now: float) -> NodeNow:
    """A node at *now*, seconds since 1970; its document may be anything."""
    if known.why or known.read_at is None:
        why = _not_read(known, now)
    elif read(known.standing, "schema") != SCHEMA:
        why = Point("unknown", f"what it answered is no document of schema {SCHEMA}")
    else:
        return _answered(name, known, planned, now)
    points = _with_work([why], planned)
    return NodeNow(name, points, ProofNow(UNKNOWN), read_at=known.read_at)


def _answered(name: str, known: Known, planned: Planned | None, now: float) -> NodeNow:
    standing, clock = known.standing, Clock.of(known, now)
    entries = [mapping(entry) for entry in items(read(standing, "replicas"))]
    serving = [entry for entry in entries if entry.get("takes_requests") is True]
    proof = proof_now(standing, name)
    proven = [one for one in serving if proof.holds and integer(one.get("index")) in proof.replicas]
    found = [*_points(standing, known, clock, entries)]
    if serving:
        found += _of_proof(proof, clock, integer(read(standing, "share")))
    if serving and proof.holds and len(proven) < len(serving):
        found.append(_unproven(serving, proof))
    return NodeNow(
        name,
        _with_work(found, planned),
        proof,
        _gpus(entries) if entries else None,
        _gpus(serving),
        _gpus(proven),
        (len(serving), len(entries)),
        known.read_at,
    )


def _with_work(points: list[Point], planned: Planned | None) -> tuple[Point, ...]:
    """With what is done with the node; that it is out, or away, is no fault while it is changed."""
    if planned:
        if planned.change:
            points = [_as_planned(point) for point in points]
        word = "unknown" if planned.damaged else "planned"
        points = [Point(word, clean(planned.text)), *points]
    return tuple(sorted(dict.fromkeys(points), key=lambda point: RANK[point.state]))


def _as_planned(point: Point) -> Point:
    is_expected = point.state in ("out", "partly out", "not read", "unknown")
    return replace(point, state="planned", next="") if is_expected else point


def _gpus(entries: list[Entry]) -> int:
    return sum(min(max(integer(entry.get("gpus")) or 0, 0), _MOST_GPUS) for entry in entries)


def _not_read(known: Known, now: float) -> Point:
    then = known.since if known.read_at is None else known.read_at
    age = max(0.0, now - then)
    when = (
        f"since {day_and_time(datetime.fromtimestamp(then, timestamp.UTC), age)} ({duration(age)})"
    )
    served = [mapping(entry) for entry in items(read(known.standing, "replicas"))]
    count = sum(entry.get("takes_requests") is True for entry in served)
    last = f"; then {count} of {len(served)} replicas served" if served else ""
    why = clean(known.why) or "not asked yet"
    return Point("not read", f"{why}{last}", advice.of_outcome("unreachable"), when, age)


def _points(standing: object, known: Known, clock: Clock, entries: list[Entry]) -> Iterator[Point]:
    if read(standing, "headless") is True:
        yield Point("member", "it works for a replica of another node, which shows it")
        return
    seen = list(faults.confirmed(standing))
    mark = read(standing, "quarantine")
    if mark is not None:
        yield _quarantined(mark, standing, clock)
    elif not entries:
        yield _no_replicas(read(standing, "replicas"))
    else:
        yield from faults.replicas_out(standing, entries, seen, clock)
        yield from faults.look(standing, known, clock)
    yield from faults.other_faults(standing, seen, clock)


def _quarantined(mark: object, standing: object, clock: Clock) -> Point:
    if not isinstance(mark, dict):
        why = mark.reason if isinstance(mark, Unmeasured) else "it is no mark"
        return Point("unknown", f"whether it is quarantined could not be read: {why}")
    when, age = clock.since(mark.get("since"))
    what = f"quarantined by {show(mark.get('who'))}: {show(mark.get('why'))}"
    if quarantine.mark_of(mark).open_trial(read(standing, "boot_id"), clock.boot_s):
        return Point("planned", f"on trial; {what}", "", when, age)
    return Point("out", what, "", when, age)


def _no_replicas(entries: object) -> Point:
    if isinstance(entries, Unmeasured):
        return Point("unknown", f"its replicas could not be read: {entries.reason}")
    return Point("unknown", "nothing is deployed on it", "run deploy/b200.py")


def _of_proof(proof: ProofNow, clock: Clock, share: int | None) -> Iterator[Point]:
    word = _OF_PROOF.get(proof.state)
    if word is None:
        return
    when, age = "", 0.0
    if proof.until and word == "expired":
        when, age = clock.since(timestamp.text(proof.until))
    elif proof.until and clock.at:
        left = (proof.until - clock.at).total_seconds() - clock.passed_s
        when, age = f"in {duration(max(0.0, left))}", -left
    less = share is not None and share < 100
    yield Point(word, proof.why + (f"; its share is {share} %" if less else ""), "", when, age)


def _unproven(serving: list[Entry], proof: ProofNow) -> Point:
    which = [show(one.get("index")) for one in serving
             if integer(one.get("index")) not in proof.replicas]  # fmt: skip
    return Point("not proven", f"its proof is not about replica {', '.join(which)}, which serves")
