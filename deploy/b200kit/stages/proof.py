"""What a node proves of itself while it serves: its rules on the node, and what check.py asks for.

The agent issues the proof after each health check (stages/watchdog.py).
"""

from __future__ import annotations

from typing import Any

from b200kit.node.agent.evidence import digest
from b200kit.node.lib import documents
from b200kit.node.state.drift import File
from b200kit.node.state.proof import PASS, Consequence, NodeProof, ProofRules, RenewalRules
from b200kit.node.state.view import StateView, Unread
from b200kit.run.node import Node
from b200kit.stages import serving

RULES = "/etc/b200kit/proof.json"


def is_issued(node: Node) -> bool:
    """A replica that works for another node is checked by nobody here."""
    return node.spec.proof.issue == "on" and not node.headless


def files(node: Node) -> list[File]:
    """The rules; none where no proof is asked for."""
    return [File(RULES, documents.to_bytes(document(node)))] if is_issued(node) else []


def document(node: Node) -> ProofRules:
    """How long evidence of each kind holds (s), and which kinds are required."""
    keys, longest_s = node.spec.proof, node.spec.watchdog.longest_health_check_s
    hours = {
        "gate": keys.gate_ttl_h,
        "latency": keys.latency_ttl_h,
        "answers": keys.answers_ttl_h,
        "bandwidth": keys.bandwidth_ttl_h,
    }
    asked = keys.renew
    return ProofRules(
        node=node.name,
        ttl_s={"health": keys.health_holds_s(longest_s)} | {k: 3600 * h for k, h in hours.items()},
        required=required(node),
        expiring_share=keys.expiring_share,
        expired=Consequence(keys.expired_share, keys.out_after_s),
        clock_step_s=keys.clock_step_s,
        clock_settle_s=keys.clock_settle_s,
        renew=RenewalRules(asked.window, asked.idle_s, asked.when_left) if renews(node) else None,
    )


def renews(node: Node) -> bool:
    """Whether the node measures latency and answers again by itself."""
    return is_issued(node) and node.spec.proof.renew.by_node == "on"


def required(node: Node) -> tuple[str, ...]:
    """The kinds without which the node has proven nothing: what its inventory asks for."""
    answers = ["answers"] if node.spec.smoke.golden_tokens else []
    bandwidth = ["bandwidth"] if node.spec.bandwidth == "required" else []
    return ("health", "gate", "latency", *answers, *bandwidth)


def runs_out(node: Node, document: object) -> bool:
    """Whether required evidence is in its last part or has expired, as the node proves it.

    *document*: what it is from, as it lies on the node now: another one has not been proven yet.
    """
    state = StateView(node.state or {})
    try:
        proof = documents.structure(NodeProof, state.raw("notes", "proof"))
        boot_id, uptime_s = state.text("host", "boot_id"), state.get(float, "host", "uptime_s")
    except (ValueError, Unread):
        return False
    if not is_issued(node) or proof.boot_id != boot_id:
        return False
    at_s = proof.issued_s + max(0.0, uptime_s - proof.boot_s)
    passed = [one for one in proof.required if one.result == PASS]
    return any(proof.is_late(one, at_s) for one in passed if one.digest == digest(document))


def expected(node: Node) -> dict[str, Any]:
    """What check.py judges of a node that serves."""
    return {"proof": {"replicas": serving.replica_units(node)}} if is_issued(node) else {}
