"""Docker: the daemon as it runs, its configuration, and how its containers got their GPUs.

Asked over its socket, and only where the daemon's process is there: opening the socket of a daemon
that does not run would start it.
"""

from __future__ import annotations

import http.client
import re
import shutil
import socket
from pathlib import Path
from typing import Any, TypeVar

from b200kit.node.lib import documents
from b200kit.node.lib.documents import LARGE, Object
from b200kit.node.lib.readings import absent, attempt, command, is_unmeasured

SOCKET = "/run/docker.sock"
PID = Path("/run/docker.pid")
CONFIG = Path("/etc/docker/daemon.json")
PROC = Path("/proc")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIMEOUT_S = 5.0
T = TypeVar("T")


class _Local(http.client.HTTPConnection):
    """HTTP over the daemon's socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(SOCKET)


def docker() -> dict[str, Any] | None:
    """Version, daemon, configuration and running containers; null when docker is not installed."""
    program = shutil.which("dockerd", path=PATH)
    if program is None:
        return None
    info = attempt(lambda: get("/info", Object)) if runs() else None
    return {
        "version": attempt(lambda: version(program, info)),
        "daemon": attempt(lambda: daemon(info)),
        "config": attempt(config),
        "running": attempt(containers) if info else {},
    }


def runs() -> bool:
    """Whether the process of the daemon's pid file is a docker daemon."""
    pid = absent(PID)
    return bool(pid) and absent(PROC / str(pid) / "comm") == "dockerd"


def get(path: str, kind: type[T]) -> T | None:
    """The daemon's answer, None where there is no such thing; raises OSError or ValueError."""
    connection = _Local("docker", timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read(LARGE + 1)
    except http.client.HTTPException as error:
        raise OSError(f"docker's socket: {type(error).__name__}") from None
    finally:
        connection.close()
    if answer.status == http.HTTPStatus.NOT_FOUND:
        return None
    if answer.status != http.HTTPStatus.OK:
        raise OSError(f"docker answers {answer.status} to {path}")
    return documents.decode(kind, content, LARGE, f"docker's {path}")


def version(program: str, info: Any) -> str:
    """Of the daemon that runs, else of the program on disk."""
    if isinstance(info, dict) and info.get("ServerVersion"):
        return str(info["ServerVersion"])
    return number(command([program, "--version"]))


def number(output: str) -> str:
    """The version in what a program says to --version."""
    match = re.search(r"\bv?([0-9]+\.[0-9]+\S*?),?(\s|$)", output)
    if not match:
        raise ValueError(f"no version in {output.strip()[:60]!r}")
    return match[1]


def daemon(info: Any) -> Any:
    """What the daemon runs with; null when it does not run."""
    if not isinstance(info, dict) or is_unmeasured(info):
        return info
    return {
        "cdi_spec_dirs": info.get("CDISpecDirs") or [],
        "cgroup_driver": str(info.get("CgroupDriver")),
        "live_restore": info.get("LiveRestoreEnabled") is True,
        "runc": str((info.get("RuncCommit") or {}).get("ID", "")),
    }


def config() -> dict[str, Any]:
    """What daemon.json says of CDI; raises ValueError for what is no JSON object."""
    document = documents.decode(Object, absent(CONFIG) or "{}", source=CONFIG)
    features = document.get("features")
    return {
        "cdi": features.get("cdi") if isinstance(features, dict) else None,
        "spec_dirs": document.get("cdi-spec-dirs"),
    }


def containers() -> dict[str, str]:
    """Running container to how it got its GPUs, as in `way`."""
    listed = get("/containers/json", list[Object]) or []
    found = (get(f"/containers/{entry['Id']}/json", Object) for entry in listed)
    # One that is gone since it was listed is no longer running.
    return {str(one["Name"]).lstrip("/"): way(one["HostConfig"]) for one in found if one}


def way(host: dict[str, Any]) -> str:
    """How a container gets GPUs: privileged, devices, cdi, gpus, runtime or none.

    "gpus" is `--gpus`, "devices" is `--device /dev/nvidia0`, "runtime" is `--runtime nvidia`.
    """
    requests = host.get("DeviceRequests") or []
    asks_gpu = any("gpu" in some for one in requests for some in one.get("Capabilities") or [])
    devices = [str(device.get("PathOnHost")) for device in host.get("Devices") or []]
    ways = {
        "privileged": bool(host.get("Privileged")),
        "devices": any(path.startswith("/dev/nvidia") for path in devices),
        "cdi": any(one.get("Driver") == "cdi" for one in requests),
        "gpus": asks_gpu or any(str(one.get("Driver")).startswith("nvidia") for one in requests),
        "runtime": "nvidia" in str(host.get("Runtime")),
    }
    return next((name for name, is_so in ways.items() if is_so), "none")
