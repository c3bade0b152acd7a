"""Replicas as systemd services: one hardened unit for all, and two drop-ins for each.

What is in a drop-in restarts its own replica alone; what is in the unit restarts them all.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from b200kit import engines
from b200kit.node.placement.layout import Replica
from b200kit.node.state import engine_probe
from b200kit.node.state.drift import File
from b200kit.run.node import Node
from b200kit.run.render import render
from b200kit.serving import engine_install, replica
from b200kit.serving.group_peers import UNIT as PEERS

_UNITS = "/etc/systemd/system"
SHARED = (f"{_UNITS}/vllm@.service",)


def paths(number: int) -> tuple[str, str]:
    """The files of one replica: how it is started, and what pins it."""
    drop_ins = f"{_UNITS}/{replica.unit_name(number)}.d"
    return f"{drop_ins}/replica.conf", f"{drop_ins}/pinning.conf"


def shared_files(node: Node, restarts: tuple[str, ...]) -> list[File]:
    """The unit of all replicas."""
    unit = render(
        "systemd/vllm@.service.j2",
        spec=node.spec,
        serving=replica.SERVING,
        secrets=replica.SECRETS,
        has_key="api_key" in node.secrets,
        probe_failed=engine_probe.FAILED,
    )
    return [File(path, unit, notify=restarts) for path in SHARED]


def own_files(node: Node, planned: Replica) -> list[File]:
    """How one replica is started, and what pins it."""
    settings = replica.settings(node, planned)
    program, *arguments = engines.get(node.spec.engine).argv(settings)
    start = render(
        "systemd/replica.conf.j2",
        replica=planned,
        launcher=replica.LAUNCHER,
        argv=(f"{engine_install.engine_dir(node)}/bin/{program}", *arguments),
        environment=replica.environment(node, settings),
        cache=PurePosixPath(settings.cache),
        group=settings.group,
        peers=PEERS,
        deadline_s=node.spec.warm_deadline_s,
    )
    pins = render("systemd/pinning.conf.j2", replica=planned, pinning=replica.pinned(node, planned))
    restart = (replica.restart(planned.replica),)
    return [
        File(path, content, notify=restart)
        for path, content in zip(paths(planned.replica), (start, pins), strict=True)
    ]
