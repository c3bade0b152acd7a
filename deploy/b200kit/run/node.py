"""One run on the controller: its nodes, what was requested, observed and done, and how each ended.

pyinfra has no run-finished hook and counts operations a dropped host never reached as errors, so
the run keeps its own record and words. The record is a plain document (see b200kit/report) and
holds no secret.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from b200kit.engines.contract import is_one_process
from b200kit.inventory import group, shape
from b200kit.inventory.secrets import Secret
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.placement import layout as layouts
from b200kit.node.placement.cpu_cores import LayoutError
from b200kit.node.placement.layout import Replica
from b200kit.node.state.verdict import Finding
from b200kit.run import console
from b200kit.run.remote import Remote

if TYPE_CHECKING:
    from b200kit.reprovision.escalation import Attempt


class StageFailed(Exception):
    """A stage that cannot go on with this node, in one line."""


@dataclass
class Node:
    """A node of this run."""

    name: str
    # What is done with it; a rollback works with another one than the inventory has.
    spec: NodeSpec
    secrets: dict[str, Secret] = field(default_factory=dict, repr=False)
    # What nodes of equal data and secrets have in common, made once: preflight gives them one.
    alike: dict[str, Any] = field(default_factory=dict, repr=False)
    # Key of this run's digests of secret files: the digests mean nothing to anyone else.
    nonce: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    remote: Remote | None = field(default=None, repr=False)
    # What decisions are made from; None as soon as a change may have made it untrue.
    state: dict[str, Any] | None = field(default=None, repr=False)
    # When the controller got it, by its own clock.
    observed_at: str = ""
    # For the report, however old it is.
    last_observation: dict[str, Any] | None = field(default=None, repr=False)
    verdict: dict[str, Any] | None = field(default=None, repr=False)
    expectation: dict[str, Any] | None = field(default=None, repr=False)
    smoke: dict[str, Any] | None = field(default=None, repr=False)
    smoke_age_s: float | None = None
    # What deploy/tune.py measured and chose (b200kit/tuning/cells.py); None in every other run.
    tuning: dict[str, Any] | None = field(default=None, repr=False)
    # Whether it is changed in its wave and not side by side with the others.
    waits: bool = False
    # Whether its model is fetched meanwhile, and whether it is out of traffic by then.
    fetches_ahead: bool = False
    drains_first: bool = False
    # By how many GPUs deploy/rotate.py moves the assignment; 0 in every other run.
    rotated: int = 0
    # Why the fabric did not come up, reported once; None where it did or was not tried.
    fabric_error: str | None = None
    # The layout the serving stages worked with.
    replicas: list[Replica] = field(default_factory=list)
    # Of which observation and spec, and where they put the replicas.
    _placed: tuple[dict[str, Any] | None, NodeSpec, list[Replica]] | None = field(
        default=None, repr=False
    )
    # Why it could not be reached, where that is a fault to repair and not the end of the run.
    unreachable: str | None = None
    # What keeps it from serving, the cause first, and attempts that only it remembers.
    findings: tuple[Finding, ...] = ()
    attempts_on_node: tuple[Attempt, ...] = ()
    # What of its record is large, once nothing is decided by it any more (`pack`).
    packed: bytes | None = field(default=None, repr=False)
    # How it was repaired, for the report.
    reprovision: dict[str, Any] | None = None
    # {"units"} that a failed proof stopped, or why they could not be; None where none was stopped.
    withdrawn: dict[str, Any] | None = None
    outcome: str | None = None
    failed_stage: str | None = None
    error: str | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    # What a dry run said so far that a run would change, and the units that would end for it.
    foreseen: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inventory_spec = self.spec

    @property
    def changes(self) -> int:
        """How many changes this run made on the node."""
        return sum(len(stage["changes"]) for stage in self.stages)

    @property
    def boot_id(self) -> str | None:
        """The boot that was observed last."""
        host = (self.last_observation or {}).get("host")
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

    def take_observation(self, state: dict[str, Any]) -> None:
        """Take in a new observation."""
        self.state = self.last_observation = state
        self.observed_at = timestamp.now()

    def layout(self) -> list[Replica]:
        """Replicas planned from the last observation."""
        # Asked for by every stage: the same observation and spec have the same answer.
        known = self._placed
        if known is None or known[0] is not self.state or known[1] is not self.spec:
            known = self._placed = (self.state, self.spec, self._place())
        self.replicas = layouts.rotated(known[2], self.rotated)
        return self.replicas

    def _place(self) -> list[Replica]:
        spec = self.spec
        try:
            return layouts.place(
                self.state or {},
                spec.replicas,
                shape.shape_of(spec),
                spec.ports(),
                spec.replica_cpus,
                spec.kept_cpus(),
            )
        except LayoutError as error:
            raise StageFailed(str(error)) from None

    def say(self, stage: str, text: str, seconds: float | None = None) -> None:
        """One progress line on stderr; stdout is for the result."""
        took = f"  {duration(seconds)}" if seconds is not None and seconds >= 0.5 else ""
        console.err(f"{self.name}  {stage:<11} {text}{took}")

    def fail(self, stage: str, error: str, outcome: str = "failed") -> None:
        """Record why the node leaves the run; the first reason stands."""
        if self.outcome is None:
            self.outcome, self.failed_stage, self.error = outcome, stage, error
            word = {"failed": "FAILED", "red": "RED"}.get(outcome, outcome.upper())
            self.say(stage, f"{word}: {error}")

    def interrupt(self) -> None:
        """Record that a person ended the run, and what of it may go on on the node."""
        if self.outcome is not None:
            return
        if not self.stages:
            self.error = "interrupted before its turn"
            return
        last = self.stages[-1]
        if last["status"] != "failed":
            self.fail(last["name"], "interrupted after this stage; run again to go on from here")
        elif last["changes"]:
            at = f"interrupted during: {last['changes'][-1]}"
            self.fail(last["name"], f"{at}; what it began there may go on; run again to finish it")
        else:
            self.fail(last["name"], "interrupted before this stage changed anything")

    def reset_outcome(self) -> None:
        """Forget how an attempt to bring the node up ended, before the next one."""
        self.outcome = self.failed_stage = self.error = self.fabric_error = None

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a stage and keep its line in the record, whatever happens inside."""
        entry: dict[str, Any] = {"name": name, "status": "failed", "changes": [], "detail": ""}
        self.stages.append(entry)
        started = time.monotonic()
        try:
            yield entry
            entry["status"] = "changed" if entry["changes"] else "ok"
        finally:
            entry["seconds"] = round(time.monotonic() - started, 3)

    def pack(self) -> None:
        """Keep what was observed and judged for the record alone, compressed to a twentieth."""
        self.packed = zlib.compress(json.dumps(self._large()).encode(), 1)
        self.state = self.last_observation = self.verdict = self.expectation = self._placed = None

    def _large(self) -> dict[str, Any]:
        if self.packed:
            unpacked: dict[str, Any] = json.loads(zlib.decompress(self.packed))
            return unpacked
        return {
            "state": self.last_observation,
            "verdict": self.verdict,
            "expectation": self.expectation,
        }

    def _laid_out(self, replica: Replica) -> dict[str, Any]:
        alone = is_one_process(self.spec.engine.kind, replica)
        return {**unstructure(replica), **({"processes": 1} if alone else {})}

    def to_json(self) -> dict[str, Any]:
        """The HostRecord of the run document."""
        return {
            "outcome": self.outcome or "not reached",
            "stage": self.failed_stage,
            "error": self.error,
            "commands": self.remote.commands if self.remote else 0,
            "changes": self.changes,
            "stages": self.stages,
            **self._large(),
            "smoke": self.smoke,
            "smoke_age_s": self.smoke_age_s,
            **({"tuning": self.tuning} if self.tuning else {}),
            "layout": [self._laid_out(replica) for replica in self.replicas],
            **({"withdrawn": self.withdrawn} if self.withdrawn else {}),
            **({"reprovision": self.reprovision} if self.reprovision else {}),
        }


@dataclass
class Run:
    """This process's run of one entry file."""

    entry: str
    id: str = field(default_factory=lambda: f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}")
    started_at: str = field(default_factory=timestamp.now)
    nodes: dict[str, Node] = field(default_factory=dict)
    # All nodes of the inventory, those outside this run's limit included.
    inventory: tuple[str, ...] = ()
    # The folder of the inventory.
    site: str = ""
    began: bool = False
    # A person pressed Ctrl-C.
    interrupted: bool = False
    cpu_at_start: float = field(default_factory=time.process_time)
    clock_at_start: float = field(default_factory=time.monotonic)

    @property
    def changes_nodes(self) -> bool:
        """Whether this entry changes nodes, and so must hold their locks."""
        return self.entry not in ("check.py", "ready.py")

    @property
    def reprovisions(self) -> bool:
        """Whether this entry mends failed nodes, those that do not answer included."""
        return self.entry == "reprovision.py"

    def to_json(self) -> dict[str, Any]:
        """The run document, schema b200kit/run/1."""
        hosts = {name: node.to_json() for name, node in sorted(self.nodes.items())}
        return {**self.head(), "hosts": hosts}

    def head(self) -> dict[str, Any]:
        """The run document without its hosts."""
        return {
            "schema": "b200kit/run/1",
            "run": self.id,
            "entry": self.entry,
            "argv": [os.path.basename(sys.argv[0]), *sys.argv[1:]],
            "started_at": self.started_at,
            "ended_at": timestamp.now(),
            "controller": {
                "wall_s": round(time.monotonic() - self.clock_at_start, 3),
                "cpu_s": round(time.process_time() - self.cpu_at_start, 3),
                "commands": sum(n.remote.commands for n in self.nodes.values() if n.remote),
            },
        }


def duration(seconds: float) -> str:
    """A span as a person says it: "0.6 s", "21 s", "3 m 12 s"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} m {rest:02d} s" if minutes else f"{rest} s"
