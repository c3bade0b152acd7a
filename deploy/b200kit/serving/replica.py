"""One replica on a node, whatever runs it: what its engine is given, and what is pinned.

Dense models run as independent instances, one unit a replica: each has its own restart, logs, NUMA
node and failure domain (vLLM refuses external data parallelism for dense models). All that tells
one replica from another lies in files of its own, so a change of one flag restarts one replica.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from b200kit import engines
from b200kit.engines import Settings
from b200kit.inventory import group, shape
from b200kit.inventory.keys.driver_version import branch
from b200kit.inventory.spec import NodeSpec
from b200kit.node.placement import numa_policy
from b200kit.node.placement.layout import Replica
from b200kit.node.placement.numa_policy import Pinning
from b200kit.node.serving import compile_cache
from b200kit.node.state import engine_probe
from b200kit.node.state.drift import File
from b200kit.run.node import Node
from b200kit.run.remote import INSTALLED
from b200kit.run.render import render
from b200kit.serving import compile_tools, engine_install

FORBIDDEN = {
    "VLLM_TORCH_PROFILER_DIR": "it opens /start_profile to everybody",
    "HF_TOKEN": "a serving replica is offline and has no use for a token",
}
"""Variable to why, besides what the engine's own list has."""


def forbidden_variables(refused: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """Variables that no replica starts with, whoever put them into its environment, each with why.

    The inventory is checked before (b200kit/inventory/engine_rules.py); this is the second line, on
    the node: a drop-in of `systemctl edit`, an image's own environment. *refused* is an engine's
    list of flags and variables; *own* are the variables that the kit itself gives the engine.
    """
    listed = {name: why for name, why in refused.items() if name.isupper()}
    return {name: why for name, why in {**FORBIDDEN, **listed}.items() if name not in own}


def compile_facts(
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


SERVING = "/etc/b200kit/serving.json"
SECRETS = "/etc/b200kit/secrets"
LAUNCHER = "/usr/local/lib/b200kit/serve"
LOOPBACK = "127.0.0.1"
PROBE = "B200KIT_PROBE"
"""Variable with what the launcher's probe is asked about."""


def unit_name(number: int) -> str:
    """The unit of a replica."""
    return f"vllm@{number}.service"


def model_dir(node: Node) -> str:
    """Where the model lies on the node."""
    return f"{node.spec.models()}/{node.spec.model}/{node.spec.model_revision}"


def flags(spec: NodeSpec, number: int) -> dict[str, Any]:
    """Extra flags of a replica: the catalogue's, the inventory's, those of this replica alone."""
    own = dict(spec.replica_flags).get(str(number), ())
    return shape.flags_of(spec) | dict(own)


def pinned(node: Node, replica: Replica) -> Pinning:
    """Who pins a replica, and to what, by the last observation."""
    binds, state = engines.get(node.spec.engine).binds_numa, node.state or node.record.state or {}
    return numa_policy.of(replica, node.spec.numa_policy, state, binds)


def settings(node: Node, replica: Replica) -> Settings:
    """Everything the engine of a replica is given."""
    spec, own, pins = node.spec, flags(node.spec, replica.replica), pinned(node, replica)
    key = compile_cache.key(compile_facts(spec, engine_install.engine_id(node), own, replica))
    return Settings(
        model_dir=model_dir(node),
        served_name=spec.model,
        replica=replica,
        host=LOOPBACK,
        port=replica.port,
        max_model_len=spec.max_model_len,
        max_num_seqs=replica.max_num_seqs or spec.max_num_seqs,
        max_num_batched_tokens=replica.max_num_batched_tokens or spec.max_num_batched_tokens,
        kind=spec.engine.kind,
        numa_bind=pins.gpu_nodes,
        numa_bind_cpus=pins.gpu_cpus,
        flags=own,
        stop_grace_s=spec.stop_grace_s,
        group=group.part(spec.group, node.name),
        cache_dir=f"/var/cache/vllm/{replica.replica}/{key}",
        ready_s=spec.warm_deadline_s,
    )


def environment(node: Node, given: Settings) -> dict[str, str]:
    """The engine's environment; the inventory's stands above it. It holds no secret."""
    spec = node.spec
    values = engines.get(spec.engine).environment(given)
    values |= compile_cache.environment(given.cache)
    if not spec.engine.image:
        directory, lock = engine_install.engine_dir(node), engine_install.requirements(node)
        values |= compile_tools.environment(spec, directory, lock)
    return values | dict(spec.engine.environment) | {PROBE: _probe(given)}


def _probe(given: Settings) -> str:
    """What the probe must find: this node's ranks, where they meet, and what they compute on."""
    ranks = given.shape.tp * given.shape.pp * given.shape.dp
    address = given.group.address if given.group else LOOPBACK
    number = given.replica.replica
    return f"--replica {number} --kind {given.kind} --ranks {ranks} --address {address}"


def configuration(node: Node, given: Settings) -> File:
    """What the engine reads: flat YAML in its own order; a JSON scalar is a YAML scalar."""
    replica = given.replica
    gpus = ", ".join(map(str, replica.gpus))
    head = f"# Managed by b200kit. Replica {replica.replica} on GPUs {gpus}.\n"
    config = engines.get(node.spec.engine).config(given)
    lines = "".join(f"{name}: {json.dumps(value)}\n" for name, value in config.items())
    return File(given.config_path, (head + lines).encode(), notify=(restart(replica.replica),))


def restart(number: int) -> str:
    """The handler that a change of a replica's own files notifies."""
    return f"restart:{unit_name(number)}"


def launcher(node: Node, layout: Sequence[Replica], restarts: tuple[str, ...]) -> File:
    """What starts the engine of every replica."""
    kind = engines.get(node.spec.engine)
    own = {name for r in layout for name in kind.environment(settings(node, r))}
    refused = forbidden_variables(kind.refused, own)
    text = render(
        "serving/serve.sh.j2",
        key_variable=kind.key_variable,
        refused=refused,
        program=INSTALLED,
        probe_variable=PROBE,
        probe_failed=engine_probe.FAILED,
    )
    return File(LAUNCHER, text, 0o755, notify=restarts)


def placement(node: Node, layout: Sequence[Replica]) -> dict[str, dict[str, Any]]:
    """What the placement of running replicas is judged by, by unit."""
    return {
        unit_name(replica.replica): {
            **pinned(node, replica).expected(),
            "gpus": list(replica.uuids),
        }
        for replica in layout
    }
