"""Container runtimes of a node: bring what is missing, switch CDI on, restart what must be.

A runtime that is there, whoever brought it, is kept; only where none is, the distribution's own
package is installed. Configuration files are the owner's: nvidia-ctk changes containerd's, and the
node program docker's (b200kit/node/host/docker_cdi.py says why).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress

from b200kit.converge import apt
from b200kit.converge.stage import Change, install, why
from b200kit.node.facts.cdi_support import RUNTIMES, at_risk, numbers, runtime_fault, too_old
from b200kit.node.state import drift
from b200kit.node.state.drift import Package
from b200kit.node.state.view import StateView, Unread
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError, program_step

# Quadlets came with podman 4.4, the keys ours have with 4.7 (Ulimit, PidsLimit, ShmSize).
_QUADLETS = (4, 7)
_CONFIG, _DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml"
_FILES = {"docker": "/etc/docker/daemon.json", "containerd": _DROP_IN}
_KEPT = "/var/lib/b200kit/backup/etc-containerd-config.toml"
# It copies the CRI plugin's section into the drop-in, since containerd before 2.1 replaces a
# section by an imported one (containerd#5837), and adds the import to the owner's file.
_CONTAINERD = (
    f"mkdir -p {_KEPT.rpartition('/')[0]} && "
    f"{{ test ! -e {_CONFIG} || test -e {_KEPT} || cp -p {_CONFIG} {_KEPT}; }} && "
    "nvidia-ctk --quiet runtime configure --runtime=containerd --cdi.enabled && "
    "{ containerd config dump | grep -q '^ *enable_cdi = true' || { "
    f"echo 'CDI is off in `containerd config dump` after nvidia-ctk; if {_CONFIG} is of version 1: "
    "containerd config migrate' >&2; false; }; }"
)


def restart(name: str) -> str:
    """The handler that a change of a runtime's configuration notifies."""
    return f"restart:{RUNTIMES[name].unit or name}"


def unfit(node: Node, name: str, version: str) -> str | None:
    """Why a version of a runtime cannot do what this node is to do; None when it can."""
    if name == "podman" and node.spec.engine.image and numbers(version) < _QUADLETS:
        return f"podman {version} cannot run engine.image; it needs 4.7 or newer"
    return too_old(name, version)


def refusal(node: Node, name: str, state: StateView) -> str | None:
    """Why a run must not touch this node's runtime, in one line; None when it may."""
    if state.is_null("containers", name):
        return None
    try:
        version, fault = state.text("containers", name, "version"), runtime_fault(name, state)
    except Unread as error:
        reason = error.reason.removeprefix("ValueError: ").removeprefix("OSError: ")
        return f"{name}: {reason}; repair it, nothing was changed"
    if unable := unfit(node, name, version):
        return f"{unable}; install a newer one, nothing was changed"
    if name == "containerd" and state.is_null("containers", name, "config"):
        return f"{name}: {fault}; take it out of there, nothing was changed"
    return None


def warnings(node: Node) -> list[str]:
    """What a person must know before this run reloads systemd for the first time."""
    if "docker" not in node.spec.container_runtimes:
        return []
    with suppress(Unread):
        return [
            f"the daemon-reload of a run takes the GPUs from container {name}: it got them by "
            f"{how}, not by CDI"
            for name, how in at_risk(StateView(node.state or {})).items()
        ]
    return []


def install_change(name: str) -> Change:
    """Bring a runtime that is not there, unless what apt offers is too old for CDI."""

    def act(node: Node) -> str:
        package = _new_enough(node, name)
        extra = [Package("docker-cli", optional=True)] if package == "docker.io" else []
        install(node, [Package(package), *extra])
        return f"{package} installed"

    return Change(f"install {name}: there is none", act)


def _new_enough(node: Node, name: str) -> str:
    """The package to install, before anything is: Debian 12's docker.io is 20.10, Ubuntu 22.04's
    podman 3.4. docker.io would remove a containerd.io that is there; docker-ce goes with it.
    """
    package = RUNTIMES[name].package
    also = ("docker-ce", "containerd.io") if name == "docker" else ()
    offered, there = apt.offered(node, package, *also)
    package = "docker-ce" if "containerd.io" in there else package
    if not offered.get(package):
        raise RemoteError(f"apt has no {package}; install {name} yourself, or add a repository")
    if unable := unfit(node, name, offered[package][0]):
        raise RemoteError(f"apt offers {package}, and {unable}; add a repository that has it")
    return package


def changes(node: Node, state: StateView) -> list[Change]:
    """CDI on in every runtime that has it off, and restarts that an earlier run left pending."""
    found = []
    for name in node.spec.container_runtimes:
        pending = drift.is_present(drift.pending_marker(restart(name)), node.state or {})
        if name in _FILES and runtime_fault(name, state):
            what = f"switch CDI on in {_FILES[name]} and restart {name}{stops(name, state)}"
            found.append(Change(what, _switch(name, stops(name, state))))
        elif name in _FILES and pending:
            found.append(Change(f"restart {name}{stops(name, state)}", _restart(name)))
    return found


def stops(name: str, state: StateView) -> str:
    """What a restart costs, for the line that announces it; "" when nothing.

    containerd's containers outlive it; docker's do only with live-restore.
    """
    if name != "docker" or state.known(bool, "containers", name, "daemon", "live_restore"):
        return ""
    running = sorted(state.known(dict, "containers", name, "running") or {})
    count = f"{len(running)} running container{'s' if len(running) != 1 else ''}"
    return f", which stops {count}: {', '.join(running)}" if running else ""


def _switch(name: str, cost: str) -> Callable[[Node], None]:
    marker = shlex.quote(drift.pending_marker(restart(name)))

    def act(node: Node) -> None:
        if cost:
            node.say("containers", f"restarting {name}{cost}")
        change = program_step("docker-cdi") if name == "docker" else _CONTAINERD
        undo = f"{{ rm -f {marker}; false; }}"
        begin = f"mkdir -p {drift.PENDING} && touch {marker}"
        node.connected().run(f"{begin} && {{ {change} || {undo}; }}")
        _restart(name)(node)

    return act


def _restart(name: str) -> Callable[[Node], None]:
    """Restart the runtime: neither docker (SIGHUP) nor containerd takes CDI up by a reload."""
    unit = RUNTIMES[name].unit or name
    marker = shlex.quote(drift.pending_marker(restart(name)))

    def act(node: Node) -> None:
        try:
            # One that gave up restarting a broken configuration would refuse to start again.
            steps = f"systemctl restart {unit} && rm -f {marker}"
            node.connected().run(f"systemctl reset-failed {unit} 2>/dev/null; {steps}")
        except RemoteError as error:
            raise RemoteError(f"restart {name}: {error}; {why(node, unit)}") from None

    return act
