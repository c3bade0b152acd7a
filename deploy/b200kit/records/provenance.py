"""Where a node's figures are from: the manifest of its result, over all that is known of the node.

What the inventory asks for is laid out on the node as it was last seen; no secret is in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from b200kit import engines
from b200kit.inventory import shape
from b200kit.node.lib.redact import redact
from b200kit.node.serving.libraries import libraries
from b200kit.records import manifest as run_manifest
from b200kit.records import manifest_sources
from b200kit.run.node import Node
from b200kit.serving import engine_install, replica

_TOLD = ("config", "argv", "environment", "kv_dtype")


def manifest(node: Node) -> dict[str, Any]:
    """The manifest of a node's result, without a secret."""
    # What the inventory asks for was laid out on the node as it was last seen.
    seen = replace(node, state=node.seen)
    wanted = asked(seen)
    sources = {
        "node": node.name,
        "asked": wanted,
        "state": node.seen,
        "smoke": node.smoke,
        "layout": [planned.to_json() for planned in node.replicas],
        "seen": manifest_sources.seen(node.seen, node.smoke, wanted["libraries"]),
    }
    secrets = [secret.reveal().decode("utf-8", "replace") for secret in node.secrets.values()]
    safe = redact(run_manifest.build(sources), secrets)
    return safe if isinstance(safe, dict) else {}


def asked(node: Node) -> dict[str, Any]:
    """What the inventory and this checkout ask of a node; replica 0 stands for the others."""
    spec = node.spec
    known = {
        "model": spec.model,
        "model_revision": spec.model_revision,
        "quantization": _quantization(node),
        "engine_id": engine_install.engine_id(node),
        "libraries": _libraries(node),
        "gateway": {"bind": spec.gateway_bind, "port": spec.gateway_port},
    }
    return known | _told(node)


def _told(node: Node) -> dict[str, Any]:
    """What the engine is told: configuration, arguments, environment."""
    if not node.replicas:
        return {key: {"unmeasured": "there is no layout"} for key in _TOLD}
    told = replica.settings(node, node.replicas[0])
    kind = engines.of(node.spec.engine)
    config = dict(kind.config(told))
    types = [value for key, value in config.items() if key.replace("_", "-") == "kv-cache-dtype"]
    return {
        "config": config,
        "argv": list(kind.argv(told)),
        "environment": replica.environment(node, told),
        "kv_dtype": types[0] if types else "auto",
    }


def _quantization(node: Node) -> object:
    known = shape.model_of(node.spec).dimensions
    return known.weights if known else {"unmeasured": "nothing is known of the model's size"}


def _libraries(node: Node) -> dict[str, str]:
    """Library versions by the hash-locked file that the engine was installed from."""
    if node.spec.engine.image:
        return {"unmeasured": "the engine is an image; what is in it was not read"}
    return libraries(engine_install.requirements(node).decode("utf-8", "replace"))
