"""The document of a proof, "b200kit/proof/1", and its standing. Pure.

`valid` while all required evidence passed and none of it has run out; `expiring` in the last part
of what runs out first; `expired` otherwise, and for what failed or was never measured. It is signed
as it lies on the node (node/proof/signature.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Annotated, ClassVar

from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import Pattern, Range
from b200kit.node.proof import clock as clocks
from b200kit.node.proof.clock import Clock, Now, Steps
from b200kit.node.proof.evidence import KINDS, PASS, Evidence, Seconds, renewed

VALID, EXPIRING, EXPIRED = "valid", "expiring", "expired"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Share = Annotated[float, Range(0, 1)]


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


@dataclass(frozen=True)
class ServingNow:
    """What serves: replicas by index, and their GPUs by number."""

    replicas: tuple[int, ...] = ()
    gpus: Annotated[int, Range(0)] = 0


@dataclass(frozen=True)
class GpuSeconds:
    """Seconds times GPUs since the first proof of this node."""

    served: Annotated[float, Range(0)]
    proven: Annotated[float, Range(0)]


@dataclass(frozen=True)
class Proof:
    """One proof. *expired_s*: for how long it had been expired when it was issued.

    Derived keys, and when each evidence ends, are computed again wherever a proof is read.
    """

    schema: ClassVar[str] = "b200kit/proof/1"
    derived: ClassVar[tuple[str, ...]] = ("valid_until", "standing", "why")

    node: str
    boot_id: str
    boot_s: Annotated[float, Range(0)]
    sequence: Annotated[int, Range(0)]
    issued_at: Annotated[str, Pattern(r"[12][0-9]{3}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z")]
    evidence: tuple[Evidence, ...]
    clock: Clock
    serving: ServingNow
    expiring_share: Share
    gpu_seconds: GpuSeconds
    expired_s: Annotated[float, Range(0)]

    def __post_init__(self) -> None:
        ends = [_text(self.now.wall_s + one.left_s) for one in self.evidence]
        for one, end in zip(self.evidence, ends, strict=True):
            if one.valid_until not in ("", end):
                raise ValueError(f"evidence: {one.kind} ends {end}, not {one.valid_until}")
        made = (replace(one, valid_until=end) for one, end in zip(self.evidence, ends, strict=True))
        object.__setattr__(self, "evidence", tuple(made))

    @property
    def now(self) -> Now:
        """When it was issued."""
        wall_s = (timestamp.parse(self.issued_at) - _EPOCH).total_seconds()
        return Now(self.boot_id, self.boot_s, wall_s)

    @property
    def valid_until(self) -> str:
        """When the first of the evidence runs out, by the time of day."""
        return _text(self.now.wall_s + self.left_s)

    @property
    def required(self) -> list[Evidence]:
        """The evidence without which nothing is proven."""
        return [one for one in self.evidence if one.required]

    @property
    def left_s(self) -> float:
        """Seconds until the first of it runs out; 0 where it has."""
        refused = bool(self.clock.refused) or not self.required
        return 0.0 if refused else min(one.left_s for one in self.required)

    @property
    def standing(self) -> str:
        """valid, expiring or expired."""
        if not self.left_s:
            return EXPIRED
        late = any(one.left_s < self.expiring_share * one.ttl_s for one in self.required)
        return EXPIRING if late else VALID

    @property
    def why(self) -> str:
        """Why it is not valid, in the order of the evidence; empty where it is."""
        if self.clock.refused:
            return self.clock.refused
        for one in self.required:
            if one.result != PASS:
                return f"{one.kind}: {one.result}: {one.why}"
            if not one.left_s:
                return f"{one.kind}: it is {one.age_s:.0f} s old and holds {one.ttl_s:.0f} s"
        late = min(self.required, key=lambda one: one.left_s, default=None)
        ends = f"{late.kind}: {late.left_s:.0f} s are left of it" if late else "nothing is required"
        return "" if self.standing == VALID else ends

    def unproven_s(self, elapsed_s: float) -> float:
        """For how long nothing has been proven, *elapsed_s* seconds after it was issued."""
        return self.expired_s + max(0.0, elapsed_s - self.left_s)

    def later(self, boot_s: float) -> Proof:
        """The same at a later moment of its boot, in seconds since that began."""
        aged = tuple(one.older(boot_s - self.boot_s) for one in self.evidence)
        return replace(self, evidence=aged)


def _text(wall_s: float) -> str:
    return timestamp.text(_EPOCH + timedelta(seconds=int(wall_s)))


def issued(
    before: Proof | None,
    found: Sequence[Evidence],
    serving: ServingNow,
    now: Now,
    rules: ProofRules,
) -> Proof:
    """The proof after a look: what was found now, and what still holds of the one before."""
    known = {one.kind: one for one in before.evidence} if before else {}
    elapsed = _elapsed(before, now)
    clock = _clock(before, now, Steps(rules.clock_step_s, rules.clock_settle_s))
    kept = [renewed(known.get(one.kind), elapsed, one) for one in found]
    aged = kept if clock.refused else [one.by_the_day(now.wall_s) for one in kept]
    evidence = [replace(one, valid_until="") for one in aged]
    proof = Proof(
        node=rules.node,
        boot_id=now.boot_id,
        boot_s=round(now.boot_s, 1),
        # Of a node whose proofs are lost it goes on above every one of them: each took a second.
        sequence=(before.sequence if before else int(now.wall_s)) + 1,
        issued_at=_text(now.wall_s),
        evidence=tuple(sorted(evidence, key=lambda one: KINDS.index(one.kind))),
        clock=clock,
        serving=serving,
        expiring_share=rules.expiring_share,
        gpu_seconds=_counted(before, elapsed, now),
        expired_s=0.0,
    )
    expired_s = before.unproven_s(elapsed) if before else 0.0
    return proof if proof.left_s else replace(proof, expired_s=round(expired_s, 1))


def _elapsed(before: Proof | None, now: Now) -> float:
    """Seconds since the proof before: within a boot by its clock, else by the time of day."""
    if before is None:
        return 0.0
    if before.boot_id == now.boot_id:
        return max(0.0, now.boot_s - before.boot_s)
    return max(0.0, now.wall_s - before.now.wall_s)


def _counted(before: Proof | None, elapsed: float, now: Now) -> GpuSeconds:
    """What served, and under a valid proof; nobody knows what served over a boot."""
    if before is None:
        return GpuSeconds(0, 0)
    known, gpus = before.gpu_seconds, before.serving.gpus
    if before.boot_id != now.boot_id:
        return known
    proven = known.proven + gpus * min(elapsed, before.left_s)
    return GpuSeconds(round(known.served + gpus * elapsed), round(proven))


def _clock(before: Proof | None, now: Now, steps: Steps) -> Clock:
    if before is None:
        return clocks.held(None, now, steps)
    if before.boot_id != now.boot_id:
        return clocks.after_boot(before.now.wall_s, now, steps)
    return clocks.held(before.clock, now, steps)
