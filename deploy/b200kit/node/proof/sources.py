"""Where the evidence of a proof comes from: documents that others left on the node. Pure.

Each function takes such a document, or None where there is none, and says what it proves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from b200kit.node.client.golden.compare import HARMLESS
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import documents, readings, timestamp
from b200kit.node.proof.clock import Now
from b200kit.node.proof.document import ProofRules
from b200kit.node.proof.evidence import FAIL, KINDS, PASS, UNMEASURED, Evidence
from b200kit.node.state.verdict import GateVerdict
from b200kit.node.state.view import Unmeasured
from b200kit.node.state.watch import Look

Found = tuple[str, str]
"""A result, and why it is not a pass."""


@dataclass(frozen=True)
class Left:
    """What others left, as it was read; *serving*: digest of serving.json.

    *replicas*: those that run and are in the gateway.
    """

    look: object = None
    gate: object = None
    smoke: object = None
    bandwidth: object = None
    serving: str = ""
    replicas: tuple[int, ...] = ()


def digest(document: object) -> str:
    """SHA-256 of the canonical JSON of a document; empty where there is none."""
    if not isinstance(document, Mapping):
        return ""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def evidence(left: Left, now: Now, rules: ProofRules) -> list[Evidence]:
    """Evidence of every kind, unmeasured where nothing was left."""
    latency, answers = of_smoke(left.smoke)
    sources: dict[str, tuple[object, Callable[[], Found], str]] = {
        "look": (left.look, lambda: of_look(left.look, left.replicas), now.boot_id),
        "gate": (left.gate, lambda: of_gate(left.gate, now.boot_id), now.boot_id),
        "latency": (left.smoke, lambda: latency, left.serving),
        "answers": (left.smoke, lambda: answers, left.serving),
        "bandwidth": (left.bandwidth, lambda: of_bandwidth(left.look), ""),
    }
    return [_evidence(kind, *sources[kind], now, rules) for kind in KINDS]


def _evidence(
    kind: str, document: object, judge: Callable[[], Found], of: str, now: Now, rules: ProofRules
) -> Evidence:
    result, why = (UNMEASURED, _absent(document)) if _absent(document) else judge()
    at, age_s = _age(document, now)
    if age_s is None and result == PASS:
        result, why = UNMEASURED, "it does not say when it was taken"
    return Evidence(
        kind=kind,
        result=result,
        why=why,
        digest=digest(document),
        of=of,
        at=at,
        age_s=round(age_s or 0.0, 1),
        ttl_s=rules.ttl_s[kind],
        required=kind in rules.required,
    )


def _absent(document: object) -> str:
    if document is None:
        return "there is none"
    return readings.reason(document) or "" if isinstance(document, Mapping) else "it is no document"


def _age(document: object, now: Now) -> tuple[str, float | None]:
    """When it was taken and how old it is: by the boot's clock where it says both.

    The time of day may have been another when it was written: of what this boot's clock knows, the
    moment is by the time of day now.
    """
    known = document if isinstance(document, Mapping) else {}
    try:
        at = timestamp.parse(known.get("taken_at"))
    except ValueError:
        return "", None
    boot_s = known.get("boot_s")
    here = datetime.fromtimestamp(now.wall_s, timezone.utc)
    if isinstance(boot_s, int | float) and known.get("boot_id", now.boot_id) == now.boot_id:
        age_s = max(0.0, now.boot_s - boot_s)
        return timestamp.text(here - timedelta(seconds=age_s)), age_s
    return timestamp.text(at), max(0.0, (here - at).total_seconds())


def of_look(document: object, serving: Collection[int]) -> Found:
    """A confirmed fault of what serves fails; a look that has not seen everything measured nothing.

    A fault whose replicas are out of the gateway is no fault of the others, and one that is only
    reported of none; until the watchdog has taken replicas out, the look is unmeasured.
    """
    try:
        look = documents.structure(Look, document)
    except documents.Malformed as error:
        return UNMEASURED, str(error)
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


def of_gate(document: object, boot_id: str) -> Found:
    """The gate's verdict of this boot."""
    try:
        verdict = documents.structure(GateVerdict, document)
    except documents.Malformed as error:
        return UNMEASURED, str(error)
    if verdict.boot_id != boot_id:
        return UNMEASURED, "the gate has not judged this boot"
    results = {"fit": (PASS, ""), "unfit": (FAIL, "the node is unfit")}
    return results.get(verdict.fit, (UNMEASURED, f"the node is {verdict.fit}"))


def of_smoke(document: object) -> tuple[Found, Found]:
    """The last smoke test, and its golden answers beside their reference.

    An invalid one measured nothing.
    """
    try:
        smoke = documents.structure(SmokeResult, document)
    except documents.Malformed as error:
        return (UNMEASURED, f"smoke.json: {error}"), (UNMEASURED, f"smoke.json: {error}")
    results = {"pass": PASS, "fail": FAIL, "invalid": UNMEASURED}
    why = next(iter(smoke.reasons), f"verdict {smoke.verdict}")
    return (results[smoke.verdict], "" if smoke.verdict == "pass" else why), _of_answers(smoke)


def _of_answers(smoke: SmokeResult) -> Found:
    golden = smoke.golden
    if isinstance(golden, Unmeasured):
        return UNMEASURED, golden.reason
    if (found := golden.reference) is None:
        return UNMEASURED, "no answer was compared"
    if found.outcome in HARMLESS:
        return PASS, found.why if found.outcome == "none" else ""
    return (UNMEASURED if found.outcome == "unmeasured" else FAIL), found.why


def of_bandwidth(document: object) -> Found:
    """The measurement that is there, as the last look judged it."""
    look = documents.understood(Look, document)
    found = look.bandwidth if look else None
    if found == FAIL:
        return FAIL, "the last look found it too low, or its data wrong"
    return (PASS, "") if found == PASS else (UNMEASURED, "no look has judged it")
