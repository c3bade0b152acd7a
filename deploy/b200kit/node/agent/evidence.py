"""What the documents on a node prove, and the proof that is issued of it after a health check.
Pure.

What could not be measured now takes the place of no measurement: that one runs out by itself. What
was measured for another boot or configuration proves nothing here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from b200kit.node.client.golden.compare import HARMLESS
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import documents, readings, timestamp
from b200kit.node.state.proof import (
    EXPIRED,
    FAIL,
    KINDS,
    PASS,
    UNMEASURED,
    Clock,
    GpuSeconds,
    NodeProof,
    ProofEvidence,
    ProofRules,
    ServingNow,
    stamp,
    wall_s,
)
from b200kit.node.state.verdict import GateVerdict
from b200kit.node.state.view import Unmeasured
from b200kit.node.state.watch import HealthCheck


class Now(NamedTuple):
    """This moment: the boot, seconds since it began, and seconds since 1970 by the time of day."""

    boot_id: str
    boot_s: float
    wall_s: float


def digest(document: object) -> str:
    """SHA-256 of the canonical JSON of a document; empty where there is none."""
    if not isinstance(document, Mapping):
        return ""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def found(kind: str, result: str, why: str, document: object) -> ProofEvidence:
    """One piece of it from a document as it was read."""
    if document is None:
        return ProofEvidence(kind, UNMEASURED, "there is none")
    if not isinstance(document, Mapping):
        return ProofEvidence(kind, UNMEASURED, "it is no document")
    if unread := readings.reason(document):
        return ProofEvidence(kind, UNMEASURED, unread)
    taken_at = document.get("taken_at")
    try:
        timestamp.parse(taken_at)
    except ValueError:
        return ProofEvidence(kind, UNMEASURED, "it does not say when it was taken")
    return ProofEvidence(kind, result, why, digest(document), taken_at=str(taken_at))


def of_health(look: HealthCheck | None, serving: Collection[int], now: Now) -> ProofEvidence:
    """A confirmed fault of what serves fails; a health check that has not seen everything measured
    nothing.

    A fault whose replicas are out of the gateway is no fault of the others, and one that is only
    reported of none; until the replicas are taken out, the health check is unmeasured.
    """
    if look is None:
        return ProofEvidence("health", UNMEASURED, "there is none", of=now.boot_id)
    result, why = _of_health(look, serving)
    taken_at = stamp(now.wall_s - now.boot_s + look.boot_s)
    return ProofEvidence("health", result, why, of=now.boot_id, taken_at=taken_at)


def _of_health(look: HealthCheck, serving: Collection[int]) -> tuple[str, str]:
    if failed := [f.finding.summary for f in look.confirmed if f.key not in look.set_aside]:
        return FAIL, failed[0]
    if waiting := [f.finding.summary for f in look.confirmed if {*f.replicas} & {*serving}]:
        return UNMEASURED, f"replicas that it touches are still in the gateway: {waiting[0]}"
    if look.is_taken_out:
        return UNMEASURED, "the node is out of service"
    if look.fit_serving is None:
        return UNMEASURED, "no replica ran"
    if not serving:
        return UNMEASURED, "no replica is in the gateway"
    fit = look.fit_serving
    return (PASS, "") if fit == "fit" else (UNMEASURED, f"it found what serves {fit}")


def of_gate(document: object, now: Now) -> ProofEvidence:
    """The gate's verdict of this boot, by whose clock it is as old as it is."""
    try:
        verdict = documents.structure(GateVerdict, document)
    except documents.Malformed as error:
        return found("gate", UNMEASURED, str(error), document)
    if verdict.boot_id != now.boot_id:
        return found("gate", UNMEASURED, "the gate has not judged this boot", document)
    results = {"fit": (PASS, ""), "unfit": (FAIL, "the node is unfit")}
    result, why = results.get(verdict.fit, (UNMEASURED, f"the node is {verdict.fit}"))
    taken_at = stamp(now.wall_s - now.boot_s + verdict.boot_s)
    known = found("gate", result, why, document)
    return replace(known, of=now.boot_id, taken_at=taken_at if known.taken_at else "")


def of_smoke(document: object, configuration: str) -> list[ProofEvidence]:
    """The last smoke test, and its golden answers beside their reference.

    An invalid one measured nothing.
    """
    try:
        smoke = documents.structure(SmokeResult, document)
    except documents.Malformed as error:
        why = f"smoke.json: {error}"
        return [found(kind, UNMEASURED, why, document) for kind in ("latency", "answers")]
    results = {"pass": PASS, "fail": FAIL, "invalid": UNMEASURED}
    why = "" if smoke.verdict == "pass" else next(iter(smoke.reasons), f"verdict {smoke.verdict}")
    every = [
        found("latency", results[smoke.verdict], why, document),
        found("answers", *_of_answers(smoke), document),
    ]
    return [replace(one, of=configuration) for one in every]


def _of_answers(smoke: SmokeResult) -> tuple[str, str]:
    golden = smoke.golden
    if isinstance(golden, Unmeasured):
        return UNMEASURED, golden.reason
    if (compared := golden.reference) is None:
        return UNMEASURED, "no answer was compared"
    if compared.outcome in HARMLESS:
        return PASS, compared.why if compared.outcome == "none" else ""
    return (UNMEASURED if compared.outcome == "unmeasured" else FAIL), compared.why


def of_bandwidth(document: object, look: HealthCheck | None) -> ProofEvidence:
    """The measurement that is there, as the last health check judged it."""
    judged = look.bandwidth if look else None
    if judged == FAIL:
        why = "the last health check found it too low, or its data wrong"
        return found("bandwidth", FAIL, why, document)
    result, why = (PASS, "") if judged == PASS else (UNMEASURED, "no health check has judged it")
    return found("bandwidth", result, why, document)


def renewed(
    known: ProofEvidence | None, now: ProofEvidence, shift_s: float, *, believed: bool
) -> ProofEvidence:
    """The evidence of one kind now. *known*: as it was in the proof before.

    *shift_s*: by how much the time of day, which is *believed* again, was set since.
    """
    if known is None:
        return now
    kept = replace(known, ttl_s=now.ttl_s, required=now.required)
    if shift_s and kept.taken_at:
        kept = replace(kept, taken_at=stamp(wall_s(kept.taken_at) + shift_s))
    if now.digest and now.digest == known.digest:
        if known.of != now.of:
            # It keeps what it holds for: back there, it holds again.
            why = "it was measured under another configuration"
            return replace(kept, result=UNMEASURED, why=why)
        # No younger than it says of itself: the boot's clock counts no day on which it stood still.
        older = min(now.taken_at, kept.taken_at) if believed else kept.taken_at
        return replace(now, taken_at=older)
    if now.result == UNMEASURED and known.result != UNMEASURED and known.of == now.of:
        return kept
    return now


def issue(
    before: NodeProof | None,
    measured: Sequence[ProofEvidence],
    serving: ServingNow,
    now: Now,
    rules: ProofRules,
) -> NodeProof:
    """The proof after a check: what was found now, and what still holds of the one before."""
    known = {one.kind: one for one in before.evidence} if before else {}
    same_boot = before is not None and before.boot_id == now.boot_id
    clock = _clock(before, now, rules)
    # Once a time of day that was stepped is believed, what was taken before keeps its age.
    moved_s = clock.epoch_s - before.clock.epoch_s if before and same_boot else 0.0
    shift_s = moved_s if abs(moved_s) > rules.clock_step_s else 0.0
    evidence = [
        renewed(
            known.get(one.kind),
            replace(one, ttl_s=rules.ttl_s[one.kind], required=one.kind in rules.required),
            shift_s,
            believed=not clock.refused,
        )
        for one in measured
    ]
    elapsed = _elapsed(before, now)
    proof = NodeProof(
        node=rules.node,
        boot_id=now.boot_id,
        boot_s=round(now.boot_s, 1),
        # Of a node whose proofs are lost it goes on above every one of them: each took a second.
        sequence=(before.sequence if before else int(now.wall_s)) + 1,
        issued_at=stamp(now.wall_s),
        evidence=tuple(sorted(evidence, key=lambda one: KINDS.index(one.kind))),
        clock=clock,
        serving=serving,
        expiring_share=rules.expiring_share,
        gpu_seconds=_counted(before, elapsed, now),
        expired_s=0.0,
        expired=rules.expired,
    )
    if proof.validity().holds or before is None:
        return proof
    return replace(proof, expired_s=round(before.unproven_s(elapsed), 1))


def _elapsed(before: NodeProof | None, now: Now) -> float:
    """Seconds since the proof before: within a boot by its clock, else by the time of day."""
    if before is None:
        return 0.0
    if before.boot_id == now.boot_id:
        return max(0.0, now.boot_s - before.boot_s)
    return max(0.0, now.wall_s - before.issued_s)


def _counted(before: NodeProof | None, elapsed: float, now: Now) -> GpuSeconds:
    """What served, and under a valid proof; nobody knows what served over a boot."""
    if before is None:
        return GpuSeconds()
    known, gpus = before.gpu_seconds, before.serving.gpus
    if before.boot_id != now.boot_id:
        return known
    proven = known.proven + gpus * min(elapsed, before.validity().left_s)
    return GpuSeconds(round(known.served + gpus * elapsed), round(proven))


def _clock(before: NodeProof | None, now: Now, rules: ProofRules) -> Clock:
    """Of a new boot, the time of day must be later than the last one before it."""
    epoch = round(now.wall_s - now.boot_s, 1)
    if before is None:
        return Clock(epoch)
    if before.boot_id == now.boot_id:
        return before.clock.after(now.boot_s, now.wall_s, rules)
    off = now.wall_s - before.issued_s
    if off >= -rules.clock_step_s:
        return Clock(epoch)
    return Clock(round(epoch - off, 1), round(off, 1), round(now.boot_s, 1))


def news(then: NodeProof | None, now: NodeProof, reported: str) -> str:
    """The standing to report, "" where there is none. *reported*: the one reported last.

    Boots, restarts and a node that was taken out are planned work: for a moment nothing is proven,
    and nobody relies on it. An expired proof counts from the second one of replicas that serve.
    """
    standing = now.validity().standing
    if standing == EXPIRED and not (_serves_unproven(now) and _serves_unproven(then)):
        return ""
    return "" if standing == reported else standing


def _serves_unproven(proof: NodeProof | None) -> bool:
    serves = proof is not None and bool(proof.serving.replicas)
    return serves and proof is not None and proof.validity().standing == EXPIRED
