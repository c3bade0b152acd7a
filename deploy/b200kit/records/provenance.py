"""The run conditions of a node's result, over all that is known of the node; no secret is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from b200kit import engines
from b200kit.engines import kv_cache
from b200kit.inventory import shape
from b200kit.node.lib.documents import structure, unstructure
from b200kit.node.lib.redact import redact
from b200kit.node.placement.layout import Replica
from b200kit.node.serving.libraries import libraries
from b200kit.records import conditions
from b200kit.records.conditions import RunConditions, build
from b200kit.run.node import Node
from b200kit.serving import engine_install, replica

_ENGINE_KEYS = ("config", "argv", "environment", "kv_dtype")


def run_conditions(node: Node) -> RunConditions:
    """The run conditions of a node's result, without a secret."""
    desired, record = requested(node, node.replicas), node.record
    sources = {
        "node": node.name,
        "requested": desired,
        "state": record.state,
        "smoke": unstructure(record.smoke),
        "layout": [unstructure(planned) for planned in node.replicas],
        "observed": conditions.observed(record.state, record.smoke, desired["libraries"]),
    }
    secrets = [secret.reveal().decode("utf-8", "replace") for secret in node.secrets.values()]
    return structure(RunConditions, redact(unstructure(build(sources)), secrets))


def requested(node: Node, layout: Sequence[Replica]) -> dict[str, Any]:
    """What inventory and checkout request of a node; replica 0 of the layout stands for all."""
    spec = node.spec
    known = {
        "model": spec.model,
        "model_revision": spec.model_revision,
        "quantization": _quantization(node),
        "engine_id": engine_install.engine_id(node),
        "libraries": _libraries(node),
        "gateway": {"bind": spec.gateway_bind, "port": spec.gateway_port},
    }
    return known | _engine_settings(node, layout)


def _engine_settings(node: Node, layout: Sequence[Replica]) -> dict[str, Any]:
    """What the engine is given: configuration, arguments, environment."""
    if not layout:
        return {key: {"unmeasured": "there is no layout"} for key in _ENGINE_KEYS}
    settings = replica.settings(node, layout[0])
    kind = engines.get(node.spec.engine)
    config = dict(kind.config(settings))
    return {
        "config": config,
        "argv": list(kind.argv(settings)),
        "environment": replica.environment(node, settings),
        "kv_dtype": kv_cache.stated(kind, settings.flags),
    }


def _quantization(node: Node) -> object:
    known = shape.model_of(node.spec).dimensions
    return known.weights if known else {"unmeasured": "nothing is known of the model's size"}


def _libraries(node: Node) -> dict[str, str]:
    """Library versions by the hash-locked file that the engine was installed from."""
    if node.spec.engine.image:
        return {"unmeasured": "the engine is an image; what is in it was not read"}
    return libraries(engine_install.requirements(node).decode("utf-8", "replace"))
