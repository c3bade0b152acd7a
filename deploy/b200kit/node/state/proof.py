"""What a node has proven of itself, and until when: a part of the agent's signed file. Pure.

`valid` while all required evidence passed and none of it has run out; `expiring` in the last part
of what runs out first; `expired` otherwise, and for what failed or was never measured. Each piece
says when it was taken and how long it holds. `validity` alone says what that is worth: the judge,
the node's share, its metrics, the controller and the fleet's page all ask it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Annotated, ClassVar

from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import NEEDED, Pattern, Range

PASS, FAIL, UNMEASURED = "pass", "fail", "unmeasured"
VALID, EXPIRING, EXPIRED = "valid", "expiring", "expired"
KINDS = ("health", "gate", "latency", "answers", "bandwidth")
"""Passive evidence first, which each health check renews; then what an active test leaves."""
MAY_BE_AHEAD_S = 5.0
"""Seconds by which evidence may be of later than now: two readings of a clock that is corrected."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WHEN = Pattern(r"[12][0-9]{3}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z")
Seconds = Annotated[float, Range(0, 4e9)]
"""How long something holds: a century at most, so that each end has a date."""
Share = Annotated[float, Range(0, 1)]


def wall_s(stamp: str) -> float:
    """Seconds since 1970 of a time as documents have it."""
    return (timestamp.parse(stamp) - _EPOCH).total_seconds()


def stamp(at_s: float) -> str:
    """The other way round, to the second."""
    return timestamp.text(_EPOCH + timedelta(seconds=int(at_s)))


@dataclass(frozen=True)
class Consequence:
    """*percent*: what an expired proof leaves of the share; *out_after_s*: then nothing is left."""

    percent: Annotated[int, Range(0, 100)] = 50
    out_after_s: Annotated[float, Range(0)] = 600.0


@dataclass(frozen=True)
class RenewalRules:
    """When a node may measure by itself: hours of the day, idle seconds; and when it is due."""

    window: str
    idle_s: Annotated[float, Range(0)]
    when_left: Share


@dataclass(frozen=True)
class ProofRules:
    """How long evidence of each kind holds (s), which kinds are required, and of which node.

    *expiring_share*: the last part of that time, in which a proof is called expiring. *expired*:
    what that does; *renew*: None where the node measures nothing by itself.
    """

    schema: ClassVar[str] = "b200kit/proof-rules/1"

    node: str
    ttl_s: Mapping[str, Seconds]
    required: Collection[str]
    expiring_share: Share = 0.2
    expired: Consequence = field(default_factory=Consequence)
    clock_step_s: Seconds = 5.0
    clock_settle_s: Seconds = 600.0
    renew: RenewalRules | None = None

    def __post_init__(self) -> None:
        if absent := {*KINDS} - {*self.ttl_s}:
            raise ValueError(f"ttl_s: {min(absent)} is missing")


@dataclass(frozen=True)
class ProofEvidence:
    """*result*: pass, fail or unmeasured. *digest*: SHA-256 of the JSON it is from.

    *of*: what it holds for, a boot or a configuration; *taken_at*: UTC, "" of what was not taken.
    """

    kind: Annotated[str, Pattern("|".join(KINDS))]
    result: Annotated[str, Pattern(f"{PASS}|{FAIL}|{UNMEASURED}")]
    why: str = ""
    digest: str = ""
    of: str = ""
    taken_at: str = ""
    ttl_s: Seconds = field(default=0.0, metadata=NEEDED)
    required: bool = field(default=True, metadata=NEEDED)

    def __post_init__(self) -> None:
        if self.taken_at:
            timestamp.parse(self.taken_at)

    def age_s(self, at_s: float) -> float | None:
        """Its age at a time; None of what was not taken yet by then."""
        age_s = at_s - wall_s(self.taken_at) if self.taken_at else -MAY_BE_AHEAD_S - 1
        return max(0.0, age_s) if age_s >= -MAY_BE_AHEAD_S else None

    def left_s(self, at_s: float) -> float:
        """Seconds for which it still proves something then; 0 of what is not passed."""
        age_s = self.age_s(at_s)
        return 0.0 if age_s is None or self.result != PASS else max(0.0, self.ttl_s - age_s)


@dataclass(frozen=True)
class Clock:
    """The time of day held against the clock of the boot, which nobody sets.

    `epoch_s`: the time of day at which this boot began, as it is believed. `off_s`: by how much it
    differs from that since `since_s` of this boot. A proof says when it ends by the time of day,
    and others believe it; where that was stepped nothing is proven until it is back or has held.
    """

    epoch_s: float
    off_s: float = field(default=0.0, metadata=NEEDED)
    since_s: float | None = field(default=None, metadata=NEEDED)

    @property
    def refused(self) -> str:
        """Why the time of day is not believed; empty where it is."""
        return "" if self.since_s is None else f"the time of day was stepped by {self.off_s:+.0f} s"

    def after(self, boot_s: float, at_s: float, rules: ProofRules) -> Clock:
        """The same a while later. A slow change is a clock that is being corrected."""
        epoch = at_s - boot_s
        off = epoch - self.epoch_s
        if abs(off) <= rules.clock_step_s:
            return Clock(round(epoch, 1))
        moved = self.since_s is None or abs(off - self.off_s) > rules.clock_step_s
        since = boot_s if moved or self.since_s is None else self.since_s
        if boot_s - since >= rules.clock_settle_s:
            return Clock(round(epoch, 1))
        return Clock(self.epoch_s, round(off, 1), round(since, 1))


@dataclass(frozen=True)
class ServingNow:
    """What serves: replicas by index, and their GPUs by number."""

    replicas: tuple[int, ...] = ()
    gpus: Annotated[int, Range(0)] = 0


@dataclass(frozen=True)
class GpuSeconds:
    """Seconds times GPUs since the first proof of this node."""

    served: Annotated[float, Range(0)] = 0.0
    proven: Annotated[float, Range(0)] = 0.0


@dataclass(frozen=True)
class ProofValidity:
    """What a proof is worth at a moment: *why* it is not valid, and seconds that are left of it."""

    standing: str
    why: str
    left_s: float

    @property
    def holds(self) -> bool:
        """Whether what serves is proven."""
        return self.standing != EXPIRED


@dataclass(frozen=True)
class NodeProof:
    """What was proven when the agent's file was written. *expired_s*: for how long nothing was."""

    schema: ClassVar[str] = "b200kit/proof/2"

    node: str
    boot_id: str
    boot_s: Annotated[float, Range(0)]
    sequence: Annotated[int, Range(0)]
    issued_at: Annotated[str, _WHEN]
    evidence: tuple[ProofEvidence, ...]
    clock: Clock
    serving: ServingNow
    expiring_share: Share
    gpu_seconds: GpuSeconds
    expired_s: Annotated[float, Range(0)]
    expired: Consequence | None = None

    def __post_init__(self) -> None:
        timestamp.parse(self.issued_at)

    @property
    def required(self) -> list[ProofEvidence]:
        """The evidence without which nothing is proven."""
        return [one for one in self.evidence if one.required]

    @property
    def issued_s(self) -> float:
        """When it was issued, seconds since 1970."""
        return wall_s(self.issued_at)

    def validity(self, elapsed_s: float = 0.0) -> ProofValidity:
        """What it is worth so many seconds after it was issued.

        Whoever has the boot's clock of the node counts them by that; others by the time of day.
        """
        if self.clock.refused:
            return ProofValidity(EXPIRED, self.clock.refused, 0.0)
        at_s = self.issued_s + max(0.0, elapsed_s)
        for one in self.required:
            if one.result != PASS:
                return ProofValidity(EXPIRED, f"{one.kind}: {one.result}: {one.why}", 0.0)
            if not one.left_s(at_s):
                age_s = one.age_s(at_s)
                old = "taken later than now" if age_s is None else f"{age_s:.0f} s old"
                why = f"{one.kind}: it is {old} and holds {one.ttl_s:.0f} s"
                return ProofValidity(EXPIRED, why, 0.0)
        if not self.required:
            return ProofValidity(EXPIRED, "nothing is required", 0.0)
        first = min(self.required, key=lambda one: one.left_s(at_s))
        left_s = first.left_s(at_s)
        if not any(self.is_late(one, at_s) for one in self.required):
            return ProofValidity(VALID, "", left_s)
        return ProofValidity(EXPIRING, f"{first.kind}: {left_s:.0f} s are left of it", left_s)

    def is_late(self, one: ProofEvidence, at_s: float) -> bool:
        """Whether a piece of it is in its last part."""
        return one.left_s(at_s) < self.expiring_share * one.ttl_s

    def within(self, boot_id: object, boot_s: float) -> ProofValidity:
        """What it is worth at a moment of a boot of its node: nothing in another boot."""
        if self.boot_id != boot_id:
            return ProofValidity(EXPIRED, "it is of an earlier boot", 0.0)
        return self.validity(boot_s - self.boot_s)

    def share(self, boot_id: str, boot_s: float, given: int) -> int:
        """Percentage of a whole node's load that this node may have at a moment, 0 to 100.

        *given*: what it was given when it came back into service. A proof that has run out weighs
        the node down at once and takes it out a while later; the fleet's endpoint keeps its floor.
        """
        if self.expired is None:
            return given
        if self.within(boot_id, boot_s).holds:
            return given
        unproven_s = self.unproven_s(boot_s - self.boot_s)
        if self.boot_id != boot_id or unproven_s >= self.expired.out_after_s:
            return 0
        # HAProxy takes 0 % for a server that is drained, so what is left is never rounded to that.
        percent = self.expired.percent
        return max(1, given * percent // 100) if percent else 0

    def unproven_s(self, elapsed_s: float) -> float:
        """For how long nothing has been proven, *elapsed_s* seconds after it was issued."""
        return self.expired_s + max(0.0, elapsed_s - self.validity().left_s)
