"""One node as it stands now, by its last answer: what serves, and what a person should know. Pure.

What could not be read is never taken for sound: a node that does not answer serves nothing that
anybody knows of, however sound it was when it last did. The proof is read as it lies there; who
must rely on it verifies its signature (`b200 proof verify`). A proof of another boot or of another
node is none, whatever it says of itself. Times are compared by the node's own clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from b200kit.node.lib import documents, timestamp
from b200kit.node.state import advice, quarantine, watchdog
from b200kit.node.state.proof import EXPIRED, EXPIRING, VALID, NodeProof, stamp
from b200kit.node.state.watch import HealthCheck, NodeFault
from b200kit.node.state.watchdog import ReplicaState
from b200kit.report.document import (
    Unmeasured,
    clean,
    duration,
    integer,
    items,
    mapping,
    number,
    read,
    show,
)
from b200kit.report.outcome import Outcome
from b200kit.run import connection_fault

Entry = dict[str, object]
"""A replica in a standing document."""
SCHEMA = "b200kit/standing/1"
_STATES = (
    Outcome("red", "RED", "bad"),
    Outcome("unfit", "UNFIT", "bad"),
    Outcome("out", "OUT", "bad"),
    Outcome("partly out", "PARTLY OUT", "bad"),
    Outcome("expired", "EXPIRED", "bad"),
    Outcome("fault", "FAULT", "bad"),
    Outcome("not read", "NOT READ", "unknown"),
    Outcome("unknown", "UNKNOWN", "unknown"),
    Outcome("not proven", "NOT PROVEN", "unknown"),
    Outcome("planned", "PLANNED", "idle"),
    Outcome("member", "MEMBER", "idle"),
    Outcome("expiring", "EXPIRING", "waived"),
)
STATES = {state.word: state for state in _STATES}
"""What a node may be besides serving, that which most needs a person first."""
RANK = {state.word: place for place, state in enumerate(_STATES)}
SERVING = Outcome("serving", "serving", "good")
NONE, UNKNOWN = "none", "unknown"
_MEANWHILE = ("red", "unfit", "out", "partly out", "not read", "unknown")
"""What is no fault of a node that is being changed."""
_OF_PROOF = {
    EXPIRED: "expired", NONE: "not proven", UNKNOWN: "unknown",
    EXPIRING: "expiring",
}  # fmt: skip
_MOST_GPUS = 64
"""Of a replica; a node that says more does not count for more."""


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What is known of a node: its last answer and when that came, in seconds since 1970.

    *why*: why the last question brought none; "" where it did. *since*: when it was first asked.
    """

    standing: object = None
    read_at: float | None = None
    why: str = ""
    since: float = 0.0
    health_age_max_s: float = 75.0


@dataclass(frozen=True, slots=True)
class Planned:
    """What the transactions say of a node that somebody works on; *change*: it is no repair."""

    text: str
    change: bool = False
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """What the last run that judged a node said against it: a word of STATES, the cause, what to
    do, and when the run ended.
    """

    word: str
    cause: str
    action: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class NowPoint:
    """One thing to know of a node: a word of STATES, what it is, when, and what is next.

    *when* is a text of its own, so that nodes that are alike but for it are shown together, and
    *age_s* puts the oldest first.
    """

    state: str
    what: str
    next: str = ""
    when: str = field(default="", compare=False)
    age_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class NodeClock:
    """The node's clocks at its answer, and the seconds that passed since."""

    at: datetime | None
    boot_s: float | None
    passed_s: float

    @classmethod
    def of(cls, known: NodeAnswer, now: float) -> NodeClock:
        """Of an answer that is so old at *now*."""
        return cls(
            moment(read(known.standing, "at")),
            number(read(known.standing, "boot_s")),
            max(0.0, now - (known.read_at or now)),
        )

    def age_s(self, stamp: object) -> float | None:
        """Seconds since a time of the node's own clock."""
        then = moment(stamp)
        if then is None or self.at is None:
            return None
        return (self.at - then).total_seconds() + self.passed_s

    def since(self, stamp: object) -> tuple[str, float]:
        """ "since 09:14:02Z (4 m 10 s)", and the seconds; nothing where that is not known."""
        age, then = self.age_s(stamp), moment(stamp)
        if age is None or then is None:
            return "", 0.0
        return f"since {day_and_time(then, age)} ({duration(max(0.0, age))})", age


def day_and_time(then: datetime, age_s: float) -> str:
    """A time in UTC, with its day where that is long ago."""
    text = timestamp.text(then)
    return text.replace("T", " ") if abs(age_s) > 12 * 3600 else text[11:]


@dataclass(frozen=True, slots=True)
class ProofNow:
    """*state* is one of the words above, *why* what is the matter with it, *until* when it ends.

    *replicas*: those that it is about, by index.
    """

    state: str
    why: str = ""
    until: datetime | None = None
    replicas: frozenset[int] = frozenset()

    @property
    def holds(self) -> bool:
        """Whether what serves under it is proven."""
        return self.state in (VALID, EXPIRING)


def proof_now(standing: object, name: str, passed_s: float = 0.0) -> ProofNow:
    """The proof in a node's standing document; *name* is what the inventory calls the node.

    *passed_s*: seconds since it was read.
    """
    found = read(standing, "proof")
    if isinstance(found, Unmeasured):
        return ProofNow(UNKNOWN, f"its proof could not be read: {found.reason}")
    if found is None:
        return ProofNow(NONE, "no proof lies on it: what serves there is not proven")
    try:
        proof = documents.structure(NodeProof, found)
    except documents.Malformed as error:
        return ProofNow(UNKNOWN, f"its proof: {clean(str(error))}")
    boot_id, boot_s = read(standing, "boot_id"), number(read(standing, "boot_s"))
    if boot_id != proof.boot_id:
        return ProofNow(EXPIRED, "its proof is of another boot")
    if proof.node != name:
        return ProofNow(EXPIRED, f"its proof is of another node, {show(proof.node)}")
    if boot_s is None or moment(read(standing, "at")) is None:
        return ProofNow(UNKNOWN, "it does not say when it answered")
    elapsed = boot_s + passed_s - proof.boot_s
    worth, replicas = proof.validity(elapsed), frozenset(proof.serving.replicas)
    until = moment(stamp(proof.issued_s + proof.validity().left_s - proof.expired_s))
    why = clean(worth.why)
    if worth.standing == EXPIRED:
        return ProofNow(EXPIRED, f"its proof expired: {why}", until, replicas)
    late = f"its proof expires: {why}" if worth.standing == EXPIRING else ""
    return ProofNow(worth.standing, late, until, replicas)


def moment(stamp: object) -> datetime | None:
    """A time as documents have it, in UTC; None for what is none."""
    try:
        return timestamp.parse(stamp).astimezone(timestamp.UTC) if isinstance(stamp, str) else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class NodeNow:
    """A node: its points, GPUs of all replicas, of those that get requests, of those proven."""

    name: str
    points: tuple[NowPoint, ...]
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


def node_now(
    name: str, known: NodeAnswer, planned: Planned | None, refused: Refused | None, now: float
) -> NodeNow:
    """A node at *now*, seconds since 1970; its document may be anything.

    One that a run refused is that, whatever it answers, until a later run judged it.
    """
    if known.why or known.read_at is None:
        found = NodeNow(name, (_not_read(known, now),), ProofNow(UNKNOWN), read_at=known.read_at)
    elif read(known.standing, "schema") != SCHEMA:
        why = NowPoint("unknown", f"what it answered is no document of schema {SCHEMA}")
        found = NodeNow(name, (why,), ProofNow(UNKNOWN), read_at=known.read_at)
    else:
        found = _answered(name, known, now)
    points = [*found.points]
    if refused:
        # What it asks for itself, such as to be deployed, it was refused for.
        points = [_of_run(refused, now), *(replace(point, next="") for point in points)]
    return replace(found, points=_with_work(points, planned))


def _of_run(refused: Refused, now: float) -> NowPoint:
    then, when, age = moment(refused.at), "", 0.0
    if then is not None:
        age = max(0.0, now - then.timestamp())
        when = f"since {day_and_time(then, age)} ({duration(age)})"
    return NowPoint(refused.word, clean(refused.cause), clean(refused.action), when, age)


def _answered(name: str, known: NodeAnswer, now: float) -> NodeNow:
    standing, clock = known.standing, NodeClock.of(known, now)
    entries = [mapping(entry) for entry in items(read(standing, "replicas"))]
    serving = [entry for entry in entries if entry.get("takes_requests") is True]
    proof = proof_now(standing, name, clock.passed_s)
    proven = [one for one in serving if proof.holds and integer(one.get("index")) in proof.replicas]
    found = [*_points(standing, known, clock, entries)]
    if serving:
        found += _of_proof(proof, clock, integer(read(standing, "share")))
    if serving and proof.holds and len(proven) < len(serving):
        others = ", ".join(show(one.get("index")) for one in serving if one not in proven)
        why = f"its proof is not about replica {others}, which serves"
        found.append(NowPoint("not proven", why))
    return NodeNow(
        name,
        tuple(found),
        proof,
        _gpus(entries) if entries else None,
        _gpus(serving),
        _gpus(proven),
        (len(serving), len(entries)),
        known.read_at,
    )


def _with_work(points: list[NowPoint], planned: Planned | None) -> tuple[NowPoint, ...]:
    """With what is done with the node; that it is out, or away, is no fault while it is changed."""
    if planned:
        expected = _MEANWHILE if planned.change else ()
        points = [
            replace(point, state="planned", next="") if point.state in expected else point
            for point in points
        ]
        word = "unknown" if planned.damaged else "planned"
        points = [NowPoint(word, clean(planned.text)), *points]
    return tuple(sorted(dict.fromkeys(points), key=lambda point: RANK[point.state]))


def _gpus(entries: list[Entry]) -> int:
    return sum(min(max(integer(entry.get("gpus")) or 0, 0), _MOST_GPUS) for entry in entries)


def _not_read(known: NodeAnswer, now: float) -> NowPoint:
    then = known.since if known.read_at is None else known.read_at
    age = max(0.0, now - then)
    when = (
        f"since {day_and_time(datetime.fromtimestamp(then, timestamp.UTC), age)} ({duration(age)})"
    )
    served = [mapping(entry) for entry in items(read(known.standing, "replicas"))]
    count = sum(entry.get("takes_requests") is True for entry in served)
    last = f"; then {count} of {len(served)} replicas served" if served else ""
    why = clean(known.why) or "not asked yet"
    todo = connection_fault.advice(connection_fault.code_of(known.why)) if known.why else ""
    return NowPoint("not read", f"{why}{last}", todo, when, age)


def _points(
    standing: object, known: NodeAnswer, clock: NodeClock, entries: list[Entry]
) -> Iterator[NowPoint]:
    if read(standing, "headless") is True:
        yield NowPoint("member", "it works for a replica of another node, which shows it")
        return
    look: HealthCheck | None = None
    problem = ""
    try:
        look = documents.structure(HealthCheck, read(standing, "watch"))
    except documents.Malformed as error:
        problem = clean(str(error))
    seen = look.confirmed if look else []
    mark = read(standing, "quarantine")
    if mark is not None:
        yield _quarantined(mark, standing, clock)
    elif not entries:
        unread = read(standing, "replicas")
        if isinstance(unread, Unmeasured):
            yield NowPoint("unknown", f"its replicas could not be read: {unread.reason}")
        else:
            yield NowPoint("unknown", "nothing is deployed on it", "run b200 deploy")
    else:
        yield from _replicas_out(standing, entries, seen, clock)
        yield from _look(read(standing, "watch"), look, known, clock, problem)
    yield from _other_faults(standing, seen, clock)


def _quarantined(mark: object, standing: object, clock: NodeClock) -> NowPoint:
    if not isinstance(mark, dict):
        why = mark.reason if isinstance(mark, Unmeasured) else "it is no mark"
        return NowPoint("unknown", f"whether it is quarantined could not be read: {why}")
    when, age = clock.since(mark.get("since"))
    what = f"quarantined by {show(mark.get('who'))}: {show(mark.get('why'))}"
    if quarantine.mark_of(mark).open_trial(read(standing, "boot_id"), clock.boot_s):
        return NowPoint("planned", f"on trial; {what}", "", when, age)
    return NowPoint("out", what, "", when, age)


def _of_proof(proof: ProofNow, clock: NodeClock, share: int | None) -> Iterator[NowPoint]:
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
    yield NowPoint(word, proof.why + (f"; its share is {share} %" if less else ""), "", when, age)


def _replicas_out(
    standing: object, entries: list[Entry], faults: list[NodeFault], clock: NodeClock
) -> Iterator[NowPoint]:
    """Replicas without new requests, together where they are out for one reason."""
    word = "partly out" if any(one.get("takes_requests") is True for one in entries) else "out"
    groups: dict[NowPoint, list[str]] = {}
    for entry in entries:
        takes = read(entry, "takes_requests")
        if isinstance(takes, Unmeasured):
            why = f"who is in rotation could not be read: {takes.reason}"
            groups.setdefault(NowPoint("unknown", why), []).append(show(entry.get("index")))
        elif takes is not True:
            point = _out(standing, entry, word, faults, clock)
            groups.setdefault(point, []).append(show(entry.get("index")))
    for point, which in groups.items():
        names = f"replica{'s' * (len(which) > 1)} {', '.join(which)}"
        yield NowPoint(point.state, f"{names}: {point.what}", point.next, point.when, point.age_s)


def _out(
    standing: object, entry: Entry, word: str, faults: list[NodeFault], clock: NodeClock
) -> NowPoint:
    document = read(standing, "watchdog", show(entry.get("index")))
    kept = documents.understood(ReplicaState, document) or ReplicaState()
    status = show(entry.get("status"))
    if kept.held:
        fault = next((f for f in faults if f.finding.summary == kept.held), None)
        when = clock.since(fault.since if fault else read(document, "last", "at"))
        return NowPoint(word, clean(kept.held), advice.of(fault.finding) if fault else "", *when)
    if kept.given_up:
        times, mark = len(kept.ejections), read(standing, "mark")
        when = clock.since(read(mark, "when"))
        todo = f"once it is repaired: rm {watchdog.MARK}"
        return NowPoint(word, f"given up after {times} ejections: {clean(kept.why)}", todo, *when)
    if kept.out:
        todo = "the watchdog restarts it, and puts it back once it answers"
        return NowPoint(word, f"ejected: {clean(kept.why)}", todo, *_ejected(kept, document, clock))
    drained = isinstance(read(standing, "drained"), dict)
    return NowPoint(word, f"{'drained on purpose' if drained else 'not in rotation'} ({status})")


def _ejected(kept: ReplicaState, document: object, clock: NodeClock) -> tuple[str, float]:
    """Since when, by the clock of this boot, which is what its ejections are counted by."""
    if clock.boot_s is None or clock.at is None or not kept.ejections:
        return clock.since(read(document, "last", "at"))
    try:
        then = clock.at.timestamp() - (clock.boot_s - kept.ejections[-1])
        return clock.since(timestamp.text(datetime.fromtimestamp(then, timestamp.UTC)))
    except (ValueError, OverflowError, OSError):
        return "", 0.0


def _look(
    document: object, look: HealthCheck | None, known: NodeAnswer, clock: NodeClock, problem: str
) -> Iterator[NowPoint]:
    """Whether the last check says anything about now; *problem*: why it is not understood."""
    why, when, age = "", "", 0.0
    if document is None:
        why = "nobody has checked it in this boot"
    elif isinstance(document, Unmeasured):
        why = f"its last health check could not be read: {document.reason}"
    elif look is None:
        why = f"its last health check: {problem}"
    elif clock.boot_s is None or look.boot_s > clock.boot_s:
        why = "its last health check does not say when it was"
    elif (age := clock.boot_s - look.boot_s) > known.health_age_max_s:
        why, when = "its last health check is too old to say anything", f"({duration(age)} old)"
    if why:
        yield NowPoint("unknown", why, "on the node: journalctl -u b200-agent", when, age)


def _other_faults(
    standing: object, faults: list[NodeFault], clock: NodeClock
) -> Iterator[NowPoint]:
    """Confirmed faults that took nobody out."""
    every = mapping(read(standing, "watchdog")).values()
    kept = [one for d in every if (one := documents.understood(ReplicaState, d))]
    held = {one.held for one in kept}
    for fault in faults:
        if fault.finding.summary not in held:
            when, age = clock.since(fault.since)
            yield NowPoint(
                "fault", clean(fault.finding.summary), advice.of(fault.finding), when, age
            )
    mark = read(standing, "mark")
    if mark is not None and not any(one.given_up for one in kept):
        what = mark.reason if isinstance(mark, Unmeasured) else str(watchdog.mark_of(mark))
        yield NowPoint("fault" if isinstance(mark, dict) else "unknown", clean(what))
