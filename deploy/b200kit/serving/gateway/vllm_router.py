"""vllm-router behind HAProxy, for nodes whose inventory asks for it (`gateway.router`).

Two traps. Another project publishes a router under the same name, with the same module; what was
installed is recognized by its entry point. And of this one there are two programs, a Rust one and
the Python launcher that the wheel brings, whose flags differ: these are the launcher's, as its
`--help` has them in 0.1.17.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from b200kit.converge.stage import Change
from b200kit.inventory.keys.gateway import Router
from b200kit.node.placement.layout import Replica
from b200kit.node.serving.gateway.router import CONFIG
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit
from b200kit.node.weights.manifest import STAMP
from b200kit.run.node import Node
from b200kit.run.render import render
from b200kit.serving import engine_install

UNIT = "b200-router.service"
REQUIREMENTS = "/etc/b200kit/router-requirements.txt"
ENTRY = "vllm_router.launch_router:main"
_CHECK = """
import sys
from importlib.metadata import distribution
found = distribution("vllm-router")
entry = [e.value for e in found.entry_points if e.name == "vllm-router"]
if (found.version, entry) != (sys.argv[1], [sys.argv[2]]):
    sys.exit(f"b200kit: vllm-router {sys.argv[1]} was asked for; this is {found.version}, whose "
             f"program is {entry}: another version, or another project of the same name")
"""


def directory(node: Node, requested: Router) -> str:
    """Where it lies on the node, named by what is locked."""
    del node
    listed = Path(requested.requirements).read_bytes()
    return f"/opt/vllm-router/{hashlib.sha256(listed).hexdigest()[:12]}"


def arguments(requested: Router, max_body_mib: int) -> tuple[str, ...]:
    """Of the launcher. Replicas are added when they are known to be in rotation.

    Its health check is every 60 s and takes three to notice; a dead replica would be asked for
    three minutes. "Retries" counts the first attempt: with 2 a request that ends its replica was
    seen to end another (0.1.17).
    """
    flags = {
        "host": "127.0.0.1",
        "port": requested.port,
        "policy": requested.policy,
        "health-check-interval-secs": 2,
        "health-failure-threshold": 2,
        "health-success-threshold": 1,
        "retry-max-retries": 1,
        "request-timeout-secs": 3600,
        "max-payload-size": max_body_mib * 1048576,
        "prometheus-host": "127.0.0.1",
        "prometheus-port": requested.port + 1,
        "log-level": "warning",
    }
    return tuple(word for name, value in flags.items() for word in (f"--{name}", str(value)))


def files(node: Node, layout: Sequence[Replica], cpus: str) -> list[File]:
    """Requirements, unit, and who its replicas are; none where it is not asked for."""
    requested = node.spec.gateway.router
    if requested is None:
        return []
    restart = (f"restart:{UNIT}",)
    document = {
        "url": f"http://127.0.0.1:{requested.port}",
        "workers": {f"vllm{r.replica}": f"http://127.0.0.1:{r.port}" for r in layout},
    }
    program = f"{directory(node, requested)}/bin/vllm-router"
    words = shlex.join([program, *arguments(requested, node.spec.gateway.max_body_mib)])
    return [
        File(REQUIREMENTS, Path(requested.requirements).read_bytes()),
        File(str(CONFIG), json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"),
        File(
            f"/etc/systemd/system/{UNIT}",
            render("systemd/b200-router.service.j2", command=words, cpus=cpus),
            notify=restart,
        ),
    ]


def units(node: Node) -> tuple[NodeUnit, ...]:
    """Its unit, running."""
    return (NodeUnit(UNIT),) if node.spec.gateway.router else ()


def stamps(node: Node) -> tuple[str, ...]:
    """The file that says it is installed."""
    requested = node.spec.gateway.router
    return (f"{directory(node, requested)}/{STAMP}",) if requested else ()


def before_use(node: Node, changes: list[Change]) -> list[Change]:
    """The same changes, with its installation after the files and before anything is started."""
    requested = node.spec.gateway.router
    if requested is None or all(drift.is_present(path, node.state or {}) for path in stamps(node)):
        return changes
    written = sum(change.what.startswith("write ") for change in changes)
    install = Change(
        f"install vllm-router {requested.version}", lambda node: _install(node, requested)
    )
    return [*changes[:written], install, *changes[written:]]


def _install(node: Node, requested: Router) -> None:
    home = directory(node, requested)
    check = shlex.join([f"{home}/bin/python", "-I", "-c", _CHECK, requested.version, ENTRY])
    engine_install.into(node, home, REQUIREMENTS, "/var/log/b200kit-router.log", check)
