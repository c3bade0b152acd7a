"""Container runtimes: which can give a container GPUs by CDI, and whether they do. Pure.

CDI became known to docker in 25.0, on by default in 28.2 (moby/moby#49963), to containerd in 1.7,
on by default in 2.0 (its internal/cri/config), to podman in 4.1 (docker/cli#3864). Everything here
takes the reading `containers` of a NodeState, names the first fault in it, and raises Unread where
what it needs is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from b200kit.node.lib.readings import is_digits
from b200kit.node.state.view import GpuView, StateView, Unread, View

SPEC = "/var/run/cdi/nvidia.yaml"
"""Where nvidia-cdi-refresh leaves its specification."""
KIND = "nvidia.com/gpu"
DYNAMIC = ("/var/run/cdi", "/run/cdi")
REFRESH = "nvidia-cdi-refresh.service"
"""It writes `SPEC` and no other file; /etc/cdi is what people and older toolkits wrote."""
GENERATORS = ("nvidia-cdi-hook", "nvidia-ctk")
"""Programs that a specification calls as hooks when nvidia-ctk made it."""


@dataclass(frozen=True)
class Runtime:
    """One runtime: the distribution's package, its unit, and the first version that knows CDI."""

    package: str
    unit: str | None
    first: tuple[int, ...]


RUNTIMES: Mapping[str, Runtime] = {
    "docker": Runtime("docker.io", "docker.service", (25,)),
    "containerd": Runtime("containerd", "containerd.service", (1, 7)),
    "podman": Runtime("podman", None, (4, 1)),
}
# From here on docker gives `--gpus` by CDI, too (moby/moby 86f122af27, first in 29.0).
_GPUS_BY_CDI = (29,)
# From here on the nvidia runtime makes a CDI specification of its own in mode "auto" (changelog).
_JIT_CDI = (1, 18)
# Before it systemd gets no rule for /dev/nvidia* (opencontainers/runc#3708).
_RUNC = (1, 1, 7)


def numbers(version: str) -> tuple[int, ...]:
    """Leading numbers of a version: "5:26.1.5+dfsg1-9" is (26, 1, 5)."""
    found = re.match(r"(?:[0-9]+:)?v?([0-9]+(?:\.[0-9]+)*)", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def too_old(name: str, version: str) -> str | None:
    """Why this version of a runtime cannot do what is asked; None when it can."""
    first = RUNTIMES[name].first
    if numbers(version) >= first:
        return None
    return f"{name} {version} knows no CDI; it needs {'.'.join(map(str, first))} or newer"


def runtime_fault(name: str, state: StateView) -> str | None:
    """What keeps a runtime from giving GPUs by CDI; None when nothing does."""
    runtime = state.at("containers", name)
    if runtime.is_null():
        return f"{name} is not installed"
    of = {"docker": _docker_fault, "containerd": _containerd_fault}.get(name)
    return too_old(name, runtime.text("version")) or (of(runtime) if of else None)


def _docker_fault(docker: View) -> str | None:
    docker.get(dict, "config")  # what cannot be read cannot be changed either
    if docker.is_null("daemon"):
        return "docker.service does not run"
    return _dirs_fault("the running docker daemon", docker.get(list, "daemon", "cdi_spec_dirs"))


def _containerd_fault(containerd: View) -> str | None:
    if containerd.is_null("config"):
        return "its CRI plugin is disabled (disabled_plugins in /etc/containerd/config.toml)"
    enabled, dirs = containerd.flag("config", "cdi"), containerd.get(list, "config", "spec_dirs")
    return _dirs_fault("containerd", dirs if enabled else [])


def _dirs_fault(who: str, dirs: list[object]) -> str | None:
    if not dirs:
        return f"CDI is off in {who}"
    if not {str(folder).rstrip("/") for folder in dirs} & set(DYNAMIC):
        return f"{who} looks for CDI specifications in {', '.join(map(str, dirs))} alone"
    return None


def at_risk(state: StateView) -> dict[str, str]:
    """Running docker containers that a `systemctl daemon-reload` takes the GPUs from, and why.

    systemd puts back the device rules it knows, and those of the legacy hook it does not
    (NVIDIA/nvidia-container-toolkit#48). Only with the systemd cgroup driver, and not for
    containers that got the devices explicitly, by CDI, or all of them (privileged).
    """
    docker = state.at("containers", "docker")
    if docker.is_null() or docker.is_null("daemon"):
        return {}
    running = docker.get(dict, "running")
    if docker.text("daemon", "cgroup_driver") != "systemd":
        return {}
    hooked = {"gpus": _gpus_hooked(docker)}
    if "runtime" in running.values():
        hooked["runtime"] = _runtime_hooked(state.raw("containers", "runtime_mode"), state)
    return {str(name): hooked[how] for name, how in running.items() if hooked.get(how)}


def _gpus_hooked(docker: View) -> str:
    dirs, version = docker.known(list, "daemon", "cdi_spec_dirs"), docker.known(str, "version")
    return "" if dirs and numbers(version or "") >= _GPUS_BY_CDI else "--gpus"


def _runtime_hooked(mode: object, state: StateView) -> str:
    toolkit = state.known(str, "packages", "nvidia-container-toolkit-base", "version") or ""
    legacy = mode == "legacy" or (mode in (None, "auto") and numbers(toolkit) < _JIT_CDI)
    return "--runtime nvidia in its legacy mode" if legacy else ""


def old_runc(state: StateView) -> str | None:
    """The version of a runc that loses devices at a daemon-reload even with CDI; None when new."""
    version = state.known(str, "containers", "docker", "daemon", "runc") or ""
    return version if version and numbers(version) < _RUNC else None


def cdi_faults(state: StateView) -> Iterator[tuple[str, str | Unread]]:
    """What is wrong with the CDI specifications of this node, or is unread, as (path, fault)."""
    specs = state.at("containers", "cdi")
    try:
        paths = specs.names()
    except Unread as error:
        yield "", error
        return
    if not any(path.startswith(tuple(f"{folder}/" for folder in DYNAMIC)) for path in paths):
        yield SPEC, f"no CDI specification for {KIND} in /var/run/cdi"
    for path in paths:
        try:
            yield from ((path, fault) for fault in _spec_faults(specs.at(path), state))
        except Unread as error:
            yield path, error
    yield from _conflicts(specs, paths)


def _spec_faults(spec: View, state: StateView) -> Iterator[str]:
    devices, missing = spec.names("devices"), spec.get(list, "missing")
    drivers, running = spec.get(list, "drivers"), state.text("nvml", "driver_version")
    yield from _device_faults(set(devices), state.gpus)
    if missing:
        yield f"it names what is not there: {_few(set(map(str, missing)))}"
    if not drivers:
        yield "it names no library of the driver"
    others = {str(version) for version in drivers} - {running}
    if others:
        yield f"it names libraries of driver {_few(others)}; {running} is running"


def _device_faults(devices: set[str], gpus: list[GpuView]) -> Iterator[str]:
    desired = {str(gpu.index) for gpu in gpus} | {"all"}
    if desired - devices:
        yield f"it does not name {_few(desired - devices)}"
    named = {name for name in devices if name.startswith("GPU-") and ":" not in name}
    known = {gpu.known(str, "uuid") for gpu in gpus}
    extra = {name for name in devices if is_digits(name)} - desired | named - known
    if extra:
        yield f"it names GPUs that are not there: {_few(extra)}"


def _conflicts(specs: View, paths: list[str]) -> Iterator[tuple[str, str]]:
    """The same name twice in one directory makes it unresolvable (CDI's cache.go)."""
    seen: dict[tuple[str, str], str] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        for name in specs.known(dict, path, "devices") or {}:
            other = seen.setdefault((folder, name), path)
            if other != path:
                # The one that is made again is not the one to take away.
                mine, its = (other, path) if path == SPEC else (path, other)
                yield mine, f"it names {KIND}={name}, as {its} does: neither can be used"
                break


def _few(names: set[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:3]) + (f" and {len(ordered) - 3} more" if len(ordered) > 3 else "")


def remedy(path: str, state: StateView) -> str:
    """What helps against a fault of a specification, by who makes it."""
    if path == SPEC:
        return f"systemctl restart {REFRESH}, which makes it again"
    if path in leftovers(state):
        return f"b200 deploy moves it away: {REFRESH} makes {SPEC} and nothing in /etc/cdi"
    return f"correct it or move it away: {REFRESH} makes {SPEC} alone"


def leftovers(state: StateView) -> list[str]:
    """Specifications in /etc/cdi that nvidia-ctk made: nobody refreshes them after an upgrade.

    /var/run/cdi goes before /etc/cdi, so they count where a refresh failed, and for what only they
    name; podman 5.1 to 5.5 reads nothing else (containers/common before 0.64).
    """
    specs = state.at("containers", "cdi")
    return [
        path
        for path in ("/etc/cdi/nvidia.json", "/etc/cdi/nvidia.yaml")
        if set(GENERATORS) & {str(hook) for hook in specs.known(list, path, "hooks") or []}
    ]
