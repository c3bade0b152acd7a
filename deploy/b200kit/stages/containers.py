"""Containers: NVIDIA's toolkit at one version, and CDI as the way to the GPUs in every runtime.

CDI rather than the legacy hook, because a `systemctl daemon-reload` takes the GPUs away from
containers started through the hook (nvidia-container-toolkit#48); this tool reloads systemd itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from b200kit.converge.stage import Change, DesiredState, Stage, converge, shell, why
from b200kit.node.facts import cdi_support
from b200kit.node.facts.cdi_support import REFRESH, RUNTIMES
from b200kit.node.facts.cdi_support import SPEC as CDI_SPEC
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit, Package
from b200kit.node.state.view import StateView
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.run.render import render
from b200kit.stages.support import container_runtimes

_BACKUPS = "/var/lib/b200kit/backup"
_PODMAN = "/etc/containers/containers.conf.d/60-b200kit.conf"
_PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The toolkit's four packages at one version, held; the runtimes asked for, enabled."""
    del layout
    version, requested = node.spec.container_toolkit, node.spec.container_runtimes
    units = [unit for name in requested if (unit := RUNTIMES[name].unit)]
    return DesiredState(
        files=(File(_PODMAN, render("containers/podman.conf.j2")),)
        if "podman" in requested
        else (),
        packages=tuple(Package(name, version, hold=True) for name in _PACKAGES),
        # A docker that does not run is restarted once its configuration is known to be sound.
        units=tuple(NodeUnit(unit, active=unit != "docker.service") for unit in units),
        probe_files=(
            CDI_SPEC,
            *(drift.pending_marker(container_runtimes.restart(name)) for name in requested),
        ),
        observe_request={"containers": list(requested)} if requested else {},
    )


def plan(node: Node) -> list[Change]:
    """Runtimes that are missing, the toolkit, CDI in each runtime, and a specification that fits.

    Raises StageFailed before anything is changed when a runtime cannot do what is asked.
    """
    if node.fabric_error:
        # Without a driver there is no device to specify; the gate must come to say so.
        return []
    state, requested = StateView(node.state or {}), node.spec.container_runtimes
    refused = [
        message for name in requested if (message := container_runtimes.refusal(node, name, state))
    ]
    if refused:
        raise StageFailed("; ".join(refused))
    missing = [name for name in requested if state.is_null("containers", name)]
    changes = [container_runtimes.install_change(name) for name in missing]
    changes += converge(node, desired(node, ()))
    stale = bool(changes) or _is_stale(node, state)
    changes += container_runtimes.changes(node, state)
    if stale:
        changes.append(Change("generate the CDI specification", _generate))
    return changes + [_removal(path) for path in cdi_support.leftovers(state)]


def _is_stale(node: Node, state: StateView) -> bool:
    """Whether the specification is missing or, where containers are asked for, does not fit."""
    if not drift.is_present(CDI_SPEC, node.state or {}):
        return True
    faults = cdi_support.cdi_faults(state) if node.spec.container_runtimes else ()
    return any(path == CDI_SPEC for path, _ in faults)


def _generate(node: Node) -> None:
    try:
        node.connected().run(f"systemctl restart {REFRESH} && test -s {CDI_SPEC}")
    except RemoteError as error:
        raise RemoteError(f"{CDI_SPEC}: {error}; {why(node, REFRESH)}") from None


def _removal(path: str) -> Change:
    """Put away a specification that nvidia-ctk made once and nobody refreshes."""
    kept = f"{_BACKUPS}/{path.strip('/').replace('/', '-')}"
    steps = f"mkdir -p {_BACKUPS} && mv -f {shlex.quote(path)} {shlex.quote(kept)}"
    what = f"move {path} to {kept}: an older specification that nothing refreshes"
    return Change(what, shell(steps))


STAGE = Stage(name="containers", desired=desired, plan=plan)
