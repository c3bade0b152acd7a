"""What the agent knows of its node: in memory, and in one signed file from which it goes on.

What is read of the node's other notes is read again once their files change.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import b200kit
from b200kit.node.agent import evidence
from b200kit.node.agent.evidence import Now
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import boot_clock, documents, durable_files, timestamp
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.lib.kept import KeptReading, changes
from b200kit.node.lib.managed_files import STATE_DIRECTORY, note
from b200kit.node.lib.readings import attempt, is_digits
from b200kit.node.lib.signature import sign
from b200kit.node.state import advice, agent, watch
from b200kit.node.state.agent import AgentState, NodeNotes, RecordedLatency
from b200kit.node.state.event import Event, of_fault
from b200kit.node.state.mend import MendTries
from b200kit.node.state.proof import NodeProof, ProofRules, ServingNow
from b200kit.node.state.serving import ServedReplica
from b200kit.node.state.watch import HealthCheck, NodeFault
from b200kit.node.state.watchdog import ReplicaState

EVENTS = 100
"""Events that are kept for whoever is told of them."""
RECORDED = ("ttft", "itl")


def say(line: str) -> None:
    """One line for the journal."""
    print(line, file=sys.stderr, flush=True)


@dataclass
class AgentMemory:
    """*serving*: path of serving.json, whose digest names the configuration. *rules*: of the proof,
    None where none is issued. *sign*: a signature under the file. Told of what changes, it is `due`
    to be saved.
    """

    node: str
    replicas: Sequence[ServedReplica]
    serving: Path
    rules: ProofRules | None = None
    health_holds_s: float = 60.0
    path: Path = Path(agent.PATH)
    directory: Path = STATE_DIRECTORY
    clock: Callable[[], Moment] = boot_clock.now
    wall: Callable[[], float] = time.time
    sign: Callable[[bytes], bytes] = sign
    look: HealthCheck | None = None
    health_checks: Counter[str] = field(default_factory=Counter)
    standings: dict[int, ReplicaState] = field(default_factory=dict)
    mends: MendTries | None = None
    proof: NodeProof | None = None
    events: list[Event] = field(default_factory=list)
    number: int = 0
    due: bool = False
    _reported: str = ""
    _problem: str = ""

    def __post_init__(self) -> None:
        files = {
            name: self.directory / f"{name}.json" for name in ("verdict", "smoke", "bandwidth")
        }
        self._left = {
            name: KeptReading(partial(attempt, partial(note, path)), partial(changes, [path]))
            for name, path in files.items()
        }
        self._configured = KeptReading(
            lambda: evidence.digest(attempt(lambda: note(self.serving))),
            partial(changes, [self.serving]),
        )
        self._smoke = KeptReading(self._smoked, partial(changes, [files["smoke"]]))

    def recall(self) -> None:
        """Take up what an earlier agent knew.

        Looks and what was mended are of a boot, and so are ejections, which are counted by its
        clock. What is remembered of replicas outlives it. Of a file that cannot be read nothing is
        known: each replica counts as out until it has answered.
        """
        try:
            found = documents.load(AgentState, self.path)
        except FileNotFoundError:
            return
        except documents.Malformed as error:
            say(f"what was known is lost: {error}")
            lost = ReplicaState(out=True, why="what was known of it is lost")
            self.standings = {replica.index: lost for replica in self.replicas}
            return
        here = found.boot_id == self.clock().boot_id
        self.proof, self.events, self.number = found.proof, [*found.events], found.last_event
        known = {replica.index for replica in self.replicas}
        standings = {int(k): one for k, one in found.watchdog.items() if is_digits(k)}
        self.standings = {index: one for index, one in standings.items() if index in known}
        standing = [e.kind for e in self.events if e.kind.startswith("proof.")][-1:]
        self._reported = "".join(standing).partition(".")[2]
        if here:
            self.look, self.mends = found.watch, found.mends
            self.health_checks = Counter(found.health_checks)
        else:
            self.standings = {k: replace(one, ejections=()) for k, one in self.standings.items()}

    def tell(self, event: Event) -> None:
        """Keep an event for whoever is told of them; of many, the last ones."""
        self.number += 1
        stamped = event.stamped(self.number, timestamp.now(), self.node, self.clock())
        self.events = [*self.events[1 - EVENTS :], stamped]
        self.due = True

    def keep(self, index: int, standing: ReplicaState) -> None:
        """Remember a replica, on disk before anything is done to it that changes what is known."""
        differs = self.standings.get(index) != standing
        self.standings[index] = standing
        if differs:
            self.save()

    def looked(self, look: HealthCheck) -> None:
        """Remember a health check, and tell what it changed."""
        known = self.look.faults if self.look else ()
        for change, fault in watch.changes(known, look.faults):
            say(line(change, fault))
            self.tell(of_fault(change, fault))
        self.look = look

    def prove(self) -> None:
        """Issue the proof of what is known now, and tell where its standing changed."""
        if self.rules is None:
            self.proof = None
            return
        moment, then = self.clock(), self.proof
        now = Now(moment.boot_id, moment.seconds, self.wall())
        serving = self.serving_now()
        found = [
            evidence.of_health(self.look, serving.replicas, now),
            evidence.of_gate(self._left["verdict"].get(), now),
            *self._smoke.get()[0](self._configured.get()),
            evidence.of_bandwidth(self._left["bandwidth"].get(), self.look),
        ]
        self.proof = evidence.issue(then, found, serving, now, self.rules)
        worth, before = self.proof.validity(), then.validity().standing if then else ""
        words = f"proof {worth.standing}" + (f": {worth.why}" if worth.why else "")
        if worth.standing != before:
            say(words)
        if told := evidence.news(then, self.proof, self._reported):
            self._reported = told
            self.tell(Event(f"proof.{told}", words, "proof.valid", replicas=serving.replicas))

    def serving_now(self) -> ServingNow:
        """The replicas that ran at the last health check and are in the gateway, and their GPUs.

        On a node that was taken out none serves, but for those of one on trial.
        """
        running = (self.look.running if self.look and not self.look.is_taken_out else None) or ()
        out = {index for index, one in self.standings.items() if one.out}
        serve = [one for one in self.replicas if one.index in running and one.index not in out]
        gpus = {uuid for one in serve for uuid in one.uuids}
        return ServingNow(tuple(one.index for one in serve), len(gpus))

    def save(self) -> str:
        """Put all of it on the disk, signed; a full disk stops nothing, and is said once.

        Returns why it could not be written, or "".
        """
        moment = self.clock()
        state = AgentState(
            node=self.node,
            version=b200kit.__version__,
            boot_id=moment.boot_id,
            boot_s=round(moment.seconds, 1),
            written_at=timestamp.now(),
            replicas={str(one.index): len(one.uuids) for one in self.replicas},
            health_holds_s=self.health_holds_s,
            health_checks=dict(self.health_checks),
            watch=self.look,
            watchdog={str(index): one for index, one in sorted(self.standings.items())},
            mends=self.mends,
            notes=self._noted(),
            proof=self.proof,
            events=tuple(self.events),
            last_event=self.number,
        )
        problem, self.due = "", False
        try:
            data = documents.to_bytes(state, None)
            signed = self.sign(data) if self.rules else None
            # Between the two a reader finds what its signature does not fit, and reads it again.
            durable_files.replace(self.path, data)
            if signed:
                durable_files.replace(self.path.with_name(f"{self.path.name}.sig"), signed)
        except OSError as error:
            problem = f"what is known could not be written down: {error}"
        if problem and problem != self._problem:
            say(problem)
        self._problem = problem
        return problem

    def _noted(self) -> NodeNotes:
        verdict = self._left["verdict"].get()
        taken_at = verdict.get("taken_at") if isinstance(verdict, Mapping) else ""
        _, recorded_at, record = self._smoke.get()
        return NodeNotes(
            quarantined=_lies(self.directory / "quarantine.json"),
            marked=_lies(self.directory / "watchdog-mark.json"),
            verdict_at=str(taken_at or ""),
            record_at=recorded_at,
            record=record,
        )

    def _smoked(self) -> tuple[Any, str, tuple[RecordedLatency, ...]]:
        """What the last smoke test proves for a configuration, when it was, and its figures."""
        document = self._left["smoke"].get()
        smoke = documents.understood(SmokeResult, document)
        of_smoke = partial(evidence.of_smoke, document)
        return of_smoke, smoke.taken_at if smoke else "", recorded(smoke)


def recorded(smoke: SmokeResult | None) -> tuple[RecordedLatency, ...]:
    """What the last smoke test measured, the highest percentile of a metric first.

    One of few requests carries no P99; then its P95 is compared. Empty where it did not pass: a
    node with an accepted baseline passes only if it is no slower than that (docs/measure.md).
    """
    if smoke is None or smoke.verdict != "pass":
        return ()
    found = [
        (metric, percent, ms)
        for metric in RECORDED
        for latency in [smoke.main.latency(metric)]
        for percent, ms in ((99, latency.p99_ms), (95, latency.p95_ms))
    ]
    return tuple(RecordedLatency(metric, percent, ms / 1000) for metric, percent, ms in found if ms)


def line(change: str, fault: NodeFault) -> str:
    """What a health check changed, for the journal."""
    which = ", ".join(map(str, fault.replicas)) or "none"
    todo = f" -> {advice.of(fault.finding)}" if change == "confirmed" else ""
    return f"{change}: {fault.finding.summary} (since {fault.since}; replicas: {which}){todo}"


def _lies(path: Path) -> bool:
    """Whether there is such a note; also where that cannot be said."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
