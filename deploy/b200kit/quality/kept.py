"""Comparisons as they are kept beside the record, and what they say of a node's model.

A comparison holds for a model, a revision, an engine and the formats it is served in, on whichever
node; each such key has a record of its own. The newest one counts.
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
from b200kit.records.entries import Divergence, PrecisionKey, QualityComparison, digest
from b200kit.records.store import QUALITY, Records
from b200kit.run.node import Node
from b200kit.run.places import NoSite
from b200kit.store.database import StoreError

KEPT = Records(QUALITY)
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


def key(spec: NodeSpec) -> PrecisionKey:
    """What a comparison holds for."""
    lowered = precision.lowered(spec)
    return PrecisionKey(spec.model, spec.model_revision, spec.engine.name, lowered)


def served(spec: NodeSpec) -> ServedModel:
    """What a node is to serve."""
    cache = kv_cache.stated(engines.get(spec.engine), shape.flags_of(spec))
    version = spec.engine.version
    return ServedModel(key(spec), version, cache, spec.max_model_len)


def name_of(known: PrecisionKey) -> str:
    """The name of a key's record."""
    return f"{known.model}-{digest(unstructure(known))[:12]}"


def expected(node: Node) -> dict[str, Any]:
    """The part "precision" of an expectation."""
    known = key(node.spec)
    found = {**unstructure(known), "limits": limits(known.lowered)}
    if known.lowered:
        found |= _evidence(known)
    return {"precision": found}


def _evidence(known: PrecisionKey) -> dict[str, Any]:
    """The newest comparison of a key, `compared`; else `doubt`, why there is none."""
    try:
        record = KEPT.read(name_of(known))
    except StoreError as error:
        return {"doubt": str(error)}
    found = [one for one in record.of(QualityComparison) if one.key == known]
    return {"compared": unstructure(found[-1].compared)} if found else {"doubt": _NONE}


def of_model(model: str, engine: str, lowered: Sequence[str]) -> QualityComparison | None:
    """The newest comparison of a model so served, whatever its revision; None where there is none.

    Records that are damaged or cannot be read are left out; outside a site there are none.
    """
    wanted = model, engine, tuple(lowered)
    found: list[QualityComparison] = []
    with suppress(StoreError, NoSite):
        for name in KEPT.names():
            with suppress(StoreError):
                known = KEPT.read(name).of(QualityComparison)
                keys = [(one.key.model, one.key.engine, one.key.lowered) for one in known]
                found += [one for one, key in zip(known, keys, strict=True) if key == wanted]
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
