"""Smoke: a low-load latency measurement on the node, through the gateway and past it.

It runs when something changed since the last accepted result, when there is none for this very
state, when that runs out as evidence of the node's proof, or when asked; otherwise the last result
is shown with its age.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from datetime import UTC, datetime

from b200kit.converge.stage import Change, Stage, nothing
from b200kit.node.client.golden.replicas import GoldenResult
from b200kit.node.client.smoke_result import BaselineComparison, SmokeResult
from b200kit.node.lib import documents, timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.drift import File
from b200kit.records import comparison, entries, provenance
from b200kit.records.entries import RecordError
from b200kit.records.statistics import METRICS
from b200kit.records.store import Records
from b200kit.run import remote
from b200kit.run.node import Node, StageFailed
from b200kit.stages import gateway, golden, proof, serving, watchdog

RECORD = "/var/lib/b200kit/smoke.json"
# Beside the time in which requests are sent.
_BESIDE_S = 600


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
    accepted = _accepted(last, mark)
    # It was not renewed while the node was idle: others' requests would make it invalid again.
    runs_out = accepted is not None and proof.runs_out(node, last)
    if accepted and not runs_out and not node.spec.smoke_always:
        node.record.smoke, node.record.smoke_age_s = accepted, age_s(accepted)
        return []
    # What was measured is evidence from the next health check on, and the node is asked for it at
    # once.
    proven = [Change("check the node, which proves it", watchdog.look, measures=True)]
    measured = Change(
        "measure TTFT, ITL, TPOT and E2E",
        lambda node: _measure(node, mark),
        measures=True,
        drained=runs_out,
    )
    return [measured, *(proven if proof.is_issued(node) else [])]


def _accepted(last: object, mark: str) -> SmokeResult | None:
    """What lies on the node, where it passed and holds for this state."""
    found = documents.understood(SmokeResult, last)
    if found is None or found.fingerprint != mark or age_s(found) is None:
        return None
    return found if found.verdict == "pass" else None


def age_s(result: SmokeResult) -> float | None:
    """Seconds since the result was taken, or None when it does not say."""
    try:
        taken = timestamp.parse(result.taken_at)
    except ValueError:
        return None
    return max(0.0, (datetime.now(UTC) - taken).total_seconds())


def _measure(node: Node, mark: str) -> str:
    asked = f"measure --config {serving.SERVING}"
    done = node.connected().attempt_program(asked, timeout=_deadline_s(node))
    node.record.smoke = replace(remote.measured(SmokeResult, done), fingerprint=mark)
    reference = golden.held_against(node)
    node.record.smoke = result = _by_its_record(node, node.record.smoke)
    node.connected().put([File(RECORD, documents.to_bytes(result)), *reference])
    if result.verdict != "pass":
        raise StageFailed(f"smoke test {result.verdict}: {result.why}")
    return summary(result)


def _deadline_s(node: Node) -> int:
    """What the longest measurement may take, in seconds."""
    smoke, replicas = node.spec.smoke, len(node.layout())
    sent = smoke.requests + smoke.direct_requests * replicas
    return _BESIDE_S + math.ceil(sent / smoke.rate)


def _by_its_record(node: Node, smoke: SmokeResult) -> SmokeResult:
    """The result against the node's own accepted baseline; slower than that is a failure.

    What cannot be decided is one, too, where a person has accepted a baseline.
    """
    try:
        found = _compared(node, smoke)
    except (OSError, RecordError) as error:
        found = BaselineComparison("unknown", str(error))
    node.say("smoke", f"against its own record: {found.outcome} ({found.why})")
    smoke = replace(smoke, comparison=found)
    if found.outcome not in ("slower", "unknown") or smoke.verdict == "invalid":
        return smoke
    if others := smoke.server.served_meanwhile:
        return replace(smoke, verdict="invalid", reasons=(others, *smoke.reasons, found.why))
    word = "slower than its record" if found.outcome == "slower" else "it cannot be compared"
    return replace(smoke, verdict="fail", reasons=(*smoke.reasons, f"{word}: {found.why}"))


def _compared(node: Node, smoke: SmokeResult) -> BaselineComparison:
    """Raises StoreError for a record that cannot be read, RecordError for incomplete conditions."""
    known = Records().read(node.name)
    if not known.of(entries.Acceptance):
        return BaselineComparison("none", comparison.NO_BASELINE)
    entry = entries.run_entry(provenance.run_conditions(node), smoke, "")
    uncounted = entries.counts(entry)
    if uncounted:
        return BaselineComparison("none", uncounted)
    return comparison.compare_to_baseline(known, entry)


def summary(smoke: SmokeResult) -> str:
    """Medians and 95th percentiles on one line, and what the answers are beside the reference."""
    latencies = [(name, smoke.main.latency(metric)) for metric, name in METRICS.items()]
    pairs = [f"{name} {_ms(one.p50_ms)}/{_ms(one.p95_ms)}" for name, one in latencies]
    marker = "STAND-IN ENGINE  " if smoke.conditions.stand_in else ""
    answers = smoke.golden.reference if isinstance(smoke.golden, GoldenResult) else None
    text = f"; answers: {answers.outcome}" if answers else ""
    return f"{marker}{'  '.join(pairs)} ms (P50/P95, n={smoke.main.completed}){text}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


STAGE = Stage(name="smoke", desired=nothing, plan=plan)
