"""One engine over several nodes: which nodes, how they are joined, what of that cannot be. Pure.

A group stands in the inventory once, the same for all its members; which rank a node has follows
from its name. The head has rank 0 and answers requests; the others work for it ("headless"), but
for `join = "data"`, where each node has requests of its own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from b200kit import engines
from b200kit.catalog.types import Catalogue
from b200kit.inventory.keys.group import Group
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.spec import NodeSpec

# Besides the fixed ports, ranks meet on ports that the kernel gives them (observed with ss, vLLM
# 0.32.0): net.ipv4.ip_local_port_range is this by default.
EPHEMERAL = "32768-60999"
# Members that differ in one of these would hang, or answer differently, instead of failing.
_ALIKE = (
    *("group", "model", "model_revision", "engine", "tensor_parallel", "data_parallel"),
    *("max_model_len", "max_num_seqs", "max_num_batched_tokens", "replica_flags", "numa_policy"),
    *("goal", "kv_cache_dtype"),
)


def part(group: Group | None, host: str) -> engines.EngineGroup | None:
    """The settings of a member; None for any other node. Ranks: the head, then by name."""
    addresses = dict(group.members) if group else {}
    if group is None or host not in addresses or group.head not in addresses:
        return None
    ranks = [group.head, *(name for name in sorted(addresses) if name != group.head)]
    return engines.EngineGroup(
        nnodes=len(ranks),
        node_rank=ranks.index(host),
        master_addr=addresses[group.head],
        master_port=group.port,
        address=addresses[host],
        interface=group.interface,
        peers=tuple(addresses[name] for name in ranks if name != host),
        join=group.join,
        rpc_port=group.rpc_port,
    )


def headless(spec: NodeSpec, host: str) -> bool:
    """Whether a node has no endpoint of its own, because it works for another."""
    member = part(spec.group, host)
    return member is not None and member.headless


def openings(group: Group | None, host: str) -> list[dict[str, Any]]:
    """What the firewall opens to the other members, as entries of `firewall`."""
    member = part(group, host)
    if member is None:
        return []
    own = [member.master_port, member.rpc_port] if member.join == "data" else [member.master_port]
    ports: list[int | str] = [*own, EPHEMERAL]
    return [
        {"protocol": "tcp", "port": port, "source": peer} for peer in member.peers for port in ports
    ]


def problems(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    """Faults of a group that one node's inventory shows."""
    group = spec.group
    if group is None:
        return
    members = dict(group.members)
    if len(members) < 2:
        yield Problem("group.members", "a group has at least two nodes")
    if group.head not in members:
        yield Problem("group.head", f'"{group.head}" is no member; there are {_names(members)}')
    yield from _addresses(members)
    kind = engines.get(spec.engine)
    if spec.engine.kind == "stand-in" or group.join not in kind.groups:
        have = ", ".join(kind.groups) if spec.engine.kind != "stand-in" else ""
        message = f"{kind.name} cannot be joined so by the kit; it can by {have or 'none'}"
        yield Problem("group.join", message)
    if spec.engine.image:
        yield Problem(
            "engine.image", "members of a group run as systemd services, not as containers"
        )
    if spec.replicas != 1:
        yield Problem("replicas", f"a member of a group has 1 replica, not {spec.replicas}")
    model = catalogue.models.get(spec.model)
    if group.join == "data" and model and model.dimensions and not model.dimensions.experts:
        message = f"{spec.model} has no experts: serve it on each node alone, behind one gateway"
        yield Problem("group.join", message)


def _addresses(members: Mapping[str, str]) -> Iterator[Problem]:
    given = list(members.values())
    for name, address in members.items():
        if ipaddress.ip_address(address).is_loopback:
            yield Problem(f"group.members.{name}", f"{address} is the node's own to every node")
        elif given.count(address) > 1:
            yield Problem(f"group.members.{name}", f"{address} is given twice")


def between(specs: Mapping[str, NodeSpec], host: str) -> Iterator[Problem]:
    """Faults of a node's group that only the whole inventory (name to spec) shows."""
    spec = specs[host]
    group = spec.group
    if group is None:
        return
    members = dict(group.members)
    if host not in members:
        yield Problem("group.members", f"this node is not among them: {_names(members)}")
    for name in members:
        other = specs.get(name)
        if other is None:
            yield Problem(f"group.members.{name}", "no such node in the inventory")
        elif other.group is None or other.group.name != group.name:
            yield Problem(f"group.members.{name}", f"its own group is not {group.name}")
        elif name == group.head:
            yield from _unlike(spec, other, name)


def _unlike(spec: NodeSpec, head: NodeSpec, name: str) -> Iterator[Problem]:
    for key in _ALIKE:
        if getattr(spec, key) != getattr(head, key):
            yield Problem(key, f"differs from {name}'s, the head of its group")


def _names(members: Mapping[str, str]) -> str:
    return ", ".join(members) or "none"
