"""What keeps a node from measuring itself, however idle it is: it is out, or somebody works on it.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from b200kit.node.serving.gateway.haproxy import GatewayServer
from b200kit.node.state.serving import Replica


@dataclass(frozen=True)
class Standing:
    """What lies on the node now, None where it does not; *servers*: the gateway's, or why not."""

    servers: Sequence[GatewayServer] | str
    quarantine: object = None
    drained: object = None
    lock: object = None
    rolling_restart: object = None


def hindrance(standing: Standing, replicas: Sequence[Replica]) -> str:
    """Why nothing is measured now; empty where nothing keeps it from that."""
    if standing.quarantine is not None:
        return "the node is out of service"
    if standing.drained is not None:
        return "the node is drained"
    if standing.lock is not None:
        return "a run works on the node"
    if standing.rolling_restart is not None:
        return "a rolling restart is under way"
    if isinstance(standing.servers, str):
        return standing.servers
    return _out(standing.servers, replicas)


def _out(servers: Sequence[GatewayServer], replicas: Sequence[Replica]) -> str:
    """Which replica takes no requests: all of them are measured, or none."""
    known = {server.name: server for server in servers}
    for replica in replicas:
        name = f"vllm{replica.index}"
        if name not in known:
            return f"the gateway has no {name}"
        if not known[name].takes_requests:
            return f"{name} takes no requests: {known[name].status}"
    return "" if replicas else "no replica answers here"
