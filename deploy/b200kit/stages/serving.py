"""Serving: engine, model, and a hardened, pinned systemd unit a replica. Starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from b200kit.catalog import load
from b200kit.converge.stage import Change, DesiredState, Stage, converge, removal, shell
from b200kit.inventory.secrets import NAMES
from b200kit.node.lib import cpulist, documents
from b200kit.node.lib.certificates import Kind
from b200kit.node.placement import layout as layouts
from b200kit.node.placement.layout import Replica
from b200kit.node.serving.gateway import haproxy
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit
from b200kit.node.state.serving import Objective, Serving, SmokePlan
from b200kit.node.state.serving import ServedReplica as ServedReplica
from b200kit.run.node import Node
from b200kit.run.render import render
from b200kit.serving import (
    engine_install,
    gpu_reassignment,
    group_peers,
    quadlet,
    replica,
    smoke_prompts,
    systemd_units,
    warm_requests,
)
from b200kit.serving.engine_install import engine_dir, engine_id
from b200kit.serving.gateway import haproxy_config
from b200kit.serving.replica import SECRETS, SERVING, model_dir
from b200kit.stages import golden, weights

__all__ = ["SECRETS", "SERVING", "STAGE", "TARGET", "engine_dir", "engine_id", "model_dir"]

TARGET = "vllm.target"
EXPECT = "/etc/b200kit/expect-serving.json"
"""What a health check judges besides the gate's expectation; it is read anew each time."""
ROOM = ("/", "/var")
LEAST_MIB = 1024
"""MiB that must be free there. Ours: a replica's compile cache, or an hour of a busy journal."""
_FORMS = (systemd_units, quadlet)


def replica_units(node: Node) -> list[str]:
    """Unit names of the node's replicas, in replica order."""
    return [replica.unit_name(number) for number in range(node.spec.replicas)]


def surplus_units(node: Node) -> list[str]:
    """Replicas beyond those asked for that an earlier run may have made on this hardware."""
    most = load.load().hardware[node.spec.hardware].gpu_count
    return [replica.unit_name(number) for number in range(node.spec.replicas, most)]


def _paths_of(unit: str) -> tuple[str, ...]:
    """All that a replica may have, in whatever form."""
    number = int(unit.removeprefix("vllm@").removesuffix(".service"))
    return (f"/etc/vllm/replica-{number}.yaml", *(p for f in _FORMS for p in f.paths(number)))


def _form(node: Node) -> ModuleType:
    """What runs the replicas: systemd itself, or podman."""
    return quadlet if node.spec.engine.image else systemd_units


def _of_other_form(node: Node) -> tuple[str, ...]:
    """Files of the form that is not asked for: systemd would take its own for podman's."""
    return tuple(
        path
        for form in _FORMS
        if form is not _form(node)
        for path in (*form.SHARED, *(p for n in range(node.spec.replicas) for p in form.paths(n)))
    )


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """Units, configuration and secrets of every replica."""
    files = [
        *_secret_files(node),
        *engine_install.files(node),
        File("/etc/sysusers.d/vllm.conf", render("serving/sysusers.conf.j2"), notify=("sysusers",)),
        File(f"/etc/systemd/system/{TARGET}", render("systemd/vllm.target.j2", layout=layout)),
        replica.launcher(node, layout, _restarts(node)),
        *_form(node).shared_files(node, _restarts(node)),
        File(SERVING, documents.to_bytes(serving_document(node, layout))),
        # With the pins of the units, whose restarts are pending until a replica has them.
        File(EXPECT, _expectation(node, layout)),
        *warm_requests.files(node),
        *smoke_prompts.files(node),
        *group_peers.files(node, SERVING),
    ]
    for planned in layout:
        files.append(replica.configuration(node, replica.settings(node, planned)))
        files += _form(node).own_files(node, planned)
    return DesiredState(
        files=tuple(files),
        units=(NodeUnit(TARGET, active=False),),
        probe_files=(engine_install.stamp(node),),
        observe_request=_certificates(node),
        absent_files=(
            *_of_other_form(node),
            *smoke_prompts.absent_files(node),
            *(path for unit in surplus_units(node) for path in _paths_of(unit)),
        ),
        absent_units=tuple(surplus_units(node)),
    )


def expected(node: Node) -> dict[str, Any]:
    """What is judged of a node because it serves: all of it runs, and can go on doing so."""
    gateway = {} if node.headless else {"gateway": haproxy.UNIT}
    room = dict.fromkeys(ROOM, LEAST_MIB)
    serving = {"replicas": replica_units(node), **gateway}
    return {"serving": serving, "room": room, **_certificates(node)}


def _certificates(node: Node) -> dict[str, dict[str, Kind]]:
    """What is asked of those that lie on the node: the gateway's and the fleet's."""
    spec, paths = node.spec, haproxy_config.PATHS
    laid: tuple[tuple[object, str, Kind], ...] = (
        (spec.gateway.certificate, paths.public, "chain"),
        (spec.fleet and spec.fleet.ca_file, paths.nodes, "authorities"),
    )
    found = {path: kind for is_there, path, kind in laid if is_there and not node.headless}
    return {"certificates": found} if found else {}


def _expectation(node: Node, layout: Sequence[Replica]) -> bytes:
    known = {"placement": replica.placement(node, layout), **expected(node)}
    return documents.to_bytes(known)


def _restarts(node: Node) -> tuple[str, ...]:
    return tuple(f"restart:{unit}" for unit in replica_units(node))


def _secret_files(node: Node) -> list[File]:
    restarts = {"api_key": _restarts(node)}
    return [
        File(
            f"{SECRETS}/{name}",
            secret.reveal(),
            0o600,
            secret=True,
            notify=restarts.get(name, ()),
        )
        for name, secret in sorted(node.secrets.items())
        if name in NAMES and name != weights.TOKEN_NAME
    ]


def _surplus(node: Node) -> list[Change]:
    """Replicas that are not asked for any more give their GPUs back before the others take them."""
    state = node.state or {}
    left = [
        unit
        for unit in surplus_units(node)
        if any(drift.is_present(path, state) for path in _paths_of(unit))
    ]
    # The files go last: while they are there, the next run knows that the unit must go.
    steps = {unit: f"systemctl stop {unit} && rm -f {' '.join(_paths_of(unit))}" for unit in left}
    return [Change(f"remove {unit}", shell(steps[unit]), ends=(unit,)) for unit in left]


def _other_form(node: Node) -> list[Change]:
    """Replicas of the form that is not asked for any more end before their files do."""
    left = [path for path in _of_other_form(node) if drift.is_present(path, node.state or {})]
    if not left:
        return []
    units = replica_units(node)
    steps = f"systemctl stop {' '.join(units)} && rm -f {' '.join(left)} && systemctl daemon-reload"
    return [Change("end the replicas of the other form", shell(steps), ends=tuple(units))]


def _left_over(node: Node, layout: Sequence[Replica]) -> str | None:
    """CPUs for the latency client that neither replicas nor gateway have; None where none are."""
    free = cpulist.parse(layouts.reserved(node.state, layout) if node.state else "")
    gateway = cpulist.parse(node.spec.gateway.cpus or "")
    return cpulist.format({*free} - {*gateway}) or None


def serving_document(node: Node, layout: Sequence[Replica]) -> Serving:
    """What the node program needs to know of what the node serves."""
    spec, smoke = node.spec, node.spec.smoke
    prompts, prompts_name = smoke_prompts.on_node(node)
    return Serving(
        model=spec.model,
        engine=engine_install.described(spec.engine, layout),
        stand_in=spec.engine.kind == "stand-in",
        group=group_peers.members(node),
        gateway=haproxy_config.address(spec),
        gateway_trust=haproxy_config.PATHS.public if spec.gateway.certificate else None,
        rolling_restart=haproxy_config.rolling_restart(spec),
        api_key_file=f"{SECRETS}/api_key" if "api_key" in node.secrets else None,
        replicas=tuple(
            ServedReplica(
                planned.replica,
                f"http://{replica.LOOPBACK}:{planned.port}",
                replica.unit_name(planned.replica),
                tuple(planned.uuids),
            )
            for planned in layout
        ),
        max_num_seqs=spec.max_num_seqs,
        max_model_len=spec.max_model_len,
        max_num_batched_tokens=spec.max_num_batched_tokens,
        client_cpus=spec.client_cpus or _left_over(node, layout),
        warm=warm_requests.warm(node),
        watchdog=warm_requests.watchdog(node),
        golden_for=golden.holds_for(node, layout),
        smoke=SmokePlan(
            requests=smoke.requests,
            rate=smoke.rate,
            input_tokens=smoke.input_tokens,
            output_tokens=smoke.output_tokens,
            prompts=prompts,
            prompts_name=prompts_name,
            direct_requests=smoke.direct_requests,
            replica_slowdown=smoke.replica_slowdown,
            stall_ms=smoke.stall_ms,
            golden_tokens=smoke.golden_tokens,
            golden_tolerance=smoke.golden_tolerance,
            loop_lag_ms=smoke.loop_lag_ms,
            cpu_wait_limit_factor=spec.cpu_wait_limit_factor,
            goodput=Objective(smoke.ttft_ms, smoke.tpot_ms, share=smoke.share),
        ),
    )


def plan(node: Node) -> list[Change]:
    """Files, then the engine; pending restarts are left to the warm-up stage.

    An image comes first: what runs stays as it is where it cannot be had, and no unit names one
    that is not there.
    """
    target = desired(node, node.layout())
    changes = [*gpu_reassignment.plan(node), *_surplus(node), *_other_form(node)]
    changes += removal(node, DesiredState(absent_files=smoke_prompts.absent_files(node)))
    changes += [c for c in converge(node, target) if not c.what.startswith("restart ")]
    engine = _engine(node)
    return [*engine, *changes] if node.spec.engine.image else [*changes, *engine]


def _engine(node: Node) -> list[Change]:
    if drift.is_present(engine_install.stamp(node), node.state or {}):
        return []
    message = engine_install.described(node.spec.engine)
    return [Change(f"install the engine, {message}", engine_install.install)]


STAGE = Stage(name="serving", desired=desired, plan=plan)
