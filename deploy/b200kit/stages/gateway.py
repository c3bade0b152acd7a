"""Gateway: HAProxy as the one endpoint, least connections, chunks passed on without delay.

`option http-no-delay` is not a detail: without it HAProxy merges the chunks of a stream, and a
20 ms TTFT was measured as 194 ms. It comes after the warm-up, in the pipeline and at boot: /health
of a replica answers before it is warm, so a gateway that ran already would send clients too early.
For the same reason a replica is out of rotation from its stop until it is warm again (ROTATION).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from b200kit import engines
from b200kit.converge.stage import Change, DesiredState, Stage, converge, removal
from b200kit.inventory.keys.fleet import Fleet
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import cpulist
from b200kit.node.lib.error_line import cause
from b200kit.node.placement import layout as layouts
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit, Package
from b200kit.run.node import Node, StageFailed
from b200kit.run.render import render
from b200kit.serving.gateway import haproxy_config, vllm_router
from b200kit.serving.gateway.haproxy_config import PATHS, BackendServer, GatewayEndpoint, Paths
from b200kit.stages import serving

UNIT = "haproxy.service"
RELOAD = f"reload:{UNIT}"
ROTATION = "/etc/systemd/system/vllm@.service.d/gateway.conf"
TRIAL = "/run/b200kit/gateway-trial"


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """HAProxy with our configuration, running; nothing where no replica answers requests."""
    if node.headless:
        return DesiredState()
    cpus = _cpus(node, layout)
    files = (
        *_configuration(node, layout, PATHS),
        File(
            f"/etc/systemd/system/{UNIT}.d/b200kit.conf",
            render(
                "systemd/gateway.conf.j2",
                cpus=cpus,
                stop_grace_s=node.spec.stop_grace_s,
                router=node.spec.gateway.router,
            ),
            notify=("daemon-reload",),
        ),
        # Nothing is restarted for it: it is for the next stop and start of a replica.
        File(ROTATION, render("systemd/rotation.conf.j2"), notify=("daemon-reload",)),
        *vllm_router.files(node, layout, cpus),
    )
    kept = {file.path for file in files}
    return DesiredState(
        # The package must be there before its configuration: its own would be kept otherwise.
        packages=(Package("haproxy"),),
        files=files,
        # The target orders the gateway's stop before theirs, while it is active; a stop of the
        # gate ends it. Here all replicas run.
        units=(NodeUnit(serving.TARGET), NodeUnit(UNIT), *vllm_router.units(node)),
        probe_files=vllm_router.stamps(node),
        absent_files=tuple(path for path in PATHS.optional if path not in kept),
    )


def _configuration(node: Node, layout: Sequence[Replica], paths: Paths) -> list[File]:
    """What HAProxy reads: the configuration first, then what of it is secret."""
    spec = node.spec
    endpoints = [_own(spec, layout)]
    found: list[File] = []
    if spec.fleet:
        endpoints.append(_fleet(spec, spec.fleet, paths))
        if spec.fleet.ca_file:
            trust = Path(spec.fleet.ca_file).read_bytes()
            found.append(File(paths.nodes, trust, notify=(RELOAD,)))
    asked = (spec.monitoring, spec.proof.asked_at)
    own = haproxy_config.files(spec.gateway, endpoints, node.secrets, paths, (RELOAD,), *asked)
    return [*own, *found]


def _own(spec: NodeSpec, layout: Sequence[Replica]) -> GatewayEndpoint:
    """The node's endpoint, before its replicas."""
    weights = spec.gateway.weights or (100,) * len(layout)
    servers = [
        BackendServer(f"vllm{replica.replica}", f"127.0.0.1:{replica.port}", weight)
        for replica, weight in zip(layout, weights, strict=False)
    ]
    health = engines.get(spec.engine).health
    bind, port = spec.gateway_bind, spec.gateway_port
    return GatewayEndpoint("endpoint", bind, port, "replicas", servers, health, spec.gateway.router)


def _fleet(spec: NodeSpec, fleet: Fleet, paths: Paths) -> GatewayEndpoint:
    """The fleet's endpoint, before the nodes' own; each is named by its certificate.

    A node's share is its own to say, by what it has proven; the floor of the rollout holds here,
    too.
    """
    tls = f" ssl verify required ca-file {paths.nodes} sni str({{0}}) verifyhost {{0}}"
    options = tls if fleet.ca_file else ""
    servers = [
        BackendServer(
            node.name,
            f"{node.address}:{node.port}",
            node.weight,
            options.format(node.name),
            node.share_port,
        )
        for node in fleet.nodes
    ]
    says = any(node.share_port for node in fleet.nodes)
    floor = spec.rollout.least(len(servers)) if says else 0
    return GatewayEndpoint(
        "fleet",
        spec.gateway_bind,
        fleet.port,
        "nodes",
        servers,
        floor=floor,
        refuses_by_503=engines.get(spec.engine).refuses_by_503,
    )


def _cpus(node: Node, layout: Sequence[Replica]) -> str:
    """CPUs of the gateway: the inventory's, else those that neither replicas nor client have."""
    if node.spec.gateway.cpus or not node.state:
        return node.spec.gateway.cpus or ""
    client = cpulist.parse(node.spec.client_cpus or "")
    free = cpulist.parse(layouts.reserved(node.state, layout))
    return cpulist.format(sorted({*free} - {*client}))


def plan(node: Node) -> list[Change]:
    """Bring the gateway to its configuration, which is tried before it takes the other's place."""
    target = desired(node, node.layout())
    changes = vllm_router.before_use(node, [_tried(change) for change in converge(node, target)])
    return [*changes, *removal(node, target)]


def _tried(change: Change) -> Change:
    """The same change; a new configuration is looked at by the node's HAProxy first."""
    if not change.what.startswith("write "):
        return change

    def apply(node: Node) -> str | None:
        _try(node)
        return change.apply(node)

    return replace(change, apply=apply)


def _try(node: Node) -> None:
    """Let HAProxy judge the new configuration beside the running one; none is there at first."""
    if "haproxy" not in drift.versions(node.state or {}):
        return
    trial = Paths.under(TRIAL)
    node.connected().put(
        [replace(f, notify=()) for f in _configuration(node, node.layout(), trial)]
    )
    judged = node.connected().attempt(
        f"haproxy -c -q -f {TRIAL}/haproxy.cfg; s=$?; rm -rf {TRIAL}; exit $s", timeout=30
    )
    if not judged.ok:
        raise StageFailed(f"the gateway's configuration is refused: {cause(judged.lines)}")


STAGE = Stage(name="gateway", desired=desired, plan=plan)
