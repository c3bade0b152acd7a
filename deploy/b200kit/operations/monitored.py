"""The nodes of an inventory as a Prometheus sees them; nothing is connected to.

The inventory is read as a run reads it, in a process of its own (operations/mirror_needs.py).
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from b200kit.inventory import group
from b200kit.inventory.spec import NodeSpec
from b200kit.monitoring.targets import Member
from b200kit.node.lib import documents
from b200kit.operations import mirror_needs, preflight
from b200kit.operations.mirror_needs import NeedsUnknown

if TYPE_CHECKING:
    from pyinfra.api.host import Host


class InventoryRefused(Exception):
    """An inventory that cannot be read; one line a problem."""


def members(path: Path) -> list[Member]:
    """Every node, in the inventory's order. Raises InventoryRefused."""
    if not path.is_file():
        raise InventoryRefused(f"{path} is no file")
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "members.json"
        words = [sys.executable, "-m", __name__, str(answer), str(path)]
        done = subprocess.run(words, check=False, stdin=subprocess.DEVNULL)
        if not answer.is_file():
            raise InventoryRefused(f"{path} could not be read (exit code {done.returncode})")
        found = documents.decode(documents.Object, answer.read_bytes(), documents.LARGE)
    if problems := found["problems"]:
        raise InventoryRefused("\n".join(problems))
    return [Member(**{**one, "groups": tuple(one["groups"])}) for one in found["members"]]


def _read(path: Path) -> dict[str, Any]:
    try:
        hosts = mirror_needs.hosts(path)
    except NeedsUnknown as error:
        return {"problems": list(error.lines), "members": []}
    found = [(host, preflight.parsed(host, {})) for host in hosts]
    problems = [
        f"{path}: {host.name}: {each.key}: {each.message}"
        for host, spec in found
        if isinstance(spec, list)
        for each in spec
    ]
    known = [_member(host, spec) for host, spec in found if isinstance(spec, NodeSpec)]
    return {"problems": problems, "members": [asdict(one) for one in known]}


def _member(host: Host, spec: NodeSpec) -> Member:
    monitoring, role = spec.monitoring, _role(spec, host.name)
    offered = monitoring if role != "member" else None
    return Member(
        name=host.name,
        address=_address(spec, host.name, host.data.dict()),
        role=role,
        groups=tuple(sorted(host.groups)),
        port=offered.port if offered else None,
        secure=spec.gateway.certificate is not None,
        replicas=spec.replicas,
        node_exporter=offered.node_exporter if offered else None,
        dcgm=bool(spec.dcgm),
    )


def _role(spec: NodeSpec, name: str) -> str:
    """A member of a group that works for its head has no endpoint."""
    if group.headless(spec, name):
        return "member"
    return "head" if spec.group else "node"


def _address(spec: NodeSpec, name: str, data: Mapping[str, Any]) -> str:
    """Where the gateway listens; where SSH goes, if that is everywhere."""
    if not ipaddress.ip_address(spec.gateway_bind).is_unspecified:
        return spec.gateway_bind
    return str(spec.fleet_address or data.get("ssh_hostname") or name)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(_read(Path(sys.argv[2]))), encoding="utf-8")
