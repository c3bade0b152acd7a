"""The monitoring keys: who may read a node's metrics, and where. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from pydantic import Field

from b200kit.inventory.keys.parts import Firewall
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.types import Keys, Listed, Network, Port, is_everybody


class Monitoring(Keys):
    """An endpoint for a Prometheus, on gateway_bind: the node's, the gateway's and each replica's
    metrics."""

    sources: Listed[Network] = Field(alias="from")
    """who may read them, addresses and networks: ["10.0.9.5"]"""
    port: Port = 9464
    """port of the endpoint"""
    node_exporter: Port | None = None
    """port, on gateway_bind, of the distribution's node_exporter, which then is installed; it has
    the node's metrics, too, and no list of sources of its own: the firewall has; None: not
    installed"""
    tolerance: float = Field(0.1, ge=0.01, le=10)
    """share above the node's own record beyond which a latency is reported"""

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port that it opens."""
        return tuple(port for port in (self.port, self.node_exporter) if port)


def problems(monitoring: Monitoring, firewall: Firewall | None, bind: str) -> Iterator[Problem]:
    """Nobody named, or everybody; an exporter without any guard."""
    if not monitoring.sources:
        yield Problem("monitoring.from", "nobody is named; name the address of your Prometheus")
    if is_everybody(monitoring.sources):
        message = "is everybody; name the addresses that may read the metrics"
        yield Problem("monitoring.from", message)
    public = not ipaddress.ip_address(bind).is_loopback
    if monitoring.node_exporter and firewall is None and public:
        yield Problem(
            "monitoring.node_exporter",
            "anybody could read it: it has no list of sources, and the node no firewall by this "
            "inventory. Give a firewall, or leave it out: monitoring.port has one",
        )
