"""Replicas as containers: one podman quadlet each, from the same data as the systemd services.

podman's generator makes `vllm@N.service` of `vllm@N.container` at every daemon-reload, so target,
gateway, watchdog and restarts know no difference. The image is named by its digest: a tag can come
to mean another image between two nodes, or between two restarts of one.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from b200kit import engines
from b200kit.node.placement.layout import Replica
from b200kit.node.state import engine_probe
from b200kit.node.state.drift import File
from b200kit.run.node import Node
from b200kit.run.remote import INSTALLED
from b200kit.run.render import render
from b200kit.serving import replica

_QUADLETS = "/etc/containers/systemd"
SHARED: tuple[str, ...] = ()
USER = 60900
"""Who the engine is in its container, and so on the node: nobody else (uid range: UIDS-GIDS.md of
systemd, 60578 to 61183 is unused)."""


def paths(number: int) -> tuple[str]:
    """The file of one replica."""
    return (f"{_QUADLETS}/{replica.unit_name(number).removesuffix('.service')}.container",)


def shared_files(node: Node, restarts: tuple[str, ...]) -> list[File]:
    """Nothing: each container says all of itself."""
    del node, restarts
    return []


def own_files(node: Node, planned: Replica) -> list[File]:
    """The container of one replica."""
    settings = replica.settings(node, planned)
    content = render(
        "systemd/vllm.container.j2",
        spec=node.spec,
        replica=planned,
        pinning=replica.pinned(node, planned),
        settings=settings,
        launcher=replica.LAUNCHER,
        argv=engines.get(node.spec.engine).argv(settings),
        environment=replica.environment(node, settings),
        cache=PurePosixPath(settings.cache),
        user=USER,
        serving=replica.SERVING,
        secrets=replica.SECRETS,
        has_key="api_key" in node.secrets,
        program=INSTALLED,
        probe_failed=engine_probe.FAILED,
    )
    restart = (replica.restart(planned.replica),)
    return [File(path, content, notify=restart) for path in paths(planned.replica)]
