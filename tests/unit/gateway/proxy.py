"""A real HAProxy on loopback from the rendered configuration, and servers to put behind it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from b200kit.inventory.keys.gateway import Gateway, Router
from b200kit.inventory.keys.monitoring import Monitoring
from b200kit.inventory.secrets import Secret
from b200kit.node.serving.gateway import haproxy, rotation
from b200kit.serving.gateway import haproxy_config
from b200kit.serving.gateway.haproxy_config import BackendServer, GatewayEndpoint, Paths
from tests.lab.supply.programs import haproxy as program

ROOT = Path(__file__).resolve().parents[3]
KEYS = {"api_key": Secret(b"node-key")}


@dataclass(frozen=True)
class Proxy:
    """A running gateway."""

    url: str
    config: Path
    socket: Path
    kept: Path
    process: subprocess.Popen[bytes]

    def reload(self) -> None:
        """Read the configuration again, as the unit does."""
        rotation.reload(self.process.pid, self.socket, self.kept, self.config)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rendered(
    folder: Path,
    ports: Sequence[int],
    gateway: Gateway | None = None,
    secrets: Mapping[str, Secret] = KEYS,
    port: int = 0,
    weights: Sequence[int] = (),
    others: Sequence[GatewayEndpoint] = (),
    router: Router | None = None,
    monitoring: Monitoring | None = None,
    share_port: int | None = None,
) -> tuple[Path, Paths]:
    """The gateway's files under a folder; returns the configuration and where the rest lies."""
    paths = replace(
        Paths.under(str(folder)),
        socket=f"{folder}/admin", kept=f"{folder}/kept", metrics=f"{folder}/metrics",
        share=f"{folder}/share",
    )  # fmt: skip
    shares = weights or [100] * len(ports)
    servers = [BackendServer(f"vllm{n}", f"127.0.0.1:{p}", w)
               for n, (p, w) in enumerate(zip(ports, shares, strict=True))]  # fmt: skip
    own = GatewayEndpoint(
        "endpoint", "127.0.0.1", port or free_port(), "replicas", servers, router=router
    )
    for file in haproxy_config.files(
        gateway or Gateway(), [own, *others], secrets, paths, (), monitoring, share_port
    ):
        Path(file.path).write_bytes(file.content)
        Path(file.path).chmod(file.mode)
    config = Path(paths.config)
    # Its own user is the machine's, which a test has no business with.
    kept = [line for line in config.read_text().splitlines()
            if line.strip() not in ("user haproxy", "group haproxy")]  # fmt: skip
    config.write_text("\n".join(kept).replace("inter 2s", "inter 200ms") + "\n")
    return config, paths


def check(config: Path) -> subprocess.CompletedProcess[str]:
    """What HAProxy says of a configuration."""
    found = program()
    return subprocess.run(
        [found.path, "-c", "-f", str(config)],
        env=dict(found.environment), capture_output=True, text=True, check=False,
    )  # fmt: skip


@contextlib.contextmanager
def running(folder: Path, ports: Sequence[int], **changes: Any) -> Iterator[Proxy]:
    """A gateway before servers on these ports."""
    port = free_port()
    config, paths = rendered(folder, ports, port=port, **changes)
    with started(config, paths, port) as proxy:
        yield proxy


@contextlib.contextmanager
def started(config: Path, paths: Paths, port: int) -> Iterator[Proxy]:
    """HAProxy with a configuration, its servers found up."""
    found = program()
    process = subprocess.Popen(
        [found.path, "-W", "-f", str(config)],
        env=dict(found.environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=realtime,
    )  # fmt: skip
    admin = Path(paths.socket)
    try:
        _until(lambda: admin.exists() and haproxy.servers(admin) is not None)
        yield Proxy(f"http://127.0.0.1:{port}", config, admin, Path(paths.kept), process)
    finally:
        process.terminate()
        process.wait(300)


def realtime() -> None:
    """Before the others of this machine, where permitted: what is measured is the gateway."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


@contextlib.contextmanager
def mock(*arguments: str) -> Iterator[int]:
    """A mock server in a process of its own; its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.gateway.mock", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=realtime,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait(300)
        process.stdout.close()


def _until(true: Any, seconds: float = 120) -> None:
    """Return when something holds; errors of a gateway that is not up yet do not count."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(haproxy.HAProxyError):
            if true():
                return
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)


def until(true: Any, seconds: float = 120) -> None:
    """The same for tests."""
    _until(true, seconds)
