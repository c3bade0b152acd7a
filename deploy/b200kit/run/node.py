"""A node of a run, and the record of it: what was observed and done, and how it ended.

pyinfra has no run-finished hook and counts operations a dropped host never reached as errors, so
the run keeps its own record and words. The record is a plain document (see b200kit/report) and
holds no secret.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from b200kit.engines.contract import is_one_process
from b200kit.inventory import group, shape
from b200kit.inventory.secrets import Secret
from b200kit.inventory.spec import NodeSpec
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.placement import layout as layouts
from b200kit.node.placement.layout import Replica
from b200kit.node.placement.machine import LayoutError
from b200kit.run import connection_fault, console
from b200kit.run.document import (
    AcceptanceResult,
    FinishedHost,
    ServedEndpoint,
    StageRecord,
    TransactionReport,
)
from b200kit.run.remote import Remote

if TYPE_CHECKING:
    from b200kit.records.tuning import TuningResult


class StageFailed(Exception):
    """A stage that cannot go on with this node, in one line."""


@dataclass
class HostRecord:
    """What this run observed and made of a node: its part of the run document, by its keys."""

    outcome: str | None = None
    # That it failed at.
    stage: str | None = None
    error: str | None = None
    # Why it could not be looked at, by its code (run/connection_fault.py).
    cause: str | None = None
    stages: list[StageRecord] = field(default_factory=list)
    # The last observation, however old it is, and what it was judged by.
    state: dict[str, Any] | None = None
    verdict: dict[str, Any] | None = None
    expectation: dict[str, Any] | None = None
    smoke: SmokeResult | None = None
    # Of a result that an earlier run measured.
    smoke_age_s: float | None = None
    # What deploy/tune.py measured and chose (b200kit/records/tuning.py); None in every other run.
    tuning: TuningResult | None = None
    # What deploy/burnin.py brought to the site.
    acceptance: AcceptanceResult | None = None
    # Where a live node takes requests.
    endpoint: ServedEndpoint | None = None
    # {"units"} that a failed proof stopped, or why they could not be; None where none was stopped.
    withdrawn: dict[str, Any] | None = None
    # How it was repaired.
    reprovision: TransactionReport | None = None

    @property
    def changes(self) -> int:
        """How many changes this run made on the node."""
        return sum(len(stage.changes) for stage in self.stages)

    def reset(self) -> None:
        """Forget how an attempt to bring the node up ended, before the next one."""
        self.outcome = self.stage = self.error = self.cause = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        own = {**vars(self), "outcome": self.outcome or "not reached", "changes": self.changes}
        rare = ("cause", "tuning", "acceptance", "endpoint", "withdrawn", "reprovision")
        documents = ("endpoint", "stages", "smoke", "tuning", "acceptance", "reprovision")
        own |= {key: unstructure(own[key]) for key in documents}
        return {key: value for key, value in own.items() if value or key not in rare}


@dataclass
class Node:
    """A node of this run: what is known of it and asked of it, and its connection."""

    name: str
    # What is done with it; a rollback works with another one than the inventory has.
    spec: NodeSpec
    secrets: dict[str, Secret] = field(default_factory=dict, repr=False)
    # What nodes of equal data and secrets have in common, made once: preflight gives them one.
    alike: dict[str, Any] = field(default_factory=dict, repr=False)
    # Key of this run's digests of secret files: the digests mean nothing to anyone else.
    nonce: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    remote: Remote | None = field(default=None, repr=False)
    # Why it could not be reached, where that is a fault to repair and not the end of the run.
    unreachable: str | None = None
    # What decisions are made from; None as soon as a change may have made it untrue.
    state: dict[str, Any] | None = field(default=None, repr=False)
    # When the controller got it, by its own clock.
    observed_at: str = ""
    # By how many GPUs deploy/find_gpu.py moves the assignment; 0 in every other run.
    rotated: int = 0
    # Why the fabric did not come up, reported once; None where it did or was not tried.
    fabric_error: str | None = None
    # What a dry run said so far that a run would change, and the units that would end for it.
    foreseen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # The state of which all steps were planned without a change, and by which spec.
    _settled: tuple[dict[str, Any] | None, NodeSpec | None] = field(
        default=(None, None), repr=False
    )
    record: HostRecord = field(default_factory=HostRecord, repr=False)
    # Its part of the report, once it is made.
    finished: FinishedHost | None = field(default=None, repr=False)
    # Where the replicas are, and by which observation and spec.
    _placed: tuple[list[Replica], dict[str, Any] | None, NodeSpec | None] = field(
        default=([], None, None), repr=False
    )

    def __post_init__(self) -> None:
        self.inventory_spec = self.spec

    @property
    def boot_id(self) -> str | None:
        """The boot that was observed last."""
        host = (self.record.state or {}).get("host")
        boot = host.get("boot_id") if isinstance(host, dict) else None
        return boot if isinstance(boot, str) else None

    @property
    def headless(self) -> bool:
        """Whether it works for another node of its group and has no endpoint of its own."""
        return group.headless(self.spec, self.name)

    def connected(self) -> Remote:
        """The connection; a node without one is a mistake of ours, not of the inventory."""
        if self.remote is None:
            raise StageFailed("not connected")
        return self.remote

    @property
    def is_settled(self) -> bool:
        """Whether the steps were planned of this very state, and change nothing."""
        state, spec = self._settled
        return state is not None and state is self.state and spec is self.spec

    def settle(self) -> None:
        """Every step was planned of this state, and none changes anything."""
        self._settled = (self.state, self.spec)

    def take_observation(self, state: dict[str, Any]) -> None:
        """Take in a new observation."""
        self.state = self.record.state = state
        self.observed_at = timestamp.now()

    @property
    def replicas(self) -> list[Replica]:
        """The layout the serving stages worked with."""
        return layouts.rotated(self._placed[0], self.rotated)

    def layout(self) -> list[Replica]:
        """Replicas planned from the last observation."""
        _, state, spec = self._placed
        # Asked for by every stage: the same observation and spec have the same answer.
        if state is not self.state or spec is not self.spec:
            self._placed = (self._place(), self.state, self.spec)
        return self.replicas

    def _place(self) -> list[Replica]:
        spec, state = self.spec, self.state or {}
        form, kept = shape.shape_of(spec), spec.kept_cpus()
        try:
            return layouts.place(state, spec.replicas, form, spec.ports(), spec.replica_cpus, kept)
        except LayoutError as error:
            raise StageFailed(str(error)) from None

    def say(self, stage: str, text: str, seconds: float | None = None) -> None:
        """One progress line on stderr; stdout is for the result."""
        took = duration(seconds) if seconds is not None and seconds >= 0.5 else ""
        ended = console.SAID if seconds is None else console.DONE
        kind = console.STILL if text.startswith("... ") else ended
        console.progress(self.name, stage, text, took, kind)

    def fail(self, stage: str, error: str, outcome: str = "failed") -> None:
        """Record why the node leaves the run; the first reason stands."""
        record = self.record
        if record.outcome is None:
            record.outcome, record.stage, record.error = outcome, stage, error
            if stage in ("connect", "observe"):
                record.cause = connection_fault.code_of(error)
            self.say(stage, f"{outcome.upper()}: {error}")

    def interrupt(self) -> None:
        """Record that a person ended the run, and what of it may go on on the node."""
        if self.record.outcome is not None:
            return
        if not self.record.stages:
            self.record.error = "interrupted before its turn"
            return
        last = self.record.stages[-1]
        if last.status != "failed":
            why = "interrupted after this stage; run again to go on from here"
        elif last.changes:
            at = f"interrupted during: {last.changes[-1]}"
            why = f"{at}; what it began there may go on; run again to finish it"
        else:
            why = "interrupted before this stage changed anything"
        self.fail(last.name, why)

    @contextmanager
    def stage(self, name: str) -> Iterator[StageRecord]:
        """Time a stage and keep its line in the record, whatever happens inside."""
        entry = StageRecord(name)
        self.record.stages.append(entry)
        console.begins(self.name, name)
        started = time.monotonic()
        try:
            yield entry
            entry.status = "changed" if entry.changes else "ok"
        finally:
            entry.seconds = round(time.monotonic() - started, 3)

    def close(self, finished: FinishedHost) -> None:
        """Keep no more than its part of the report: nothing is decided by the rest any more."""
        self.finished = finished
        self.state, self._placed = None, ([], None, None)
        record = self.record
        record.state = record.verdict = record.expectation = None

    def to_json(self) -> dict[str, Any]:
        """The HostRecord of the run document."""
        return {
            **self.record.to_json(),
            "commands": self.remote.commands if self.remote else 0,
            "layout": [
                {**unstructure(each), **({"processes": 1} if self._in_one(each) else {})}
                for each in self.replicas
            ],
        }

    @property
    def one_process(self) -> bool:
        """Whether one process on CPUs stands for all GPUs of a replica, as it may in a lab."""
        return any(map(self._in_one, self.replicas))

    def _in_one(self, each: Replica) -> bool:
        return is_one_process(self.spec.engine.kind, each)


def duration(seconds: float) -> str:
    """A span as a person says it: "0.6 s", "21 s", "3 m 12 s"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} m {rest:02d} s" if minutes else f"{rest} s"


def span(seconds: float) -> str:
    """A long one to the minute, which nobody knows better: "40 s", "12 m", "3 h 05 m"."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} m" if hours else f"{minutes} m"
