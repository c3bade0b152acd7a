"""Golden answers of a measured node against the kept reference, as the smoke stage takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from b200kit.node.client.golden.compare import HARMLESS, AnswersJudgement
from b200kit.node.client.golden.prompts import SET
from b200kit.node.client.golden.reference import PATH, Reference
from b200kit.node.client.golden.replicas import GoldenResult
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import documents
from b200kit.node.placement import layout as layouts
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File
from b200kit.node.state.view import Unmeasured
from b200kit.records import golden, provenance
from b200kit.records.entries import GoldenWord, RecordError, digest
from b200kit.records.store import GOLDEN, Records
from b200kit.run.node import Node

_KEPT = Records(GOLDEN)


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
    return digest({**known, "driver": node.spec.driver, "set": SET})[:16]


def held_against(node: Node) -> list[File]:
    """Change the node's smoke test by what the reference makes of the answers in it, if any.

    A replica that answers otherwise fails the test, whatever else is in doubt; what cannot be
    compared is not healthy. The file is the reference for the node's own watchdog and restarts,
    where the answers are sound.
    """
    smoke = node.record.smoke
    if smoke is None or isinstance(smoke.golden, Unmeasured) or not smoke.golden.answers:
        return []
    try:
        found = _found(node, smoke, smoke.golden)
    except (OSError, RecordError) as error:
        found = AnswersJudgement("unmeasured", str(error))
    node.say("smoke", f"answers: {found.outcome} ({found.why})")
    node.record.smoke = smoke.with_answers(found)
    return _on_node(node, smoke, smoke.golden) if found.outcome in HARMLESS else []


def _on_node(node: Node, smoke: SmokeResult, said: GoldenResult) -> list[File]:
    spec = node.spec.smoke
    kept = golden.reference(_KEPT.read(golden.name_of(_key(node))), spec.golden_tolerance)
    if kept:
        answers, of = kept.answers, f"{kept.node}, {kept.at}"
    elif said.agreed and not smoke.server.served_meanwhile:
        # No second replica has said so yet; that it says other things later is wrong all the same.
        answers, of = next(iter(said.said.values())), f"{node.name}, {smoke.taken_at}"
    else:
        return []
    name = holds_for(node, node.replicas)
    found = Reference(answers, spec.golden_tokens, of, name, spec.golden_tolerance)
    return [File(PATH, documents.to_bytes(found))]


def _key(node: Node) -> dict[str, Any]:
    """What this node's reference holds for. Raises RecordError."""
    return golden.key(provenance.run_conditions(node), node.spec.smoke.golden_tokens)


def _found(node: Node, smoke: SmokeResult, said: GoldenResult) -> AnswersJudgement:
    """Compare; where there is no reference yet, give this node's word for one.

    Raises StoreError and RecordError where no reference can be had.
    """
    replicas, tolerance = said.said, node.spec.smoke.golden_tolerance
    key = _key(node)
    name = golden.name_of(key)
    known = _KEPT.read(name)
    others = smoke.server.served_meanwhile
    if golden.reference(known, tolerance) or others or not said.agreed:
        return golden.against(known, node.name, replicas, tolerance)
    at, answers = smoke.taken_at, next(iter(replicas.values()))
    _KEPT.append(name, GoldenWord(node.name, at, key, len(replicas), answers))
    known = _KEPT.read(name)
    found = golden.against(known, node.name, replicas, tolerance)
    return AnswersJudgement("accepted", found.why) if found.outcome == "same" else found
