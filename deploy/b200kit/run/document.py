"""The document of a run, b200kit/run/1, as whoever writes it and whoever shows it has it. Pure.

`RunHead` is all but its hosts; of a host, what is typed so far: its stages and its repair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from b200kit.inventory.keys.levels import Level


@dataclass(frozen=True)
class ControllerUse:
    """What a run took of the controller: seconds, of its CPUs, and commands on nodes."""

    wall_s: float
    cpu_s: float
    commands: int


@dataclass(frozen=True)
class RunHead:
    """What was run, on what and when; *simulated*: its nodes are those of a lab, in any part."""

    schema: ClassVar[str] = "b200kit/run/1"

    run: str
    entry: str
    argv: tuple[str, ...] = ()
    started_at: str = ""
    ended_at: str = ""
    controller: ControllerUse | None = None
    simulated: bool = False


@dataclass(frozen=True)
class FinishedHost:
    """A node's part of the report: the HostRecord in short, and its file, compressed."""

    in_short: object
    content: bytes


@dataclass(frozen=True)
class ServedEndpoint:
    """Where a live node takes requests, and for which model; *local*: on the node itself alone."""

    url: str
    model: str
    local: bool
    api_key: bool


@dataclass
class StageRecord:
    """A stage of a host; it is filled while it runs, and failed until it ends."""

    name: str
    status: Literal["ok", "changed", "failed", "skipped"] = "failed"
    changes: list[str] = field(default_factory=list)
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class AcceptanceResult:
    """An acceptance run that was kept: when it began and was kept, how it ended, where it lies.

    `folder`: in the site's acceptance/. `sums`: SHA-256 of its SHA256SUMS; `signed_by`: the
    fingerprint of the key under it. `serial`: of the machine. `segments`: how many ended how.
    """

    id: str
    level: str
    began_at: str
    at: str
    fit: str
    folder: str
    sums: str
    signed_by: str
    serial: str
    segments: Mapping[str, int]


@dataclass(frozen=True)
class StepTaken:
    """A step of a repair or a change: from which state to which, and what came of it."""

    at: str
    began: str
    action: str
    before: str
    after: str
    outcome: str


@dataclass(frozen=True)
class TakenOut:
    """Who took the node out of service, when and why."""

    who: str
    when: str
    why: str


@dataclass(frozen=True)
class ReportedChange:
    """The change that the node was taken out for."""

    title: str
    wave: str
    outcome: str
    failed: str | None = None


@dataclass(frozen=True)
class TransactionReport:
    """The `reprovision` of a host: how it was repaired or changed."""

    state: str
    level: Level | None = None
    why: str | None = None
    history: tuple[StepTaken, ...] = ()
    parts: tuple[str, ...] = ()
    evidence: str | None = None
    quarantine: TakenOut | None = None
    change: ReportedChange | None = None
