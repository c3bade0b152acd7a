"""Comparisons as they are kept beside the record, and what they say of a node's model.

A comparison holds for a model, a revision, an engine and the formats it is served in, on whichever
node; each such key has a file of its own. The newest one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from b200kit import engines
from b200kit.engines import kv_cache
from b200kit.inventory import precision, shape
from b200kit.inventory.spec import NodeSpec
from b200kit.node.checks.serving import precision as precision_check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView
from b200kit.quality.limits import limits
from b200kit.records import store
from b200kit.records.entries import SCHEMA, Record
from b200kit.run import jsonl
from b200kit.run.node import Node

FOLDER = "quality"
_NONE = "no comparison is recorded"


def key(spec: NodeSpec) -> dict[str, Any]:
    """What a comparison holds for."""
    return {
        "model": spec.model,
        "revision": spec.model_revision,
        "engine": spec.engine.name,
        "lowered": list(precision.lowered(spec)),
    }


def served(spec: NodeSpec) -> dict[str, Any]:
    """Of a node's inventory what a comparison needs to know: its key and what is beside it."""
    kind = engines.get(spec.engine)
    return {
        "key": key(spec),
        "engine_version": spec.engine.version,
        "kv_cache": kv_cache.stated(kind, shape.flags_of(spec)),
        "max_model_len": spec.max_model_len,
        "records": spec.records,
    }


def folder(records: str | None) -> Path:
    """The directory of comparisons; *records* as the inventory has it."""
    return store.directory(records) / FOLDER


def name_of(known: Mapping[str, Any]) -> str:
    """The name of a key's file."""
    return f"{known['model']}-{jsonl.digest(known)[:12]}"


def entry(node: str, at: str, known: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A comparison as it is kept; *more*: `compared`, `itself`, `reference`, `candidate`, ..."""
    return {"schema": SCHEMA, "kind": "quality", "node": node, "at": at, "key": known, **more}


def expected(node: Node) -> dict[str, Any]:
    """The part "precision" of an expectation."""
    known = key(node.spec)
    found = {**known, "limits": limits(known["lowered"])}
    if known["lowered"]:
        found |= _evidence(folder(node.spec.records), known)
    return {"precision": found}


def _evidence(place: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    try:
        record = store.read(place, name_of(known))
    except OSError as error:
        return {"doubt": f"{place} cannot be read: {error.strerror}"}
    return evidence(record, known)


def evidence(record: Record, known: Mapping[str, Any]) -> dict[str, Any]:
    """The newest comparison of a key, `compared`; else `doubt`, why there is none."""
    if record.damage:
        return {"doubt": f"the record of comparisons is damaged: {record.damage[0]}"}
    found = [one for one in record.entries if one["kind"] == "quality" and one["key"] == known]
    return {"compared": found[-1]["compared"]} if found else {"doubt": _NONE}


def of_model(place: Path, model: str, engine: str, lowered: Sequence[str]) -> dict[str, Any] | None:
    """The newest comparison of a model so served, whatever its revision; None where there is none.

    Files that are damaged or cannot be read are left out.
    """
    wanted = {"model": model, "engine": engine, "lowered": list(lowered)}
    found = []
    for name in store.nodes(place):
        with suppress(OSError):
            record = store.read(place, name)
            sound = () if record.damage else record.entries
            found += [one for one in sound if {**one["key"], **wanted} == one["key"]]
    return max(found, key=lambda one: str(one["at"]), default=None)


def judged(known: Mapping[str, Any], compared: Mapping[str, Any]) -> Finding:
    """What a node's own check says of a comparison."""
    asked = {**known, "limits": limits(known["lowered"]), "compared": compared}
    [finding] = precision_check.validated(Expectation({"precision": asked}), StateView({}))
    return finding
