"""What the agent's file says, as metrics.

Nothing that is absent or unreadable gets a healthy value: then its series is missing, or 0 where 0
is the bad value, and `b200_reading_present` says so. Moments are timestamps, not ages: `time() -`
grows although nobody writes any more, so that what is stale never looks fresh.

Prometheus' text format is version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import b200kit
from b200kit.node.lib import boot_clock, documents, durable_files, timestamp
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state import watch
from b200kit.node.state.agent import AgentState, NodeNotes, RecordedLatency
from b200kit.node.state.proof import NodeProof, ProofValidity
from b200kit.node.state.watch import HealthCheck, NodeFault
from b200kit.node.state.watchdog import ProbeOutcome, ReplicaState
from b200kit.node.status import shares

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Sample = tuple[Mapping[str, object], float]
"""Labels and value of one series."""
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


@dataclass(frozen=True)
class MetricFamily:
    """One metric: its name, what it is in one sentence, its series. Without a series: absent."""

    name: str
    help: str
    samples: tuple[Sample, ...]
    kind: Literal["gauge", "counter"] = "gauge"

    def lines(self) -> list[str]:
        """HELP, TYPE, then a line a series. Raises ValueError for a name Prometheus refuses."""
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name of a metric")
        text = self.help.translate({ord("\\"): "\\\\", ord("\n"): "\\n"})
        head = [f"# HELP {self.name} {text}", f"# TYPE {self.name} {self.kind}"]
        return [*head, *(_line(self.name, labels, value) for labels, value in self.samples)]


def _line(name: str, labels: Mapping[str, object], value: float) -> str:
    for label in labels:
        if not LABEL.fullmatch(label):
            raise ValueError(f"{name}: {label!r} is no name of a label")
    pairs = ",".join(f'{k}="{str(v).translate(_ESCAPES)}"' for k, v in labels.items())
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _number(value: float) -> str:
    """Whole numbers without a point: a timestamp must not lose its seconds to an exponent."""
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def text(families: Iterable[MetricFamily]) -> str:
    """The whole page; a family without a series is left out."""
    lines = [line for family in families if family.samples for line in family.lines()]
    return "\n".join(lines) + "\n"


# vllm/v1/metrics/loggers.py, commit 005a810b (quoted); of TTFT without the two that are minutes.
_TTFT = (
    *("0.001", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08", "0.1", "0.25", "0.5", "0.75"),
    *("1.0", "2.5", "5.0", "7.5", "10.0", "20.0", "40.0", "80.0", "160.0"),
)
_ITL = (
    *("0.01", "0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5", "0.75"),
    *("1.0", "2.5", "5.0", "7.5", "10.0", "20.0", "40.0", "80.0"),
)
BOUNDS: Mapping[str, Sequence[str]] = {"ttft": _TTFT, "itl": _ITL}
"""Metric of a record to the label `le` of each bucket, as vLLM writes it."""


def bound(known: RecordedLatency, tolerance: float) -> str | None:
    """The bucket whose bound is compared; None where the record is beyond all of them.

    A quantile that Prometheus computes from buckets is a guess within one bucket, and vLLM's lowest
    for ITL is 10 ms: against a record of 6 ms it would alarm for ever. That more than 1 % of the
    requests took longer than a bucket's own bound is no guess. So a record is compared at the first
    bound that is not below it by the tolerance: an alarm is always true, and comes as early as the
    buckets allow.
    """
    limit = known.seconds * (1 + tolerance)
    return next((le for le in BOUNDS[known.metric] if float(le) >= limit), None)


@dataclass(frozen=True)
class MetricsInput:
    """Everything that is known on a node at one moment.

    now: seconds since the epoch; moment: the boot and seconds since it began. state: the agent's
    file, None where it cannot be read. given: share that the node was given, percent.
    """

    now: float
    moment: Moment
    state: AgentState | None
    tolerance: float = 0.1
    given: int = 100

    @cached_property
    def here(self) -> AgentState | None:
        """What is known of this boot."""
        known = self.state
        return known if known and known.boot_id == self.moment.boot_id else None

    @cached_property
    def look(self) -> HealthCheck | None:
        """The last health check, however old it is: its readings have their time."""
        return self.here.watch if self.here else None

    @cached_property
    def valid_look(self) -> HealthCheck | None:
        """The last health check, where it says something about now."""
        return self.state.look_at(*self.moment) if self.state else None

    @cached_property
    def proof(self) -> NodeProof | None:
        """The proof; None where none is issued."""
        return self.state.proof if self.state else None

    @cached_property
    def validity(self) -> ProofValidity | None:
        """What that is worth now."""
        return self.proof.within(*self.moment) if self.proof else None

    def by_boot(self, boot_s: float) -> float:
        """A moment of this boot by the time of day as it is now: no step makes anything older."""
        return self.now - (self.moment.seconds - boot_s)


def of_file(path: Path, tolerance: float = 0.1) -> str:
    """The page of the agent's file, now."""
    state, share = documents.remembered(AgentState, path), shares.given()
    known = MetricsInput(time.time(), boot_clock.now(), state, tolerance, share)
    return text(families(known))


def write(path: Path, page: str) -> None:
    """Where something else gives it. Raises OSError."""
    durable_files.replace(path, page)


def families(known: MetricsInput) -> list[MetricFamily]:
    """Every metric of a node, in a fixed order."""
    parts = (_head, _readings, _faults, _replicas, _proof, _record, _gpus)
    return [family for part in parts for family in part(known)]


def _one(name: str, text: str, value: float, **labels: object) -> MetricFamily:
    return MetricFamily(f"b200_{name}", text, ((labels, float(value)),))


def _head(known: MetricsInput) -> Iterator[MetricFamily]:
    version = known.state.version if known.state else b200kit.__version__
    yield _one("build_info", "Version of b200kit's node program.", 1, version=version)
    notes = known.state.notes if known.state else NodeNotes(quarantined=True, marked=True)
    in_service = known.valid_look is not None and known.valid_look.in_service
    text = "A health check that still holds found it in service: 1; or 0, also if unknown."
    yield _one("node_in_service", text, in_service and not notes.quarantined)
    text = "Somebody took the node out, or that is unreadable."
    yield _one("node_quarantined", text, notes.quarantined)
    text = "The agent gave a replica up, or its mark is unreadable."
    yield _one("node_marked", text, notes.marked)
    counts = known.here.health_checks if known.here else {}
    looks = tuple(({"result": word}, float(n)) for word, n in sorted(counts.items()))
    text = "Health checks since its boot, by how they ended."
    yield MetricFamily("b200_health_checks_total", text, looks, "counter")


def _readings(known: MetricsInput) -> Iterator[MetricFamily]:
    """When each part was taken, in the clock that nobody sets where it says so."""
    here, notes = known.here, known.state.notes if known.state else NodeNotes()
    times = {
        "metrics": known.by_boot(here.boot_s) if here else None,
        "health": known.by_boot(known.look.boot_s) if known.look else None,
        "verdict": _moment(notes.verdict_at),
        "record": _moment(notes.record_at),
        "proof": _moment(known.proof.issued_at) if known.proof else None,
    }
    present = {name: at is not None for name, at in times.items()}
    ends = {
        path: _moment(at) for path, at in (known.look.certificates if known.look else {}).items()
    }
    present |= {f"certificates {path}": at is not None for path, at in ends.items()}
    for index in known.state.replicas if known.state else {}:
        state = _state(known, index)
        present[f"replica {index}"] = state is not None
        # One that is out is not probed until it is repaired or its fault is over.
        last = state.last if state and reason(state) is None else None
        times[f"replica {index}"] = _moment(last.at) if last else None
    there = {name: at for name, at in times.items() if at is not None}
    yield MetricFamily(
        "b200_reading_timestamp_seconds",
        "When a reading was taken; its age is time() minus this.",
        tuple(({"reading": name}, at) for name, at in there.items()),
    )
    yield MetricFamily(
        "b200_reading_present",
        "Whether a reading is there and can be read.",
        tuple(({"reading": name}, float(is_there)) for name, is_there in present.items()),
    )
    if known.look:
        yield _one(
            "health_check_duration_seconds",
            "How long the last health check took.",
            known.look.took_s,
        )
    rows = tuple(({"file": path}, at) for path, at in ends.items() if at is not None)
    yield MetricFamily(
        "b200_certificate_expiry_timestamp_seconds", "When a file's certificates end.", rows
    )


def _moment(stamp: object) -> float | None:
    try:
        return timestamp.parse(stamp).timestamp()
    except ValueError:
        return None


def _faults(known: MetricsInput) -> Iterator[MetricFamily]:
    if not known.look:
        return
    confirmed = known.look.confirmed
    yield _one(
        "faults_confirmed", "Faults that count, as of the last health check.", len(confirmed)
    )
    waiting = len(known.look.faults) - len(confirmed)
    yield _one("faults_unconfirmed", "Faults that were seen and do not count yet.", waiting)
    named = {tuple(_fault_labels(fault).items()): fault for fault in confirmed}
    yield MetricFamily(
        "b200_fault_confirmed",
        "A fault that counts, by check, first word of its id, and subject.",
        tuple((dict(labels), 1.0) for labels in named),
    )


def _fault_labels(fault: NodeFault) -> dict[str, str]:
    """A subject of a GPU is a label of its own, without the word: "5"."""
    finding = fault.finding
    gpu = finding.subject.removeprefix("GPU ") if finding.subject.startswith("GPU ") else ""
    group = finding.check.partition(".")[0]
    return {"check": finding.check, "group": group, "gpu": gpu, "subject": finding.subject}


def _state(known: MetricsInput, index: str) -> ReplicaState | None:
    return known.here.watchdog.get(index) if known.here else None


def reason(standing: ReplicaState | None) -> str | None:
    """Why a replica is out of the gateway, a word of REASONS; None where it is in."""
    if standing is None:
        return "unknown"
    if standing.given_up:
        return "given_up"
    if standing.held:
        return "node_fault"
    return _OF_OUTCOME.get(standing.found, "failed") if standing.out else None


def _replicas(known: MetricsInput) -> Iterator[MetricFamily]:
    if known.state is None:
        return
    replicas = known.state.replicas
    states = {index: _state(known, index) for index in replicas}
    out = {index: reason(state) for index, state in states.items()}
    reasons = [
        ({"replica": i, "reason": r}, float(r == why)) for i, why in out.items() for r in REASONS
    ]
    text = "Whether the agent keeps a replica out of the gateway for a reason."
    yield MetricFamily("b200_replica_out", text, tuple(reasons))
    text = "How often the agent ejected a replica within its window."
    rows = tuple(
        ({"replica": index}, float(len(state.ejections) if state else 0))
        for index, state in states.items()
    )
    yield MetricFamily("b200_replica_ejections", text, rows)
    # What no health check that holds has seen is taken to serve, and is not proven.
    may = [i for i, why in out.items() if why is None and watch.may_serve(known.valid_look, int(i))]
    gpus = sum(replicas[index] for index in may)
    text = "GPUs of the replicas that ran at the last health check and are kept in the gateway."
    yield _one("serving_gpus", text, gpus)
    proven = gpus if known.validity and known.validity.holds else 0
    yield _one("proven_gpus", "GPUs of those that serve under a proof that holds.", proven)


def _proof(known: MetricsInput) -> Iterator[MetricFamily]:
    proof, validity = known.proof, known.validity
    standing = validity.standing if validity else "absent"
    rows = tuple(({"standing": word}, float(word == standing)) for word in STANDINGS)
    yield MetricFamily("b200_proof_standing", "What the node's proof is worth now.", rows)
    if proof is None or validity is None:
        return
    yield _one("proof_expiry_timestamp_seconds", "When it expires.", known.now + validity.left_s)
    at_s = proof.issued_s
    ends = tuple(({"kind": one.kind}, at_s + one.left_s(at_s)) for one in proof.evidence)
    text = "When a kind of evidence runs out."
    yield MetricFamily("b200_proof_evidence_expiry_timestamp_seconds", text, ends)
    results: list[Sample] = [
        ({"kind": one.kind, "result": word}, float(one.result == word))
        for one in proof.evidence
        for word in RESULTS
    ]
    yield MetricFamily(
        "b200_proof_evidence_result", "What a kind of evidence found.", tuple(results)
    )
    share = proof.share(*known.moment, known.given)
    yield _one("share_percent", "Share of a whole node's load that it asks for.", share)


def _record(known: MetricsInput) -> Iterator[MetricFamily]:
    """The node's own record, and the buckets of its engine that tell when it is exceeded."""
    figures = known.state.notes.record if known.state else ()
    for metric in BOUNDS:
        own = [one for one in figures if one.metric == metric]
        rows = tuple(({"percentile": one.percentile}, one.seconds) for one in own)
        text = f"{metric.upper()} of the last smoke test that passed, measured through the gateway."
        yield MetricFamily(f"b200_record_{metric}_seconds", text, rows)
    allowed: dict[str, Sample] = {}
    for one in figures:
        if le := bound(one, known.tolerance):
            labels = {"metric": one.metric, "bucket": le, "percentile": one.percentile}
            allowed.setdefault(one.metric, (labels, one.allowed))
    text = "Share of the requests that may take longer than the engine's bucket."
    yield MetricFamily("b200_record_allowed_ratio", text, tuple(allowed.values()))


def _gpus(known: MetricsInput) -> Iterator[MetricFamily]:
    """What the last health check read of each GPU."""
    gpus = known.look.gpus if known.look else ()
    for name, text, key, factor in GPU_READINGS:
        rows = [({"gpu": one.get("index")}, one.get(key)) for one in gpus]
        known_rows = tuple((la, v * factor) for la, v in rows if v is not None)
        yield MetricFamily(f"b200_gpu_{name}", text, known_rows)
