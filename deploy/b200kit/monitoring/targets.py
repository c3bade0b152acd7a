"""Prometheus' targets of an inventory's nodes, in the form of file_sd and http_sd. Pure.

Source of the form and of the labels that begin with "__": prometheus.io/docs/prometheus/latest,
http_sd and configuration (quoted). Job, path and scheme are labels of a target, so that one scrape
configuration takes them all.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_DCGM_EXPORTER = 9400
"""Where NVIDIA's dcgm-exporter listens by default; it is not ours to install."""


@dataclass(frozen=True)
class MonitoredNode:
    """A node as a Prometheus sees it; *port* None: it offers no metrics."""

    name: str
    address: str
    role: str
    groups: tuple[str, ...] = ()
    port: int | None = None
    secure: bool = False
    replicas: int = 0
    node_exporter: int | None = None
    dcgm: bool = False


def targets(members: Sequence[MonitoredNode]) -> list[dict[str, Any]]:
    """Target groups, one a source of metrics, in the inventory's order."""
    return [group for one in members if one.port for group in _of(one)]


def _of(one: MonitoredNode) -> Iterator[dict[str, Any]]:
    scheme = "https" if one.secure else "http"
    own: list[tuple[str, str, dict[str, str]]] = [
        ("b200", "/metrics", {}),
        ("b200-haproxy", "/metrics/haproxy", {}),
    ]
    numbers = map(str, range(one.replicas))
    own += [("b200-engine", f"/metrics/replica/{n}", {"replica": n}) for n in numbers]
    for job, path, labels in own:
        yield _group(one, one.port, job, {"__metrics_path__": path, "__scheme__": scheme, **labels})
    if one.node_exporter:
        yield _group(one, one.node_exporter, "node", {})
    if one.dcgm:
        yield _group(one, _DCGM_EXPORTER, "dcgm", {})


def _group(
    one: MonitoredNode, port: int | None, job: str, labels: dict[str, str]
) -> dict[str, Any]:
    host = f"[{one.address}]" if ":" in one.address else one.address
    named = {"job": job, "node": one.name, "role": one.role, "groups": ",".join(one.groups)}
    return {"targets": [f"{host}:{port}"], "labels": {**named, **labels}}


def unread(members: Sequence[MonitoredNode]) -> Iterator[str]:
    """Nodes that no Prometheus elsewhere will read, a line each."""
    for one in members:
        if not one.port and one.role != "member":
            yield f"{one.name}: the inventory has no `monitoring` for it"
        elif one.port and _is_loopback(one.address):
            yield f"{one.name}: gateway_bind is {one.address}: only the node itself reads it"


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
