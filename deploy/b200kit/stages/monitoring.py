"""Monitoring: what a node says of itself, its metrics to a Prometheus and its share to the fleet.

The endpoints themselves are the gateway's (templates/haproxy); here are the sockets behind them,
the one process without rights that answers there, and the distribution's node_exporter where it is
asked for. What the inventory no longer asks for is removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from b200kit.converge.stage import Change, DesiredState, Stage, converge, removal
from b200kit.node.placement.layout import Replica
from b200kit.node.state.agent import TEXTFILES
from b200kit.node.state.drift import File, NodeUnit, Package
from b200kit.run.node import Node
from b200kit.run.remote import INSTALLED
from b200kit.run.render import render
from b200kit.serving.gateway.haproxy_config import PATHS
from b200kit.stages import proof

SOCKET = "b200-status.socket"
ANSWER = "b200-status.service"
EXPORTER = "prometheus-node-exporter"
_ARGUMENTS = f"/etc/default/{EXPORTER}"
_PATHS = tuple(f"/etc/systemd/system/{unit}" for unit in (SOCKET, ANSWER))


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The sockets and their answers, and node_exporter; nothing where nobody may ask."""
    del layout
    asked = node.spec.monitoring
    shares = proof.is_issued(node) and node.spec.proof.asked_at
    sockets = [*([PATHS.metrics] if asked else []), *([PATHS.share] if shares else [])]
    if node.headless or not sockets:
        return DesiredState(absent_files=_PATHS)
    values = {"sockets": sockets, "program": INSTALLED, "spec": node.spec}
    files = [
        File(path, render(f"systemd/{unit}.j2", **values), notify=(f"restart:{SOCKET}",))
        for path, unit in zip(_PATHS, (SOCKET, ANSWER), strict=True)
    ]
    units, packages = [NodeUnit(SOCKET)], []
    if asked and (port := asked.node_exporter):
        files.append(_exporter(node.spec.gateway_bind, port))
        units.append(NodeUnit(f"{EXPORTER}.service"))
        packages.append(Package(EXPORTER))
    return DesiredState(tuple(files), tuple(packages), tuple(units))


def _exporter(bind: str, port: int) -> File:
    at = f"[{bind}]:{port}" if ":" in bind else f"{bind}:{port}"
    content = render("host/node-exporter.j2", address=at, textfiles=TEXTFILES)
    return File(_ARGUMENTS, content, notify=(f"restart:{EXPORTER}.service",))


def plan(node: Node) -> list[Change]:
    """Lay them down, or take them away."""
    target = desired(node, node.layout())
    return [*converge(node, target), *removal(node, target)]


STAGE = Stage(name="monitoring", desired=desired, plan=plan)
