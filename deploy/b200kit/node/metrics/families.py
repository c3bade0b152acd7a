"""What the node's own documents say, as metrics. Pure.

Nothing that is absent or unreadable gets a healthy value: then its series is missing, or 0 where 0
is the bad value, and `b200_reading_present` says so. Moments are timestamps, not ages: `time() -`
grows although nobody writes any more, so that what is stale never looks fresh.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import documents, timestamp
from b200kit.node.metrics import latency_bounds
from b200kit.node.metrics.exposition import Family, Sample
from b200kit.node.proof.document import Proof
from b200kit.node.state import watch
from b200kit.node.state.watch import Fault, Look
from b200kit.node.state.watchdog import ProbeOutcome, ReplicaState

REASONS = ("node_fault", "no_answer", "wrong_answers", "slow", "failed", "given_up", "unknown")
"""Why a replica is out of the gateway."""
STANDINGS = ("valid", "expiring", "expired", "absent")
RESULTS = ("pass", "fail", "unmeasured")
_OF_OUTCOME = {
    ProbeOutcome.WRONG.value: "wrong_answers",
    ProbeOutcome.NO_ANSWER.value: "no_answer",
    ProbeOutcome.STALLED.value: "no_answer",
    ProbeOutcome.SLOW.value: "slow",
}
GPU_READINGS = (
    ("temperature_celsius", "Temperature of the GPU.", "temperature_c", 1),
    ("power_watts", "Power the GPU draws.", "power_usage_mw", 0.001),
    ("sm_clock_hertz", "Clock of the streaming multiprocessors.", "sm_clock_mhz", 1e6),
    (
        "ecc_uncorrected_errors",
        "Uncorrected errors of memory since the driver was loaded.",
        "ecc_volatile_uncorrected",
        1,
    ),
)


class Events(NamedTuple):
    """Those that some sink has not received yet, and those that none will receive any more."""

    waiting: int
    dropped: int


@dataclass(frozen=True)
class MetricsInput:
    """Everything that is known on a node at one moment.

    now: seconds since the epoch; boot_s: since the boot. notes: as in the observation. replicas:
    index to its GPUs' UUIDs, None where serving.json cannot be read. looks: outcome of a look, by
    systemd's word, to how many there were since the boot. share: percent, None where no proof is
    issued. events: None where there is no sink, or they cannot be counted.
    """

    now: float
    boot_s: float
    version: str
    notes: Mapping[str, Any]
    replicas: Mapping[int, Sequence[str]] | None
    looks: Mapping[str, int] = field(default_factory=dict)
    proof: object = None
    tolerance: float = 0.1
    share: int | None = None
    events: Events | None = None
    has_sink: bool = False

    def note(self, name: str) -> Mapping[str, Any]:
        """A note of the node; empty where it is absent or could not be read."""
        found = self.notes.get(name)
        readable = isinstance(found, Mapping) and "unmeasured" not in found
        return found if isinstance(found, Mapping) and readable else {}

    @cached_property
    def look(self) -> Look | None:
        """The last look of this boot; None where none is there that is understood."""
        return documents.understood(Look, self.notes.get("watch"))

    @cached_property
    def smoke(self) -> SmokeResult | None:
        """The last smoke test; None where none is there that is understood."""
        return documents.understood(SmokeResult, self.notes.get("smoke"))

    @cached_property
    def issued(self) -> Proof | None:
        """The proof; None where none is there that is understood."""
        return documents.understood(Proof, self.proof)


def families(known: MetricsInput) -> list[Family]:
    """Every metric of a node, in a fixed order."""
    parts = (_head, _readings, _faults, _replicas, _proof, _events, _record, _gpus)
    return [family for part in parts for family in part(known)]


def _one(name: str, text: str, value: float, **labels: object) -> Family:
    return Family(f"b200_{name}", text, ((labels, float(value)),))


def _head(known: MetricsInput) -> Iterator[Family]:
    yield _one("build_info", "Version of b200kit's node program.", 1, version=known.version)
    marked, quarantined = (known.notes.get(n) is not None for n in ("watchdog_mark", "quarantine"))
    in_service = known.look is not None and known.look.in_service and not quarantined
    yield _one(
        "node_in_service", "Last look found it in service: 1; or 0, also if unknown.", in_service
    )
    yield _one(
        "node_quarantined", "Somebody took the node out, or that is unreadable.", quarantined
    )
    yield _one("node_marked", "The watchdog gave a replica up, or its mark is unreadable.", marked)
    looks = tuple(({"result": word}, float(n)) for word, n in sorted(known.looks.items()))
    text = "Looks at the node since its boot, by how systemd saw them end."
    yield Family("b200_looks_total", text, looks, "counter")


def _readings(known: MetricsInput) -> Iterator[Family]:
    """When each document was taken, in the clock that nobody sets where it says so."""
    times = {
        "metrics": known.now,
        "look": _look_time(known),
        "verdict": _moment(known.note("verdict").get("taken_at")),
        "record": _moment(known.smoke.taken_at) if known.smoke else None,
        "proof": _moment(known.issued.issued_at) if known.issued else None,
    }
    present = {name: at is not None for name, at in times.items()}
    present["serving"] = known.replicas is not None
    if known.has_sink:
        present["events"] = known.events is not None
    files = known.look.certificates if known.look else {}
    ends = {path: _moment(at) for path, at in files.items()}
    present |= {f"certificates {path}": at is not None for path, at in ends.items()}
    for index in known.replicas or {}:
        state = _state(known, index)
        present[f"replica {index}"] = state is not None
        # One that is out is not probed until it is repaired or its fault is over.
        last = state.last if state and reason(state) is None else None
        times[f"replica {index}"] = _moment(last.at) if last else None
    there = {name: at for name, at in times.items() if at is not None}
    yield Family(
        "b200_reading_timestamp_seconds",
        "When a reading was taken; its age is time() minus this.",
        tuple(({"reading": name}, at) for name, at in there.items()),
    )
    yield Family(
        "b200_reading_present",
        "Whether a reading is there and can be read.",
        tuple(({"reading": name}, float(is_there)) for name, is_there in present.items()),
    )
    if known.look:
        yield _one("look_duration_seconds", "How long the last look took.", known.look.took_s)
    rows = tuple(({"file": path}, at) for path, at in ends.items() if at is not None)
    yield Family(
        "b200_certificate_expiry_timestamp_seconds", "When a file's certificates end.", rows
    )


def _look_time(known: MetricsInput) -> float | None:
    """By the seconds since the boot: a clock that was stepped makes no look older or younger."""
    return known.now - (known.boot_s - known.look.boot_s) if known.look else None


def _moment(stamp: object) -> float | None:
    try:
        return timestamp.parse(stamp).timestamp()
    except ValueError:
        return None


def _faults(known: MetricsInput) -> Iterator[Family]:
    if not known.look:
        return
    confirmed = known.look.confirmed
    yield _one("faults_confirmed", "Faults that count, as of the last look.", len(confirmed))
    waiting = len(known.look.faults) - len(confirmed)
    yield _one("faults_unconfirmed", "Faults that were seen and do not count yet.", waiting)
    named = {tuple(_fault_labels(fault).items()): fault for fault in confirmed}
    yield Family(
        "b200_fault_confirmed",
        "A fault that counts, by check, first word of its id, and subject.",
        tuple((dict(labels), 1.0) for labels in named),
    )


def _fault_labels(fault: Fault) -> dict[str, str]:
    """A subject of a GPU is a label of its own, without the word: "5"."""
    finding = fault.finding
    gpu = finding.subject.removeprefix("GPU ") if finding.subject.startswith("GPU ") else ""
    group = finding.check.partition(".")[0]
    return {"check": finding.check, "group": group, "gpu": gpu, "subject": finding.subject}


def _state(known: MetricsInput, index: int) -> ReplicaState | None:
    every = known.notes.get("watchdog")
    found = every.get(str(index)) if isinstance(every, Mapping) else None
    return documents.understood(ReplicaState, found)


def reason(standing: ReplicaState | None) -> str | None:
    """Why a replica is out of the gateway, a word of REASONS; None where it is in."""
    if standing is None:
        return "unknown"
    if standing.given_up:
        return "given_up"
    if standing.held:
        return "node_fault"
    return _OF_OUTCOME.get(standing.found, "failed") if standing.out else None


def _replicas(known: MetricsInput) -> Iterator[Family]:
    if known.replicas is None:
        return
    states = {index: _state(known, index) for index in known.replicas}
    out = {index: reason(state) for index, state in states.items()}
    reasons = [
        ({"replica": i, "reason": r}, float(r == why)) for i, why in out.items() for r in REASONS
    ]
    text = "Whether the watchdog keeps a replica out of the gateway for a reason."
    yield Family("b200_replica_out", text, tuple(reasons))
    text = "How often the watchdog ejected a replica within its window."
    rows = tuple(
        ({"replica": index}, float(len(state.ejections) if state else 0))
        for index, state in states.items()
    )
    yield Family("b200_replica_ejections", text, rows)
    serving = [i for i, why in out.items() if why is None and watch.may_serve(known.look, i)]
    gpus = sum(len(known.replicas[index]) for index in serving)
    text = "GPUs of the replicas that ran at the last look and are kept in the gateway."
    yield _one("serving_gpus", text, gpus)
    proven = gpus if standing_of(known) in ("valid", "expiring") else 0
    yield _one("proven_gpus", "GPUs of those that serve under a proof that holds.", proven)


def standing_of(known: MetricsInput) -> str:
    """The proof's standing; what ran out since it was written is expired, whatever it says."""
    if known.issued is None:
        return "absent"
    over = (_moment(known.issued.valid_until) or 0.0) <= known.now
    return "expired" if over else known.issued.standing


def _proof(known: MetricsInput) -> Iterator[Family]:
    standing, proof = standing_of(known), known.issued
    rows = tuple(({"standing": word}, float(word == standing)) for word in STANDINGS)
    yield Family("b200_proof_standing", "What the node's proof is worth now.", rows)
    if proof and (until := _moment(proof.valid_until)) is not None:
        yield _one("proof_expiry_timestamp_seconds", "When the proof runs out.", until)
    evidence = proof.evidence if proof else ()
    ends = [({"kind": one.kind}, _moment(one.valid_until)) for one in evidence]
    yield Family(
        "b200_proof_evidence_expiry_timestamp_seconds",
        "When a kind of evidence runs out.",
        tuple((labels, at) for labels, at in ends if at is not None),
    )
    text = "What a kind of evidence found."
    results: list[Sample] = [
        ({"kind": one.kind, "result": word}, float(one.result == word))
        for one in evidence
        for word in RESULTS
    ]
    yield Family("b200_proof_evidence_result", text, tuple(results))
    if known.share is not None:
        yield _one("share_percent", "Share of a whole node's load that it asks for.", known.share)


def _events(known: MetricsInput) -> Iterator[Family]:
    if known.events is None:
        return
    yield _one("events_waiting", "Events that a sink has not received yet.", known.events.waiting)
    text = "Events that were dropped, as too many waited or for a day."
    yield Family("b200_events_dropped_total", text, (({}, known.events.dropped),), "counter")


def _record(known: MetricsInput) -> Iterator[Family]:
    """The node's own record, and the buckets of its engine that tell when it is exceeded."""
    figures = latency_bounds.record(known.smoke)
    for metric in latency_bounds.BOUNDS:
        own = [one for one in figures if one.metric == metric]
        rows = tuple(({"percentile": one.percentile}, one.seconds) for one in own)
        text = f"{metric.upper()} of the last smoke test that passed, measured through the gateway."
        yield Family(f"b200_record_{metric}_seconds", text, rows)
    allowed: dict[str, Sample] = {}
    for one in figures:
        if le := latency_bounds.bound(one, known.tolerance):
            labels = {"metric": one.metric, "bucket": le, "percentile": one.percentile}
            allowed.setdefault(one.metric, (labels, one.allowed))
    text = "Share of the requests that may take longer than the engine's bucket."
    yield Family("b200_record_allowed_ratio", text, tuple(allowed.values()))


def _gpus(known: MetricsInput) -> Iterator[Family]:
    """What the last look read of each GPU."""
    gpus = known.look.gpus if known.look else ()
    for name, text, key, factor in GPU_READINGS:
        rows = [({"gpu": one.get("index")}, one.get(key)) for one in gpus]
        known_rows = tuple((la, v * factor) for la, v in rows if v is not None)
        yield Family(f"b200_gpu_{name}", text, known_rows)
