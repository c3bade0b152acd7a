"""Golden answers as they are kept, and a run's answers against them. Pure.

A reference holds for what decides a model's arithmetic (`key`), on whichever node: each key has a
record of its own. What one replica says is one word; the reference is what two
replicas, of one node or of two, said alike first. Another driver, engine, model, flag or layout is
another key, and gets a reference of its own. A person who finds a reference wrong forgets it (`b200
golden forget`): nothing is erased, and answers given afterwards make the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from b200kit.node.client.golden import replicas as golden_replicas
from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.compare import AnswersJudgement, compare
from b200kit.node.client.golden.prompts import SET
from b200kit.node.state.view import Unmeasured
from b200kit.records.conditions import RunConditions, fields, value_of
from b200kit.records.entries import GoldenWord, Record, RecordError, digest

_FIELDS = (
    "machine.gpus", "versions.driver", "versions.cuda", "versions.engine", "versions.engine_says",
    "versions.engine_lock", "load.model", "load.stand_in", "model.revision", "model.quantization",
    "model.kv_dtype", "serving.tp", "serving.pp", "serving.dp", "serving.ep", "serving.config",
    "serving.argv", "serving.environment",
)  # fmt: skip
OF_A_REPLICA = ("host", "port")
Replicas = Mapping[str, Sequence[Answer]]


def key(run_conditions: RunConditions, tokens: object) -> dict[str, Any]:
    """What a reference holds for; *tokens*: asked for a prompt.

    Raises RecordError where a field that decides is unmeasured.
    """
    found = {name: _value(run_conditions, name) for name in _FIELDS}
    return found | {"set": SET, "tokens": tokens}


def _value(run_conditions: RunConditions, name: str) -> object:
    value = value_of(run_conditions, name)
    if isinstance(value, Unmeasured):
        if (field := fields()[name]).needed:
            raise RecordError(f"{field.words}: {value.reason}")
        return {"unmeasured": value.reason}
    if isinstance(value, list):
        # Of every GPU or replica: how many are alike decides nothing.
        distinct = [one for at, one in enumerate(value) if one not in value[:at]]
        return distinct[0] if len(distinct) == 1 else sorted(distinct, key=str)
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if name not in OF_A_REPLICA}
    return value


def name_of(known: Mapping[str, Any]) -> str:
    """The name of a key's record."""
    return digest(known)[:16]


def reference(record: Record, tolerance: float) -> GoldenWord | None:
    """The first entry whose answers two replicas gave; None where there is none yet."""
    words = record.golden
    return next((one for one in words if support(one, words, tolerance) > 1), None)


def support(one: GoldenWord, words: Sequence[GoldenWord], tolerance: float) -> int:
    """How many replicas said so: of its own node, and of others that said it once."""
    others = {
        other.node: other.replicas
        for other in words
        if other.node != one.node and compare(other.answers, one.answers, tolerance).explained
    }
    return one.replicas + sum(others.values())


def against(record: Record, node: str, replicas: Replicas, tolerance: float) -> AnswersJudgement:
    """A node's replicas against the reference."""
    kept = reference(record, tolerance)
    if kept is None:
        return _without(record, node)
    return golden_replicas.against(kept.answers, f"{kept.node}, {kept.at}", replicas, tolerance)


def _without(record: Record, node: str) -> AnswersJudgement:
    others = sorted({one.node for one in record.golden} - {node})
    if others:
        names = ", ".join(others)
        return AnswersJudgement(
            "unmeasured", f"{names} answers otherwise, and no third tells which is right"
        )
    return AnswersJudgement("none", "no two replicas have answered alike yet")
