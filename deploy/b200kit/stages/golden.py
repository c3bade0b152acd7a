"""Golden answers of a measured node against the kept reference, as the smoke stage takes them."""

from __future__ import annotations

from typing import Any

from b200kit.node.client.golden.replicas import answers_of
from b200kit.node.client.other_users import served_meanwhile
from b200kit.records import golden, provenance, store
from b200kit.records.entries import Record, RecordError
from b200kit.records.golden import Found
from b200kit.run.node import Node

_HARMLESS = ("accepted", "same", "drifted", "none")
"""Outcomes that turn no node red: drift of all alike is reported; a new launch may cause it."""


def judged(node: Node) -> dict[str, Any]:
    """What the reference changes in the node's smoke document; nothing where none was asked.

    A replica that answers otherwise fails the test, whatever else is in doubt; what cannot be
    compared is not healthy.
    """
    smoke = node.smoke or {}
    document = smoke.get("golden")
    if not isinstance(document, dict) or not document.get("answers"):
        return {}
    try:
        found = _found(node, document)
    except (OSError, RecordError, ValueError) as error:
        found = Found("unmeasured", str(error))
    node.say("smoke", f"answers: {found.outcome} ({found.why})")
    reference = {"outcome": found.outcome, "why": found.why}
    changes = {"golden": _slim(document, found.outcome) | {"reference": reference}}
    if found.outcome in _HARMLESS:
        return changes
    reasons = list(smoke.get("reasons") or [])
    if found.faults:
        return changes | {"verdict": "fail", "reasons": [*found.faults, *reasons]}
    reasons += [f"answers cannot be compared: {found.why}"]
    verdict = "invalid" if smoke.get("verdict") == "pass" else smoke.get("verdict")
    return changes | {"verdict": verdict, "reasons": reasons}


def _found(node: Node, document: dict[str, Any]) -> Found:
    """Compare; where there is no reference yet, give this node's word for one.

    Raises OSError, RecordError and ValueError where no reference can be had.
    """
    replicas, tolerance = answers_of(document), node.spec.smoke.golden_tolerance
    key = golden.key(provenance.run_conditions(node), node.spec.smoke.golden_tokens)
    folder, name = store.directory(node.spec.records) / golden.FOLDER, golden.name_of(key)
    known = _sound(store.read(folder, name))
    others = served_meanwhile((node.smoke or {}).get("server") or {})
    if golden.reference(known, tolerance) or others or not document.get("agreed"):
        return golden.against(known, node.name, replicas, tolerance)
    at = (node.smoke or {}).get("taken_at")
    store.append(folder, name, golden.entry(key, node.name, at, list(replicas.values())))
    known = _sound(store.read(folder, name))
    found = golden.against(known, node.name, replicas, tolerance)
    return Found("accepted", found.why) if found.outcome == "same" else found


def _sound(known: Record) -> Record:
    """A damaged line may have been the reference."""
    if known.damage:
        raise RecordError(known.damage[0])
    return known


def _slim(document: dict[str, Any], outcome: str) -> dict[str, Any]:
    """Without the answers, where they are the reference's."""
    return {k: v for k, v in document.items() if k != "answers" or outcome not in _HARMLESS}
