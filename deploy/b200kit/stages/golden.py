"""Golden answers of a measured node against the kept reference, as the smoke stage takes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from b200kit.node.client.golden import answer as golden_answer
from b200kit.node.client.golden.judged import HARMLESS, AnswersJudgement, changes
from b200kit.node.client.golden.prompts import SET
from b200kit.node.client.golden.reference import PATH, Reference
from b200kit.node.client.golden.replicas import answers_of
from b200kit.node.client.other_users import served_meanwhile
from b200kit.node.placement import layout as layouts
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File
from b200kit.records import golden, provenance, store
from b200kit.records.entries import Record, RecordError
from b200kit.run import jsonl
from b200kit.run.node import Node


def holds_for(node: Node, layout: Sequence[Replica]) -> str:
    """Names the configuration whose golden answers are comparable; empty without a layout.

    The node itself cannot know all of it: it compares this name with that in its reference.
    """
    if not layout or node.spec.smoke.golden_tokens == 0:
        return ""
    # Where GPUs are moved for a diagnosis, answers are compared with those of the ordinary layout.
    usual = layouts.rotated(layout, -node.rotated)
    known = provenance.requested(node, usual)
    config = known["config"]
    if isinstance(config, dict):
        known["config"] = {k: v for k, v in config.items() if k not in golden.OF_A_REPLICA}
    del known["gateway"]
    return jsonl.digest({**known, "driver": node.spec.driver, "set": SET})[:16]


def on_node(node: Node, document: object) -> list[File]:
    """The reference for the node's own watchdog and restarts, where the answers are sound.

    document: `golden` of the smoke document as it was measured, with the replicas' answers.
    """
    smoke = node.record.smoke or {}
    found = smoke.get("golden")
    outcome = (found.get("reference") or {}).get("outcome") if isinstance(found, dict) else None
    if outcome not in HARMLESS or not isinstance(document, dict):
        return []
    key = golden.key(provenance.run_conditions(node), node.spec.smoke.golden_tokens)
    folder = store.directory(node.spec.records) / golden.FOLDER
    kept = golden.reference(
        _sound(store.read(folder, golden.name_of(key))), node.spec.smoke.golden_tolerance
    )
    if kept:
        answers, of = golden_answer.restored(kept["answers"]), f"{kept['node']}, {kept['at']}"
    elif document.get("agreed") and not served_meanwhile(smoke.get("server") or {}):
        # No second replica has said so yet; that it says other things later is wrong all the same.
        answers = next(iter(answers_of(document).values()))
        of = f"{node.name}, {smoke.get('taken_at')}"
    else:
        return []
    name, spec = holds_for(node, node.replicas), node.spec.smoke
    found = Reference(answers, spec.golden_tokens, of, name, spec.golden_tolerance)
    return [File(PATH, json.dumps(found.document()).encode())]


def judged(node: Node) -> dict[str, Any]:
    """What the reference changes in the node's smoke document; nothing where none was asked.

    A replica that answers otherwise fails the test, whatever else is in doubt; what cannot be
    compared is not healthy.
    """
    smoke = node.record.smoke or {}
    document = smoke.get("golden")
    if not isinstance(document, dict) or not document.get("answers"):
        return {}
    try:
        found = _found(node, document)
    except (OSError, RecordError, ValueError) as error:
        found = AnswersJudgement("unmeasured", str(error))
    node.say("smoke", f"answers: {found.outcome} ({found.why})")
    return changes(smoke, found)


def _found(node: Node, document: dict[str, Any]) -> AnswersJudgement:
    """Compare; where there is no reference yet, give this node's word for one.

    Raises OSError, RecordError and ValueError where no reference can be had.
    """
    replicas, tolerance = answers_of(document), node.spec.smoke.golden_tolerance
    key = golden.key(provenance.run_conditions(node), node.spec.smoke.golden_tokens)
    folder, name = store.directory(node.spec.records) / golden.FOLDER, golden.name_of(key)
    known = _sound(store.read(folder, name))
    others = served_meanwhile((node.record.smoke or {}).get("server") or {})
    if golden.reference(known, tolerance) or others or not document.get("agreed"):
        return golden.against(known, node.name, replicas, tolerance)
    at = (node.record.smoke or {}).get("taken_at")
    store.append(folder, name, golden.entry(key, node.name, at, list(replicas.values())))
    known = _sound(store.read(folder, name))
    found = golden.against(known, node.name, replicas, tolerance)
    return AnswersJudgement("accepted", found.why) if found.outcome == "same" else found


def _sound(known: Record) -> Record:
    """A damaged line may have been the reference."""
    if known.damage:
        raise RecordError(known.damage[0])
    return known
