"""The nodes of an inventory as a Prometheus sees them; nothing is connected to."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from b200kit.inventory import group
from b200kit.inventory.spec import NodeSpec
from b200kit.monitoring.targets import MonitoredNode
from b200kit.operations import inventory_process, preflight
from b200kit.operations.inventory_process import InventoryRefused, asked

if TYPE_CHECKING:
    from pyinfra.api.host import Host


@asked
def members(path: Path) -> list[MonitoredNode]:
    """Every node, in the inventory's order. Raises InventoryRefused."""
    found = [(host, preflight.parsed(host, {})) for host in inventory_process.hosts(path)]
    problems = [
        f"{path}: {host.name}: {each.key}: {each.message}"
        for host, spec in found
        if isinstance(spec, list)
        for each in spec
    ]
    if problems:
        raise InventoryRefused(problems)
    return [_member(host, spec) for host, spec in found if isinstance(spec, NodeSpec)]


def _member(host: Host, spec: NodeSpec) -> MonitoredNode:
    monitoring, role = spec.monitoring, _role(spec, host.name)
    offered = monitoring if role != "member" else None
    return MonitoredNode(
        name=host.name,
        address=_address(spec, host.name, host.data.dict()),
        role=role,
        groups=tuple(sorted(host.groups)),
        port=offered.port if offered else None,
        secure=spec.gateway.certificate is not None,
        replicas=spec.replicas,
        node_exporter=offered.node_exporter if offered else None,
        dcgm=bool(spec.dcgm),
    )


def _role(spec: NodeSpec, name: str) -> str:
    """A member of a group that works for its head has no endpoint."""
    if group.headless(spec, name):
        return "member"
    return "head" if spec.group else "node"


def _address(spec: NodeSpec, name: str, data: Mapping[str, Any]) -> str:
    """Where the gateway listens; where SSH goes, if that is everywhere."""
    if not ipaddress.ip_address(spec.gateway_bind).is_unspecified:
        return spec.gateway_bind
    return str(spec.fleet_address or data.get("ssh_hostname") or name)
