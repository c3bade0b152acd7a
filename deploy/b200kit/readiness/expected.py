"""What a node must offer before its first change, from its inventory and its last observation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from b200kit.catalog import load
from b200kit.inventory import certificates, engine_rules
from b200kit.node.state import drift
from b200kit.node.state.expectation import PATH as EXPECT
from b200kit.run.node import Node
from b200kit.serving import engine_install
from b200kit.sizing import memory

# Bytes that an engine takes while it is installed: of vLLM 0.33.0's CUDA build, measured, 4.3 GB of
# wheels beside 10.2 GB unpacked and compiled, and some more; of its CPU build, inferred. A stand-in
# is a few files.
ENGINE_ROOM = {"cuda": 16_000_000_000, "cpu": 2_000_000_000}
# Of an unpacked image: inferred.
_IMAGE = {"cuda": 30_000_000_000, "cpu": 4_000_000_000}
ENGINES, IMAGES = PATHS = ("/opt/vllm", "/var/lib/containers")


def expected(node: Node, serves: bool) -> dict[str, Any]:
    """The part "ready" of an expectation; of a node that *serves* already, ports are its own."""
    state = node.state or {}
    headless = node.headless
    gateway = {} if headless else {str(node.spec.gateway_port): "the gateway"}
    replicas = {str(port): f"replica {n}" for n, port in enumerate(node.spec.ports())}
    return {
        "system": node.spec.system,
        "python": python(node),
        "driver": node.spec.driver,
        "ports": {} if serves else {**gateway, **replicas},
        "room": [*_engine(node, state), *_model(node, state)],
        "now": node.observed_at,
        "certificates": certificates.warnings(node.spec, node.secrets),
        "firewall": node.spec.firewall is not None,
        "deployed": drift.is_present(EXPECT, state),
    }


def python(node: Node) -> dict[str, Any] | None:
    """The versions of Python that the engine's lock is for; None where any will do."""
    engine = node.spec.engine
    if engine.image or engine.kind == "stand-in":
        return None
    found = engine_rules.python_of(Path(engine.requirements).read_text(errors="replace"))
    versions = [list(version) for version in found] if found else []
    return {"versions": versions, "lock": engine.requirements}


def _engine(node: Node, state: Mapping[str, Any]) -> Iterator[list[Any]]:
    engine = node.spec.engine
    need = (_IMAGE if engine.image else ENGINE_ROOM).get(engine.kind)
    if need and not drift.is_present(engine_install.stamp(node), state):
        yield [IMAGES if engine.image else ENGINES, need, f"the engine ({engine.kind})"]


def _model(node: Node, state: Mapping[str, Any]) -> Iterator[list[Any]]:
    """The checkpoint's weights; nothing of a model of unknown size, or where disks are to be made.

    A volume that b200kit makes does not exist yet; one that is there has its own check.
    """
    spec = node.spec
    model = load.load().models.get(spec.model)
    if spec.storage or model is None or model.dimensions is None or _complete(state):
        return
    size = memory.weights(model.dimensions, model.weights_bytes).total
    yield [spec.models(), int(size), f"the model {spec.model}"]


def _complete(state: Mapping[str, Any]) -> bool:
    weights = state.get("weights")
    model = weights.get("model") if isinstance(weights, Mapping) else None
    return isinstance(model, Mapping) and model.get("complete") is True
