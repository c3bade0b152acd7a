"""Comparisons as they are kept beside the record, and what they say of a node's model.

A comparison holds for a model, a revision, an engine and the formats it is served in, on whichever
node; each such key has a file of its own. The newest one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from b200kit import catalog, engines
from b200kit.catalog import shipped
from b200kit.engines import kv_cache
from b200kit.inventory import precision, shape
from b200kit.inventory.spec import NodeSpec
from b200kit.node.checks.serving import precision as precision_check
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView
from b200kit.records import store
from b200kit.records.entries import Divergence, PrecisionKey, QualityComparison
from b200kit.run import jsonl
from b200kit.run.node import Node

FOLDER = "quality"
_NONE = "no comparison is recorded"
_LIMITS = Path(catalog.__file__).with_name("quality.yaml")
_FEW = 4


@dataclass(frozen=True)
class ServedModel:
    """Of a node's inventory what a comparison needs to know: its key and what is beside it."""

    key: PrecisionKey
    engine_version: str
    kv_cache: str
    max_model_len: int
    records: str | None


def key(spec: NodeSpec) -> PrecisionKey:
    """What a comparison holds for."""
    lowered = precision.lowered(spec)
    return PrecisionKey(spec.model, spec.model_revision, spec.engine.name, lowered)


def served(spec: NodeSpec) -> ServedModel:
    """What a node is to serve."""
    cache = kv_cache.stated(engines.get(spec.engine), shape.flags_of(spec))
    version = spec.engine.version
    return ServedModel(key(spec), version, cache, spec.max_model_len, spec.records)


def folder(records: str | None) -> Path:
    """The directory of comparisons; *records* as the inventory has it."""
    return store.directory(records) / FOLDER


def name_of(known: PrecisionKey) -> str:
    """The name of a key's file."""
    return f"{known.model}-{jsonl.digest(unstructure(known))[:12]}"


def expected(node: Node) -> dict[str, Any]:
    """The part "precision" of an expectation."""
    known = key(node.spec)
    found = {**unstructure(known), "limits": limits(known.lowered)}
    if known.lowered:
        found |= _evidence(folder(node.spec.records), known)
    return {"precision": found}


def _evidence(place: Path, known: PrecisionKey) -> dict[str, Any]:
    """The newest comparison of a key, `compared`; else `doubt`, why there is none."""
    try:
        record = store.read(place, name_of(known))
    except OSError as error:
        return {"doubt": f"{place} cannot be read: {error.strerror}"}
    if record.damage:
        return {"doubt": f"the record of comparisons is damaged: {record.damage[0]}"}
    found = [one for one in record.of(QualityComparison) if one.key == known]
    return {"compared": unstructure(found[-1].compared)} if found else {"doubt": _NONE}


def of_model(
    place: Path, model: str, engine: str, lowered: Sequence[str]
) -> QualityComparison | None:
    """The newest comparison of a model so served, whatever its revision; None where there is none.

    Files that are damaged or cannot be read are left out.
    """
    wanted = model, engine, tuple(lowered)
    found: list[QualityComparison] = []
    for name in store.nodes(place):
        with suppress(OSError):
            record = store.read(place, name)
            sound = () if record.damage else record.of(QualityComparison)
            keys = [(one.key.model, one.key.engine, one.key.lowered) for one in sound]
            found += [one for one, key in zip(sound, keys, strict=True) if key == wanted]
    return max(found, key=lambda one: one.at, default=None)


def judged(known: PrecisionKey, compared: Divergence) -> Finding:
    """What a node's own check says of a comparison."""
    asked = {
        **unstructure(known),
        "limits": limits(known.lowered),
        "compared": unstructure(compared),
    }
    [finding] = precision_check.validated(Expectation({"precision": asked}), StateView({}))
    return finding


def limits(lowered: Sequence[str]) -> dict[str, float]:
    """Metric to its limit for what is served in fewer bits: those of the fewest bits."""
    table = _table()
    bits = min((int(table["bits"].get(name.split()[0], _FEW)) for name in lowered), default=8)
    return {name: float(value) for name, value in table["limits"][bits].items()}


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = shipped.read(_LIMITS)
    return table
