"""The document of a proof, "b200kit/proof/1", and its standing. Pure.

`valid` while all required evidence passed and none of it has run out; `expiring` in the last part
of what runs out first; `expired` otherwise, and for what failed or was never measured. It is signed
as it lies on the node (node/proof/signature.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from b200kit.node.lib import timestamp
from b200kit.node.proof import clock as clocks
from b200kit.node.proof.clock import Clock, Now, Steps
from b200kit.node.proof.evidence import KINDS, PASS, Evidence, renewed

SCHEMA = "b200kit/proof/1"
VALID, EXPIRING, EXPIRED = "valid", "expiring", "expired"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class ProofRules:
    """How long evidence of each kind holds (s), which kinds are required, and of which node.

    *expiring_share*: the last part of that time, in which a proof is called expiring.
    """

    node: str
    ttl_s: Mapping[str, float]
    required: Collection[str]
    expiring_share: float = 0.2
    steps: Steps = field(default_factory=Steps)


@dataclass(frozen=True)
class ServingNow:
    """What serves: replicas by index, and their GPUs by number."""

    replicas: tuple[int, ...] = ()
    gpus: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"replicas": list(self.replicas), "gpus": self.gpus}


@dataclass(frozen=True)
class Proof:
    """One proof. *served*, *proven*: seconds times GPUs since the first proof of this node.

    *expired_s*: for how long it had been expired when it was issued.
    """

    node: str
    now: Now
    sequence: int
    evidence: tuple[Evidence, ...]
    clock: Clock
    serving: ServingNow = ServingNow()
    expiring_share: float = 0.2
    served: float = 0.0
    proven: float = 0.0
    expired_s: float = 0.0

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
        aged = tuple(one.older(boot_s - self.now.boot_s) for one in self.evidence)
        return replace(self, evidence=aged)

    def to_json(self) -> dict[str, Any]:
        """The document as it is signed."""
        issued, evidence = self.now.wall_s, []
        for one in self.evidence:
            evidence.append({**one.to_json(), "valid_until": _text(issued + one.left_s)})
        return {
            "schema": SCHEMA,
            "node": self.node,
            "boot_id": self.now.boot_id,
            "boot_s": round(self.now.boot_s, 1),
            "sequence": self.sequence,
            "issued_at": _text(issued),
            "valid_until": _text(issued + self.left_s),
            "standing": self.standing,
            "why": self.why,
            "expired_s": round(self.expired_s, 1),
            "expiring_share": self.expiring_share,
            "evidence": evidence,
            "serving": self.serving.to_json(),
            "gpu_seconds": {"served": round(self.served), "proven": round(self.proven)},
            "clock": self.clock.to_json(),
        }


def _text(wall_s: float) -> str:
    return timestamp.text(_EPOCH + timedelta(seconds=int(wall_s)))


def parsed(document: object) -> Proof:
    """A proof read back. Raises ValueError: not understood."""
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise ValueError(f"it is no document of schema {SCHEMA}")
    try:
        return _parsed(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"it is malformed: {type(error).__name__}: {error}") from None


def _parsed(document: Mapping[str, Any]) -> Proof:
    wall_s = (timestamp.parse(document["issued_at"]) - _EPOCH).total_seconds()
    serving, counted = document["serving"], document["gpu_seconds"]
    return Proof(
        node=str(document["node"]),
        now=Now(str(document["boot_id"]), float(document["boot_s"]), wall_s),
        sequence=int(document["sequence"]),
        evidence=tuple(Evidence.from_json(entry) for entry in document["evidence"]),
        clock=Clock.from_json(document["clock"]),
        serving=ServingNow(tuple(map(int, serving["replicas"])), int(serving["gpus"])),
        expiring_share=float(document["expiring_share"]),
        served=float(counted["served"]),
        proven=float(counted["proven"]),
        expired_s=float(document["expired_s"]),
    )


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
    served, proven = _counted(before, elapsed, now)
    evidence = [renewed(known.get(one.kind), elapsed, one) for one in found]
    proof = Proof(
        node=rules.node,
        now=now,
        # Of a node whose proofs are lost it goes on above every one of them: each took a second.
        sequence=max(before.sequence if before else 0, 0 if before else int(now.wall_s)) + 1,
        evidence=tuple(sorted(evidence, key=lambda one: KINDS.index(one.kind))),
        clock=_clock(before, now, rules.steps),
        serving=serving,
        expiring_share=rules.expiring_share,
        served=served,
        proven=proven,
    )
    expired_s = before.unproven_s(elapsed) if before else 0.0
    return proof if proof.left_s else replace(proof, expired_s=expired_s)


def _elapsed(before: Proof | None, now: Now) -> float:
    """Seconds since the proof before: within a boot by its clock, else by the time of day."""
    if before is None:
        return 0.0
    if before.now.boot_id == now.boot_id:
        return max(0.0, now.boot_s - before.now.boot_s)
    return max(0.0, now.wall_s - before.now.wall_s)


def _counted(before: Proof | None, elapsed: float, now: Now) -> tuple[float, float]:
    """GPU-seconds served, and served under a valid proof; nobody knows what served over a boot."""
    if before is None:
        return 0.0, 0.0
    if before.now.boot_id != now.boot_id:
        return before.served, before.proven
    gpus = before.serving.gpus
    return before.served + gpus * elapsed, before.proven + gpus * min(elapsed, before.left_s)


def _clock(before: Proof | None, now: Now, steps: Steps) -> Clock:
    if before is None:
        return clocks.held(None, now, steps)
    if before.now.boot_id != now.boot_id:
        return clocks.after_boot(before.now.wall_s, now, steps)
    return clocks.held(before.clock, now, steps)
