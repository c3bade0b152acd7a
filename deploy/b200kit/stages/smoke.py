"""Smoke: a low-load latency measurement on the node, through the gateway and past it.

It runs when something changed since the last accepted result, when there is none for this very
state, when that runs out as evidence of the node's proof, or when asked; otherwise the last result
is shown with its age.
"""

from __future__ import annotations

import hashlib
import json
import math
from datetime import UTC, datetime
from typing import Any

from b200kit.converge.stage import Change, Stage, nothing
from b200kit.node.client.low_load import ROUNDS
from b200kit.node.client.other_users import served_meanwhile
from b200kit.node.lib import documents, timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.lib.error_line import cause
from b200kit.node.state.drift import File
from b200kit.node.state.path import reach
from b200kit.records import comparison, entries, provenance, store
from b200kit.records.entries import RecordError
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.stages import gateway, golden, proof, serving, watchdog

RECORD = "/var/lib/b200kit/smoke.json"
# Beside the time in which requests are sent, for each turn of a conversation.
_BESIDE_S = 600
_NO_BASELINE = "no baseline is accepted; b200 record accept"


def fingerprint(node: Node) -> str:
    """Digest of what a result holds for: configuration, driver, boot, and the server processes."""
    state = node.state or {}
    units = state.get("units") or {}
    layout = node.layout()
    parts = {
        "serving": documents.unstructure(serving.serving_document(node, layout)),
        "layout": [unstructure(replica) for replica in layout],
        "engine": serving.engine_id(node),
        "model": node.spec.model_revision,
        "gateway": gateway.desired(node, layout).files[0].content.decode(),
        "nvml": state.get("nvml"),
        "boot": (state.get("host") or {}).get("boot_id"),
        "processes": [
            (units.get(unit) or {}).get("invocation_id") for unit in serving.replica_units(node)
        ],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def plan(node: Node) -> list[Change]:
    """Measure, unless an accepted result for this state exists."""
    if node.headless:
        # The head measures the whole group.
        return []
    last = ((node.state or {}).get("notes") or {}).get("smoke")
    mark = fingerprint(node)
    accepted = last if isinstance(last, dict) and _accepted(last, mark) else None
    # It was not renewed while the node was idle: others' requests would make it invalid again.
    runs_out = accepted is not None and proof.runs_out(node, accepted)
    if accepted and not runs_out and not node.spec.smoke_always:
        node.record.smoke, node.record.smoke_age_s = accepted, age_s(accepted)
        return []
    # What was measured is evidence from the next look on, and the node is asked for it at once.
    proven = [Change("look at the node, which proves it", watchdog.look, measures=True)]
    measured = Change(
        "measure TTFT, ITL, TPOT and E2E",
        lambda node: _measure(node, mark),
        measures=True,
        drained=runs_out,
    )
    return [measured, *(proven if proof.is_issued(node) else [])]


def _accepted(result: dict[str, Any], mark: str) -> bool:
    known = age_s(result) is not None
    return known and result.get("fingerprint") == mark and result.get("verdict") == "pass"


def age_s(result: dict[str, Any]) -> float | None:
    """Seconds since the result was taken, or None when it does not say."""
    try:
        taken = timestamp.parse(result["taken_at"])
        return max(0.0, (datetime.now(UTC) - taken).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None


def _measure(node: Node, mark: str) -> str:
    done = node.connected().attempt_program(
        f"measure --config {serving.SERVING}", timeout=_deadline_s(node)
    )
    try:
        # A result that fails is a result: the exit status only repeats its verdict.
        result = documents.decode(documents.Object, done.stdout, documents.LARGE)
    except ValueError:
        raise RemoteError(f"no measurement: {cause(done.lines)}") from None
    node.record.smoke = {**result, "fingerprint": mark}
    reference = golden.held_against(node)
    node.record.smoke |= _by_its_record(node)
    content = json.dumps(node.record.smoke, sort_keys=True).encode()
    node.connected().put([File(RECORD, content), *reference])
    result = node.record.smoke
    if result.get("verdict") != "pass":
        reasons = "; ".join(result.get("reasons") or []) or "no reason given"
        raise StageFailed(f"smoke test {result.get('verdict')}: {reasons}")
    return summary(node)


def _deadline_s(node: Node) -> int:
    """What the longest measurement may take, in seconds."""
    smoke, replicas = node.spec.smoke, len(node.layout())
    sent = ROUNDS * (smoke.requests + smoke.direct_requests * replicas)
    return _BESIDE_S * smoke.turns + math.ceil(sent / smoke.rate)


def _by_its_record(node: Node) -> dict[str, Any]:
    """The result against the node's own accepted baseline; slower than that is a failure.

    What cannot be decided is one, too, where a person has accepted a baseline.
    """
    smoke = node.record.smoke or {}
    try:
        found = _compared(node, smoke)
    except (OSError, RecordError) as error:
        found = comparison.no_baseline(str(error), "unknown")
    outcome, why = found["outcome"], found["why"]
    node.say("smoke", f"against its own record: {outcome} ({why})")
    if outcome not in ("slower", "unknown") or smoke.get("verdict") == "invalid":
        return {"comparison": found}
    if others := served_meanwhile(smoke.get("server") or {}):
        reasons = [others, *(smoke.get("reasons") or []), why]
        return {"comparison": found, "verdict": "invalid", "reasons": reasons}
    word = "slower than its record" if outcome == "slower" else "it cannot be compared"
    reasons = [*(smoke.get("reasons") or []), f"{word}: {why}"]
    return {"comparison": found, "verdict": "fail", "reasons": reasons}


def _compared(node: Node, smoke: dict[str, Any]) -> dict[str, Any]:
    """Raises OSError for a record that cannot be read, RecordError for incomplete conditions."""
    known = store.read(store.directory(node.spec.records), node.name)
    if not known.of(entries.Acceptance):
        # A damaged line may have been the acceptance.
        outcome, why = ("unknown", known.damage[0]) if known.damage else ("none", _NO_BASELINE)
        return comparison.no_baseline(why, outcome)
    entry = entries.run_entry(provenance.run_conditions(node), smoke, "")
    uncounted = entries.counts(entry)
    if uncounted:
        return comparison.no_baseline(uncounted)
    return comparison.compare_to_baseline(known, entry)


def summary(node: Node) -> str:
    """Medians and 95th percentiles on one line, and what the answers are beside the reference."""
    smoke = node.record.smoke or {}
    pairs = [
        f"{label} {_ms(smoke.get(f'p50_{key}_ms'))}/{_ms(smoke.get(f'p95_{key}_ms'))}"
        for label, key in (("TTFT", "ttft"), ("ITL", "itl"), ("TPOT", "tpot"), ("E2E", "e2el"))
    ]
    marker = "STAND-IN ENGINE  " if (smoke.get("conditions") or {}).get("stand_in") else ""
    answers = reach(smoke, "golden.reference.outcome")
    text = f"; answers: {answers}" if isinstance(answers, str) else ""
    return f"{marker}{'  '.join(pairs)} ms (P50/P95, n={smoke.get('completed')}){text}"


def _ms(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else "-"


STAGE = Stage(name="smoke", desired=nothing, plan=plan)
