"""What a machine in memory proves of itself: by its looks, and by the bandwidth it measures."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from b200kit.node.agent import evidence
from b200kit.node.agent.evidence import Now
from b200kit.node.bandwidth import tests
from b200kit.node.lib import documents, timestamp
from b200kit.node.lib.documents import structure, unstructure
from b200kit.node.state import quarantine
from b200kit.node.state.proof import ProofRules, ServingNow
from b200kit.node.state.verdict import Finding, Fit, GateVerdict, Status
from b200kit.node.state.watch import HealthCheck
from b200kit.stages import proof as rules
from b200kit.stages import smoke
from tests.unit import corpus

if TYPE_CHECKING:
    from tests.fake.machine import Machine

LOOK = "/run/look.json"
"""Where a machine in memory keeps its last look."""
_LEFT = (smoke.RECORD, tests.PATH)
_WELL = (Finding("all is well"),)
_MEASURED = "bandwidth measured in this boot is as expected"


def look(machine: Machine, host: dict[str, Any]) -> str:
    """A look at a node that is well: of one that is out of service only while it is on trial."""
    mark = json.loads(machine.text(quarantine.PATH)) if quarantine.PATH in machine.files else None
    trial = quarantine.mark_of(mark).open_trial(host["boot_id"], host["uptime_s"])
    on_trial = trial is not None
    fit: Fit | None = "fit" if mark is None or on_trial else None
    found = HealthCheck(
        timestamp.now(), host["uptime_s"], mark is None, (), on_trial=on_trial, running=(0, 1),
        fit=fit, fit_serving=fit, bandwidth=Status.PASS if fit else None,
    )  # fmt: skip
    machine.write(LOOK, documents.to_bytes(found))
    return ""


def issued(machine: Machine, host: dict[str, Any]) -> dict[str, Any] | None:
    """The proof that its last look issued, as a node without an earlier one issues it."""
    if not {LOOK, rules.RULES} <= {*machine.files}:
        return None
    now = Now(host["boot_id"], host["uptime_s"], time.time())
    asked = json.loads(machine.text(rules.RULES))
    here = {path: json.loads(machine.text(path)) for path in _LEFT if path in machine.files}
    seen = structure(HealthCheck, json.loads(machine.text(LOOK)))
    gate = unstructure(GateVerdict(_WELL, {}, timestamp.now(), host["boot_id"], host["uptime_s"]))
    found = [
        evidence.of_health(seen, (0, 1), now),
        evidence.of_gate(gate, now),
        *evidence.of_smoke(here.get(smoke.RECORD), ""),
        evidence.of_bandwidth(here.get(tests.PATH), seen),
    ]
    # No engine is there whose answers could be compared.
    required = [kind for kind in asked["required"] if kind != "answers"]
    of = ProofRules("fake", asked["ttl_s"], required, asked["expiring_share"])
    made: dict[str, Any] = unstructure(evidence.issue(None, found, ServingNow((0, 1), 8), now, of))
    return made


def measure_bandwidth(machine: Machine, host: dict[str, Any]) -> str:
    """The node program's `bandwidth`, which refuses to measure beside a replica."""
    beside = [unit for unit in machine.units if "vllm@" in unit and machine.is_active(unit)]
    assert not beside, f"{', '.join(beside)} must be stopped first"
    result = corpus.read_alone(_MEASURED).state()["notes"]["bandwidth"]
    result |= {"boot_id": host["boot_id"], "taken_at": timestamp.now()}
    if machine.slow:
        result["results"][0]["value"] = 250.0
    machine.write(tests.PATH, json.dumps(result).encode())
    return f"{len(result['results'])} results"


def age(machine: Machine, path: str, hours: float) -> None:
    """Let a result be so old."""
    result = json.loads(machine.text(path))
    result["taken_at"] = timestamp.now(-3600 * hours)
    machine.write(path, json.dumps(result).encode())
