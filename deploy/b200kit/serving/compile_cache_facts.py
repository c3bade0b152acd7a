"""What a replica's compiled code depends on: the facts that name its cache. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from b200kit.inventory.keys.driver_version import branch
from b200kit.inventory.spec import NodeSpec
from b200kit.node.placement.layout import Replica


def facts(
    spec: NodeSpec, engine: str, flags: Mapping[str, Any], replica: Replica
) -> dict[str, Any]:
    """What compiled code depends on; not GPU, CPUs or port, so that replicas and nodes can share.

    *engine* names the engine's environment (the digest of its hash-locked requirements), *flags*
    are those of catalogue and inventory together.
    """
    return {
        "engine": engine,
        "image": spec.engine.image,
        "kind": spec.engine.kind,
        "version": spec.engine.version,
        "environment": dict(spec.engine.environment),
        "flags": dict(flags),
        "model": spec.model,
        "revision": spec.model_revision,
        "hardware": spec.hardware,
        "driver_branch": branch(spec.driver),
        "max_model_len": spec.max_model_len,
        "max_num_seqs": replica.max_num_seqs or spec.max_num_seqs,
        "max_num_batched_tokens": replica.max_num_batched_tokens or spec.max_num_batched_tokens,
        "parallel": {
            "tp": replica.tp,
            "pp": replica.pp,
            "dp": replica.dp,
            "ep": replica.ep,
            "gpus": len(replica.gpus),
            "nodes": (spec.group.join, len(spec.group.members)) if spec.group else None,
        },
    }
