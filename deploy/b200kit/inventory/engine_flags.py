"""The flags of an engine: the catalogue's by goal and model, and the inventory's. Pure.

From low to high: levers of the engine, the model's own flags (which are vLLM's), the format of the
KV cache, `engine.flags`. What the plan counts with is read back from them.
"""

from __future__ import annotations

from dataclasses import replace

from b200kit import engines
from b200kit.catalog.types import Catalogue, Model
from b200kit.engines import kv_cache, levers
from b200kit.engines.contract import EngineKind, Scalar
from b200kit.engines.flags import EngineKnowledge
from b200kit.engines.levers import Served
from b200kit.inventory.spec import NodeSpec

# The flag of a model's file that is rendered as every engine's own.
_KV = "kv-cache-dtype"


def flags(spec: NodeSpec, model: Model | None, catalogue: Catalogue) -> dict[str, Scalar]:
    """All flags of the replicas of a node; those of single replicas stand above them."""
    return of_catalogue(spec, model, catalogue) | dict(spec.engine.flags)


def of_catalogue(spec: NodeSpec, model: Model | None, catalogue: Catalogue) -> dict[str, Scalar]:
    """What the catalogue and `kv_cache_dtype` say; levers are for engines on GPUs."""
    kind, known = (
        engines.get(spec.engine),
        catalogue.engines.get(spec.engine.name, EngineKnowledge()),
    )
    on_gpus = known.levers if spec.engine.kind == "cuda" else ()
    given = levers.flags(on_gpus, _served(spec, model))
    return given | of_model(kind, model) | kv_cache.rendered(kind, kv_format(spec, model))


def of_goal(kind: EngineKind, model: Model, goal: str, catalogue: Catalogue) -> dict[str, Scalar]:
    """What the catalogue says of a model under a goal, before anything is planned."""
    known = catalogue.engines.get(kind.name, EngineKnowledge())
    given = levers.flags(known.levers, replace(_named(model), goal=goal))
    return given | of_model(kind, model) | kv_cache.rendered(kind, kv_of(model))


def of_model(kind: EngineKind, model: Model | None) -> dict[str, Scalar]:
    """The model's own flags, without the format of the cache."""
    own = model.flags if model and kind.name == "vllm" else ()
    return {name: value for name, value in own if name != _KV}


def kv_format(spec: NodeSpec, model: Model | None) -> str:
    """The format that is asked for: the inventory's, else the model's."""
    return spec.kv_cache_dtype or kv_of(model)


def kv_of(model: Model | None) -> str:
    """The format that the catalogue has for a model."""
    return str(dict(model.flags if model else ()).get(_KV, "auto"))


def _served(spec: NodeSpec, model: Model | None) -> Served:
    """What is served, as conditions of levers name it."""
    spread = spec.data_parallel > 1 if spec.data_parallel else None
    known = _named(model) if model else Served(spec.model)
    return replace(known, goal=spec.goal, spread=spread)


def _named(model: Model) -> Served:
    weights = model.dimensions.weights if model.dimensions else ""
    return Served(model.name, model.family, weights)
